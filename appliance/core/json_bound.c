#include "jupyter.h"

/* One pass over the bytes, aware of strings only: what JSON would allocate. */
static bool json_within(const char *at, size_t len, size_t values_max, unsigned depth_max)
{
	const char *end = at + len;
	size_t values = 1;
	unsigned depth = 0;
	bool quoted = false;

	for (; at < end; at++) {
		if (quoted) {
			if (*at == '\\')
				at++;
			else if (*at == '"')
				quoted = false;
			continue;
		}
		switch (*at) {
		case '"':
			quoted = true;
			break;
		case '[':
		case '{':
			if (++depth > depth_max)
				return false;
			values++;
			break;
		case ']':
		case '}':
			if (depth > 0)
				depth--;
			break;
		case ',':
			values++;
			break;
		default:
			break;
		}
		if (values > values_max)
			return false;
	}
	return true;
}

json_t *json_parse_bounded(const char *bytes, size_t len, size_t values_max, unsigned depth_max)
{
	json_error_t error;

	if (!json_within(bytes, len, values_max, depth_max))
		return NULL;
	/* JSON_ALLOW_NUL: a program may print a NUL; every reader here is length-aware. */
	return json_loadb(bytes, len, JSON_ALLOW_NUL, &error);
}
