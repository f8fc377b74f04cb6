/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The disk fills under sandboxes: their ends are told from memory, and stored once
 * there is room, with their reasons. */
#include <signal.h>
#include <sys/resource.h>

#include "core_stage.h"

/* Every file's bytes past the first few are refused, as a full disk refuses them. */
static void disk_fill(bool full)
{
	struct rlimit limit;

	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = full ? 16 : limit.rlim_max;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static json_t *execution_wait(const char *id, const char *status)
{
	json_t *row;
	int tries;

	for (tries = 0; tries < 5000; tries++) {
		CHECK_INT(store_execution_get(u.store, u.owner, id, &row), 0);
		if (strcmp(text_of(row, "status"), status) == 0)
			return row;
		json_decref(row);
		usleep(2000);
	}
	CHECK(!"it ends");
	return NULL;
}

/* How a reader's stream ends: -ENODATA after `end`, the error of the disk without. */
static ssize_t stream_end(const char *id)
{
	char *buf = malloc(XLOG_LINE_MAX + 1);
	struct xlog_reader *reader;
	struct xlog *log;
	ssize_t n;

	CHECK_INT(store_log_open(u.store, u.owner, id, &log), 0);
	CHECK_INT(xlog_reader_new(log, 0, &reader), 0);
	while ((n = xlog_reader_read(reader, buf, XLOG_LINE_MAX + 1)) >= 0) {
		struct pollfd p = { .fd = xlog_reader_fd(reader), .events = POLLIN };

		if (n == 0)
			CHECK(poll(&p, 1, 30000) == 1);
	}
	xlog_reader_free(reader);
	xlog_unref(log);
	free(buf);
	return n;
}

static unsigned listed(const char *state, const char *id)
{
	json_t *list, *each;
	unsigned found = 0;
	size_t i;

	CHECK_INT(store_sandbox_list(u.store, u.owner, state, NULL, 100, NULL, &list), 0);
	json_array_foreach(json_object_get(list, "sandboxes"), i, each)
		found += strcmp(text_of(each, "id"), id) == 0;
	json_decref(list);
	return found;
}

/* A cell prints while the disk is full. Its stream breaks, and then has an end. */
static void full_under_a_cell(void)
{
	char id[STORE_ID_MAX];
	struct run cell, next, queued;
	json_t *row, *events, *end;
	struct fault f;

	create(id, "clone");
	cell = start(id, "hang", 0);
	wait_started(&cell);
	next = start(id, "hang", 0);
	queued = start(id, "print x", 0);
	disk_fill(true);
	CHECK_INT(core_execution_interrupt(core, u.owner, cell.id, &f), 0);
	sandbox_ended(id, "host-disk-full");
	row = execution_wait(cell.id, "died");
	CHECK_STR(text_of(row, "reason"), "host-disk-full");
	CHECK(text_of(row, "ended_at"));
	json_decref(row);
	row = execution_wait(queued.id, "cancelled");
	json_decref(row);
	CHECK_INT(stream_end(cell.id), -ENOSPC);
	CHECK_INT(listed("running,ending", id), 0);
	CHECK_INT(listed("ended", id), 1);
	xlog_unref(next.log);
	CHECK_INT(core_sandbox_delete(core, u.owner, id, &f), 0);
	CHECK_INT(execute(id, "print x", 0, NULL, &next, &f), -EBUSY);
	disk_fill(false);
	while (stream_end(cell.id) != -ENODATA || stream_end(queued.id) != -ENODATA)
		usleep(20000);
	events = events_of(&cell);
	end = end_of(&cell, events);
	CHECK_STR(text_of(end, "status"), "died");
	CHECK_STR(text_of(end, "reason"), "host-disk-full");
	CHECK_STR(text_of(event(events, "truncated"), "stream"), "events");
	json_decref(events);
	events = events_of(&queued);
	CHECK_STR(text_of(end_of(&queued, events), "status"), "cancelled");
	json_decref(events);
	create(id, "clone");
	expect(id, "print x", 0, "ok", "stdout");
	delete (id);
}

/* What could be stored only at the stop is there after it. */
static void full_until_the_stop(void)
{
	char id[STORE_ID_MAX];
	struct run cell;
	struct fault f;
	json_t *row;

	create(id, "clone");
	cell = start(id, "hang", 0);
	wait_started(&cell);
	disk_fill(true);
	CHECK_INT(core_execution_interrupt(core, u.owner, cell.id, &f), 0);
	sandbox_ended(id, "host-disk-full");
	json_decref(execution_wait(cell.id, "died"));
	xlog_unref(cell.log);
	disk_fill(false);
	core_stop(core, true);
	store_close(u.store);
	setup_open(&u);
	sandbox_ended(id, "host-disk-full");
	row = execution_wait(cell.id, "died");
	CHECK_STR(text_of(row, "reason"), "host-disk-full");
	json_decref(row);
	CHECK_INT(stream_end(cell.id), -ENODATA);
}

int main(void)
{
	/* Past the limit a write is told EFBIG, not killed. */
	signal(SIGXFSZ, SIG_IGN);
	stage();
	core_begin();
	full_under_a_cell();
	full_until_the_stop();
	setup_end(&u);
	return 0;
}
