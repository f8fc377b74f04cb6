/* GET /v1/usage: what owners' sandboxes cost, as JSON or as a table for a spreadsheet. */
#include "../store/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "handlers.h"
#include "respond.h"
#include "rfc3339.h"

enum { DEFAULT_DAYS = 30 };

static int query_tag(struct request *r, const char **ret, struct fault *f)
{
	int err = target_query(&r->target, "tag", ret, f);

	if (err)
		return err;
	if (*ret && !**ret)
		*ret = NULL;
	if (*ret && (strlen(*ret) > USAGE_TAG_MAX || strchr(*ret, '"')))
		return fault_field(f, "bad_query", "tag",
				   "tag is a key of metadata: at most %d bytes, without quotation marks.", USAGE_TAG_MAX);
	return 0;
}

static int query_format(struct request *r, bool *ret_csv, struct fault *f)
{
	const char *word, *accept = FCGX_GetParam("HTTP_ACCEPT", r->fcgi->envp);
	int err = target_query(&r->target, "format", &word, f);

	if (err)
		return err;
	if (word && strcmp(word, "csv") != 0 && strcmp(word, "json") != 0)
		return fault_field(f, "bad_query", "format", "format is json or csv.");
	*ret_csv = word ? word[0] == 'c' : accept && strstr(accept, "text/csv");
	return 0;
}

/* A field of CSV. What a spreadsheet would take for a formula gets an apostrophe in front: values are foreign text. */
static void csv_text(FILE *out, const char *text)
{
	fputc('"', out);
	if (strchr("=+-@\t\r", text[0]) && text[0])
		fputc('\'', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void csv_row(FILE *out, json_t *row, const char *tag)
{
	const char *value = json_string_value(json_object_get(row, "value")), *reason, *between = "";
	json_t *ends = json_object_get(row, "ends"), *count;

	csv_text(out, json_string_value(json_object_get(row, "owner_id")));
	fputc(',', out);
	csv_text(out, json_string_value(json_object_get(row, "owner")));
	fputc(',', out);
	csv_text(out, tag ? tag : "");
	fputc(',', out);
	csv_text(out, value ? value : "");
	fprintf(out, ",%lld,%.3f,%.3f,%lld,\"", (long long)json_integer_value(json_object_get(row, "sandboxes")),
		json_real_value(json_object_get(row, "cpu_s")), json_real_value(json_object_get(row, "mib_s")),
		(long long)json_integer_value(json_object_get(row, "bytes_stored")));
	json_object_foreach(ends, reason, count)
	{
		fprintf(out, "%s%s=%lld", between, reason, (long long)json_integer_value(count));
		between = " ";
	}
	fputs("\"\r\n", out);
}

static int respond_csv(struct request *r, json_t *rows, const char *tag, struct fault *f)
{
	char *text = NULL;
	size_t len = 0, i;
	FILE *out = open_memstream(&text, &len);
	json_t *row;
	int err;

	if (!out)
		return fault_no_memory(f);
	fputs("owner_id,owner,tag,value,sandboxes,cpu_s,mib_s,bytes_stored,ends\r\n", out);
	json_array_foreach(rows, i, row) csv_row(out, row, tag);
	if (fclose(out) != 0) {
		free(text);
		return fault_no_memory(f);
	}
	err = respond_head(r, 200, "text/csv; charset=utf-8", (int64_t)len, "");
	if (!err && !r->head_only)
		err = respond_write(r, text, len);
	free(text);
	return err;
}

static int respond_usage(struct request *r, const struct usage_query *q, json_t *rows, struct fault *f)
{
	char since[RFC3339_SIZE], until[RFC3339_SIZE];
	json_t *body;

	rfc3339_format(q->since_ms - q->since_ms % (3600 * 1000), since);
	rfc3339_format(q->until_ms, until);
	body = json_pack("{s:s, s:s, s:s?, s:O}", "since", since, "until", until, "tag", q->tag, "usage", rows);
	return body ? respond_json(r, 200, body, f) : fault_no_memory(f);
}

int usage_get(struct request *r, struct fault *f)
{
	struct usage_query q = { .until_ms = time(NULL) * 1000LL };
	json_t *rows;
	bool csv = false;
	int err = query_owner(r, &q.owner_id, f);

	q.since_ms = q.until_ms - DEFAULT_DAYS * 24LL * 3600 * 1000;
	if (!err)
		err = query_time(r, "since", &q.since_ms, f);
	if (!err)
		err = query_time(r, "until", &q.until_ms, f);
	if (!err)
		err = query_tag(r, &q.tag, f);
	if (!err)
		err = query_format(r, &csv, f);
	if (err)
		return err;
	err = store_usage(r->store, &q, &rows);
	if (err)
		return store_fault(f, err, "usage");
	err = csv ? respond_csv(r, rows, q.tag, f) : respond_usage(r, &q, rows, f);
	json_decref(rows);
	return err;
}
