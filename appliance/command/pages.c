/* Lists of the appliance, page by page, and what is read from their rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { PAGES_MAX = 1000 }; /* an appliance that never says null must not keep us for ever */

/* The page at path; its rows are appended. ret_next: the cursor, allocated, or NULL at the end. */
static int fetch_page(struct command *c, const char *path, const char *name, json_t *rows, char **ret_next)
{
	json_t *answer = NULL;
	struct reply reply;
	const char *next;

	if (http_json(&c->http, "GET", path, NULL, &answer, &reply) < 0)
		return complain_reply(c, EXIT_FAILED, &reply);
	json_array_extend(rows, json_object_get(answer, name));
	next = text_of(answer, "next");
	*ret_next = next ? strdup(next) : NULL;
	json_decref(answer);
	return EXIT_OK;
}

int fetch_pages(struct command *c, const char *path, const char *name, size_t max, json_t *rows)
{
	char *at = strdup(path), *before = NULL;
	int code = EXIT_OK;

	if (!at || asprintf(&before, "%s&cursor=", path) < 0) {
		free(at);
		return complain(EXIT_FAILED, "Out of memory.");
	}
	for (int page = 0; at && page < PAGES_MAX; page++) {
		char *next = NULL;

		code = fetch_page(c, at, name, rows, &next);
		free(at);
		at = next && (max == 0 || json_array_size(rows) < max) ? http_path(before, next) : NULL;
		free(next);
	}
	free(at);
	free(before);
	while (max && json_array_size(rows) > max)
		json_array_remove(rows, json_array_size(rows) - 1);
	return code;
}

const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

const char *time_text(const char *time, char ret[20])
{
	if (!time)
		return "-";
	snprintf(ret, 20, "%s", time);
	for (char *at = ret; *at; at++)
		if (*at == 'T')
			*at = ' ';
	return ret;
}
