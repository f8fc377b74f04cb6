/* What the whole core's tests stand on: a state directory with a tiny image, the
 * core on the scripted engine, and its verbs as a front door uses them. */
#ifndef CARREL_TESTS_CORE_STAGE_H
#define CARREL_TESTS_CORE_STAGE_H

#include <poll.h>
#include <sys/stat.h>

#include "appliance/core/core.h"
#include "core_fake.h"
#include "store_setup.h"

static struct setup u;
static struct settings settings;
static struct core *core;

/* --- the stage --- */

static void file_make(const char *dir, const char *name, const char *text, off_t size)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	if (size)
		CHECK_INT(ftruncate(fd, size), 0);
	close(fd);
}

static void dir_make(const char *fmt)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", u.dir, fmt);
	CHECK_INT(mkdir(path, 0700), 0);
}

static void stage(void)
{
	setup_begin(&u);
	/* The setup's own sandbox row is one that did not outlive anything. */
	dir_make("run");
	dir_make("image");
	dir_make("cache");
	dir_make("cache/snapshots");
	dir_make("cache/images");
	dir_make("cache/images/hash1");
	settings = (struct settings){
		/* Else one that is paused ends at once. */
		.paused_keep_s = 3600,
		.engine = "auto", .template_name = "python", .memory_mb = 6000, .sandboxes_per_owner = 4, .cpu_share = 16
	};
	snprintf(settings.state, sizeof(settings.state), "%s", u.dir);
	snprintf(settings.run, sizeof(settings.run), "%s/run", u.dir);
	snprintf(settings.cache, sizeof(settings.cache), "%s/cache", u.dir);
	snprintf(settings.image, sizeof(settings.image), "%s/image", u.dir);
	file_make(settings.image, "manifest.json",
		  "{\"hash\":\"hash1\",\"template\":\"python\",\"built_at\":\"now\"}", 0);
	file_make(settings.image, "template.json", "{\"limits\":{\"memory_mb\":512}}", 0);
	file_make(settings.image, "rootfs.ext4", "root", 0);
	file_make(settings.image, "guest.ext4", "guest", 0);
	file_make(settings.image, "scratch.ext4", "scratch", (off_t)1024 << 20);
	file_make(settings.image, "vmlinux", "kernel", 0);
	file_make(settings.image, "initrd", "initrd", 0);
}

static void core_begin(void)
{
	struct fault f;
	char why[320];

	if (core_start(&settings, u.store, &core, &f) < 0) {
		fprintf(stderr, "%s\n", f.message);
		exit(1);
	}
	while (!core_ready(core, why, sizeof(why)))
		usleep(2000);
}

/* --- verbs --- */

static int create_as(const char *owner, unsigned timeout_s, json_t **ret, struct fault *f)
{
	json_t *none = json_object();
	struct sandbox_spec spec = { .template_name = "python",
				     .engine = "auto",
				     .timeout_s = timeout_s,
				     .limits = { .memory_mb = 512, .disk_mb = 1024, .cpus = 1 },
				     .env = none,
				     .metadata = none };
	int err = core_sandbox_create(core, owner, &spec, ret, f);

	json_decref(none);
	return err;
}

static void create(char id[STORE_ID_MAX], const char *started)
{
	struct fault f = { 0 };
	json_t *sandbox;
	int err = create_as(u.owner, 300, &sandbox, &f);

	if (err)
		fprintf(stderr, "create: %s\n", f.message);
	CHECK_INT(err, 0);
	CHECK_STR(text_of(sandbox, "state"), "running");
	CHECK_STR(text_of(sandbox, "started"), started);
	snprintf(id, STORE_ID_MAX, "%s", text_of(sandbox, "id"));
	json_decref(sandbox);
}

static void delete (const char *id)
{
	struct fault f;

	CHECK_INT(core_sandbox_delete(core, u.owner, id, &f), 0);
}

struct run {
	char id[STORE_ID_MAX];
	struct xlog *log;
};

