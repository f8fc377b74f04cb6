#include "json_in.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "decode.h"

static bool json_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!text[i] || !strchr(" \t\r\n", text[i]))
			return false;
	return true;
}

/* Deepest nesting, counted outside strings; right for valid JSON, harmless for the rest. */
static unsigned json_depth(const char *text, size_t len)
{
	unsigned depth = 0, deepest = 0;
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				string = false;
		} else if (c == '"') {
			string = true;
		} else if (c == '{' || c == '[') {
			depth++;
			deepest = depth > deepest ? depth : deepest;
		} else if (c == '}' || c == ']') {
			depth -= depth > 0;
		}
	}
	return deepest;
}

int json_in_parse(const char *text, size_t len, json_t **ret, struct fault *f)
{
	json_error_t error;
	json_t *body;

	if (json_blank(text, len)) {
		body = json_object();
		if (!body)
			return fault_no_memory(f);
		*ret = body;
		return 0;
	}
	if (!utf8_ok(text, len))
		return fault_set(f, EINVAL, 400, "bad_utf8",
				 "The body is not UTF-8; JSON must be sent as UTF-8.");
	if (json_depth(text, len) > JSON_IN_DEPTH_MAX)
		return fault_set(f, EINVAL, 400, "too_deep", "The body nests deeper than %d levels.",
				 JSON_IN_DEPTH_MAX);
	body = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!body)
		return fault_set(f, EINVAL, 400, "bad_json",
				 "The body is not valid JSON: %s (line %d, column %d).", error.text,
				 error.line, error.column);
	if (!json_is_object(body)) {
		json_decref(body);
		return fault_set(f, EINVAL, 400, "bad_json", "The body must be a JSON object: {…}.");
	}
	*ret = body;
	return 0;
}
