#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "agent.h"
#include "files.h"
#include "tail.h"
#include "util.h"
#include "worker.h"

/* One listing: the first `limit` names after `after`, sorted by their bytes. No
 * more names than that are kept, however many the folder has. */
struct listing {
	struct request *rq;
	char *path, *after;
	size_t limit, count;
	char **names; /* sorted; room for limit + 1 */
	json_t *entries;
	bool more;
	int err;
};

static void name_add(struct listing *l, const char *name)
{
	size_t low = 0, high = l->count;

	if (l->after && strcmp(name, l->after) <= 0)
		return;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(l->names[mid], name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == l->limit) {
		l->more = true;
		return;
	}
	memmove(l->names + low + 1, l->names + low, (l->count - low) * sizeof(*l->names));
	l->names[low] = xstrdup(name);
	if (++l->count > l->limit) {
		l->more = true;
		free(l->names[--l->count]);
	}
}

static const char *type_name(mode_t mode)
{
	if (S_ISREG(mode))
		return "file";
	if (S_ISDIR(mode))
		return "dir";
	return S_ISLNK(mode) ? "symlink" : "other";
}

static json_t *time_json(const struct timespec *ts)
{
	char date[32], text[48];
	struct tm tm;

	gmtime_r(&ts->tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03ldZ", date, ts->tv_nsec / 1000000);
	return json_string(text);
}

static void entry_add(struct listing *l, int dirfd, const char *name)
{
	cleanup_free char *path =
		xasprintf("%s%s%s", l->path, l->path[strlen(l->path) - 1] == '/' ? "" : "/", name);
	struct stat st;

	/* Gone meanwhile. */
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	json_array_append_new(l->entries,
			      json_pack("{s:o, s:o, s:s, s:I, s:i, s:o}", "name",
					text_json(name, strlen(name)), "path", text_json(path, strlen(path)),
					"type", type_name(st.st_mode), "size", (json_int_t)st.st_size, "mode",
					(int)(st.st_mode & 07777), "mtime", time_json(&st.st_mtim)));
}

static void list_work(void *arg)
{
	struct listing *l = arg;
	DIR *dir = opendir(l->path);
	struct dirent *de;
	size_t i;

	if (!dir) {
		l->err = -errno;
		return;
	}
	while ((de = readdir(dir)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			name_add(l, de->d_name);
	l->entries = json_array();
	for (i = 0; i < l->count; i++)
		entry_add(l, dirfd(dir), l->names[i]);
	closedir(dir);
}

static void list_done(void *arg)
{
	struct listing *l = arg;
	const char *last = l->count ? l->names[l->count - 1] : "";
	size_t i;

	if (l->err)
		files_fail(l->rq, l->err, l->path);
	else
		request_answer(l->rq, 200,
			       json_pack("{s:o, s:o}", "entries", l->entries, "next",
					 l->more ? text_json(last, strlen(last)) : json_null()));
	for (i = 0; i < l->count; i++)
		free(l->names[i]);
	free(l->names);
	free(l->after);
	free(l->path);
	free(l);
}

void files_list(struct request *rq)
{
	cleanup_free char *limit = request_query(rq, "limit", 8);
	char *end = NULL, *path;
	struct listing *l;
	long n = limit ? strtol(limit, &end, 10) : FILE_LIST_DEFAULT;

	if (n < 1 || n > FILE_LIST_MAX || (end && *end))
		return request_fail(rq, 400, "bad_request", "\"limit\" must be a whole number from 1 to %d.",
				    FILE_LIST_MAX);
	path = files_path(rq);
	if (!path)
		return;
	l = xcalloc(1, sizeof(*l));
	l->rq = rq;
	l->path = path;
	l->after = request_query(rq, "after", FILE_PATH_MAX);
	l->limit = (size_t)n;
	l->names = xcalloc(l->limit + 1, sizeof(*l->names));
	worker_run(rq->agent, true, list_work, list_done, l);
}
