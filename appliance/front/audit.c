/* GET /v1/audit: the rows of the audit as JSON lines, a page at a time. */
#include "../store/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "handlers.h"
#include "respond.h"
#include "rfc3339.h"

int query_time(struct request *r, const char *name, int64_t *ret_ms, struct fault *f)
{
	const char *text;
	int err = target_query(&r->target, name, &text, f);

	if (err || !text || !*text)
		return err;
	if (rfc3339_parse(text, ret_ms))
		return fault_field(f, "bad_time", name,
				   "%s must be a time as in 2027-01-31T23:59:59Z (RFC 3339).", name);
	return 0;
}

int query_owner(struct request *r, const char **ret, struct fault *f)
{
	int err = target_query(&r->target, "owner", ret, f);

	if (err)
		return err;
	if (*ret && !**ret)
		*ret = NULL;
	if (r->admin)
		return 0;
	/* Another owner is one that never existed. */
	if (*ret && strcmp(*ret, r->owner) != 0)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such owner.");
	*ret = r->owner;
	return 0;
}

static int query_read(struct request *r, struct audit_query *q, struct fault *f)
{
	uint64_t after, limit;
	int err = query_owner(r, &q->owner_id, f);

	if (!err)
		err = target_query(&r->target, "sandbox", &q->sandbox_id, f);
	if (!err)
		err = query_time(r, "since", &q->since_ms, f);
	if (!err)
		err = query_time(r, "until", &q->until_ms, f);
	if (!err)
		err = target_query_number(&r->target, "after", 0, INT64_MAX, 0, &after, f);
	if (!err)
		err = target_query_number(&r->target, "limit", 1, AUDIT_PAGE_MAX, AUDIT_PAGE_MAX, &limit, f);
	if (err)
		return err;
	q->after = (int64_t)after;
	q->limit = (unsigned)limit;
	return 0;
}

int audit_lines(struct request *r, struct fault *f)
{
	struct audit_query q = { .owner_id = NULL };
	char *lines;
	size_t len;
	int err = query_read(r, &q, f);

	if (err)
		return err;
	err = store_audit_lines(r->store, &q, &lines, &len);
	if (err)
		return store_fault(f, err, "row");
	err = respond_head(r, 200, "application/x-ndjson", (int64_t)len, "");
	if (!err && !r->head_only)
		err = respond_write(r, lines, len);
	free(lines);
	return err;
}
