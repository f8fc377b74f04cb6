#include "qmp.h"

#include <errno.h>
#include <string.h>

static int reader_line(struct qmp_reader *r, int (*message)(json_t *object, void *arg), void *arg)
{
	json_t *object;
	int err;

	while (r->used > 0 && (r->line[r->used - 1] == '\r' || r->line[r->used - 1] == ' '))
		r->used--;
	if (r->used == 0)
		return 0;
	object = json_loadb(r->line, r->used, JSON_REJECT_DUPLICATES, NULL);
	r->used = 0;
	if (!json_is_object(object)) {
		json_decref(object);
		return -EBADMSG;
	}
	err = message(object, arg);
	json_decref(object);
	return err;
}

int qmp_reader_feed(struct qmp_reader *r, const char *bytes, size_t n,
		    int (*message)(json_t *object, void *arg), void *arg)
{
	while (n > 0) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;
		int err;

		if (part > sizeof(r->line) - r->used)
			return -EMSGSIZE;
		memcpy(r->line + r->used, bytes, part);
		r->used += part;
		if (!end)
			return 0;
		err = reader_line(r, message, arg);
		if (err)
			return err;
		bytes = end + 1;
		n -= part + 1;
	}
	return 0;
}
