#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "handlers.h"
#include "respond.h"
#include "stream.h"

enum {
	FILE_CHUNK = 64 * 1024,
	PATH_MAX_BYTES = 4095, /* what the guest's kernel takes */
	/* A sandbox that takes no byte of a file for this long has stalled. */
	FILE_STALL_MS = 60 * 1000,
};

static int path_check(const char *path, struct fault *f)
{
	return strlen(path) > PATH_MAX_BYTES
		       ? fault_field(f, "out_of_range", "path", "path must be at most %d bytes long.",
				     PATH_MAX_BYTES)
		       : 0;
}

static int query_path(struct request *r, const char **ret, struct fault *f)
{
	int err = target_query(&r->target, "path", ret, f);

	if (err)
		return err;
	if (!*ret || !**ret)
		return fault_field(
			f, "missing_field", "path",
			"path is missing: say which file, as in ?path=data.csv (relative to /home/user).");
	return path_check(*ret, f);
}

/* Client to sandbox, to the end of the body. On a failure *f says whose it was. */
static int put_copy(struct request *r, struct bytepipe *in, struct fault *f)
{
	char *buf = malloc(FILE_CHUNK);
	int64_t announced = request_length(r), got = 0;
	int n = -1, err = 0;

	if (!buf)
		return fault_no_memory(f);
	while (!err && (n = request_read(r, buf, FILE_CHUNK)) > 0) {
		got += n;
		err = bytepipe_write(in, buf, (size_t)n, -1, FILE_STALL_MS);
	}
	free(buf);
	if (err == -ETIMEDOUT)
		return fault_set(f, ETIMEDOUT, 503, "sandbox_stalled",
				 "The sandbox took no byte for %d seconds.", FILE_STALL_MS / 1000);
	if (err)
		return fault_set(f, -err, 503, "sandbox_gone", "The sandbox stopped taking the file.");
	if (n < 0 || (announced >= 0 && got != announced))
		return fault_set(f, EPIPE, 400, "body_incomplete",
				 "The upload ended after %lld bytes, before its end; nothing was replaced.",
				 (long long)got);
	return 0;
}

int files_put(struct request *r, struct fault *f)
{
	struct fault copy = { .status = 0 };
	struct file_put *put;
	struct bytepipe *in;
	const char *path;
	bool created = false;
	json_t *answer;
	int err = query_path(r, &path, f), copied;

	if (!err)
		err = core_file_put_begin(r->core, r->owner, r->id, path, &put, &in, f);
	if (err)
		return err;
	copied = put_copy(r, in, &copy);
	bytepipe_worker_close(in, copied ? &copy : NULL);
	/* The sandbox's own reason (disk full, a directory) says more than "stopped taking". */
	err = core_file_put_finish(put, &answer, &created, f);
	if (err && copied == -EPIPE && copy.status == 400)
		*f = copy;
	if (err)
		return err;
	return respond_json(r, created ? 201 : 200, answer, f);
}

int files_get(struct request *r, struct fault *f)
{
	struct bytepipe *out;
	const char *path;
	int64_t size;
	int err = query_path(r, &path, f);

	if (!err)
		err = core_file_get(r->core, r->owner, r->id, path, &out, &size, f);
	return err ? err : stream_bytes(r, out, size, f);
}

int files_delete(struct request *r, struct fault *f)
{
	const char *path;
	uint64_t recursive;
	int err = query_path(r, &path, f);

	if (!err)
		err = target_query_number(&r->target, "recursive", 0, 1, 0, &recursive, f);
	if (!err)
		err = core_file_delete(r->core, r->owner, r->id, path, recursive == 1, f);
	return err ? err : respond_empty(r, 204);
}

int files_list(struct request *r, struct fault *f)
{
	const char *path, *cursor;
	unsigned limit;
	json_t *list;
	int err = target_query(&r->target, "path", &path, f);

	if (!err && path)
		err = path_check(path, f);
	if (!err)
		err = list_window(r, &limit, &cursor, f);
	if (!err)
		err = core_file_list(r->core, r->owner, r->id, path && *path ? path : "/home/user", limit,
				     cursor, &list, f);
	return err ? err : respond_json(r, 200, list, f);
}