static int execute(const char *sandbox, const char *code, unsigned timeout_s, json_t *env, struct run *ret,
		   struct fault *f)
{
	struct execute_spec spec = { .code = code, .timeout_s = timeout_s, .env = env };

	return core_execute(core, u.owner, sandbox, &spec, ret->id, &ret->log, f);
}

static struct run start(const char *sandbox, const char *code, unsigned timeout_s)
{
	struct fault f = { 0 };
	struct run r;
	int err = execute(sandbox, code, timeout_s, NULL, &r, &f);

	if (err)
		fprintf(stderr, "execute: %s\n", f.message);
	CHECK_INT(err, 0);
	return r;
}

/* All events until the end. */
static json_t *events_of(struct run *r)
{
	char *buf = malloc(XLOG_LINE_MAX + 1), *line, *end;
	json_t *events = json_array();
	struct xlog_reader *reader;
	ssize_t n;

	CHECK_INT(xlog_reader_new(r->log, 0, &reader), 0);
	while ((n = xlog_reader_read(reader, buf, XLOG_LINE_MAX + 1)) != -ENODATA) {
		struct pollfd p = { .fd = xlog_reader_fd(reader), .events = POLLIN };

		CHECK(n >= 0);
		if (n == 0)
			CHECK(poll(&p, 1, 30000) == 1);
		for (line = buf; line < buf + n; line = end + 1) {
			end = memchr(line, '\n', (size_t)(buf + n - line));
			json_array_append_new(events, json_loadb(line, (size_t)(end - line), 0, NULL));
		}
	}
	xlog_reader_free(reader);
	xlog_unref(r->log);
	free(buf);
	return events;
}

static json_t *event(json_t *events, const char *type)
{
	json_t *each;
	size_t i;

	json_array_foreach(events, i, each)
	{
		CHECK_INT(json_integer_value(json_object_get(each, "seq")), i + 1);
		if (strcmp(text_of(each, "type"), type) == 0)
			return each;
	}
	return NULL;
}

/* The end, which is the last event and the only one of its kind; and its row agrees. */
static json_t *end_of(struct run *r, json_t *events)
{
	json_t *end = event(events, "end"), *row;

	CHECK(end && json_array_get(events, json_array_size(events) - 1) == end);
	CHECK_INT(store_execution_get(u.store, u.owner, r->id, &row), 0);
	CHECK_STR(text_of(row, "status"), text_of(end, "status"));
	CHECK(text_of(row, "ended_at"));
	json_decref(row);
	return end;
}

static void expect(const char *sandbox, const char *code, unsigned timeout_s, const char *status,
		   const char *type)
{
	struct run r = start(sandbox, code, timeout_s);
	json_t *events = events_of(&r);

	CHECK_STR(text_of(end_of(&r, events), "status"), status);
	if (type)
		CHECK(event(events, type));
	json_decref(events);
}

static void wait_started(struct run *r)
{
	char *buf = malloc(XLOG_LINE_MAX + 1);
	struct xlog_reader *reader;
	ssize_t n;

	CHECK_INT(xlog_reader_new(r->log, 0, &reader), 0);
	for (;;) {
		struct pollfd p = { .fd = xlog_reader_fd(reader), .events = POLLIN };

		n = xlog_reader_read(reader, buf, XLOG_LINE_MAX + 1);
		if (n > 0 && (buf[n - 1] = '\0', strstr(buf, "\"started\"")))
			break;
		CHECK(n >= 0 && poll(&p, 1, 30000) == 1);
	}
	xlog_reader_free(reader);
	free(buf);
}

static void sandbox_ended(const char *id, const char *reason)
{
	json_t *row;
	int tries;

	for (tries = 0; tries < 5000; tries++) {
		CHECK_INT(store_sandbox_get(u.store, u.owner, id, &row), 0);
		if (strcmp(text_of(row, "state"), "ended") == 0)
			break;
		json_decref(row);
		usleep(2000);
	}
	CHECK(tries < 5000);
	CHECK_STR(text_of(row, "end_reason"), reason);
	json_decref(row);
}

#endif
