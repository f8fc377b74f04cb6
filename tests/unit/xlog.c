/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* The event log: many readers, each at its own pace, live and later. */
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include "appliance/fault.c"
#include "store_setup.h"

enum { BUF = XLOG_LINE_MAX + 1 };

static void put(struct xlog *log, uint64_t from, unsigned count, unsigned pad, bool end)
{
	size_t len = 0, room = (size_t)count * (pad + 64) + 1;
	char *lines = malloc(room);

	CHECK(lines);
	for (unsigned i = 0; i < count; i++)
		len += snprintf(lines + len, room - len,
				"{\"type\":\"stdout\",\"seq\":%llu,\"text\":\"%0*d\"}\n",
				(unsigned long long)from + i, pad, 0);
	CHECK_INT(xlog_append(log, lines, len, from + count - 1, end), 0);
	free(lines);
}

static bool wait_readable(struct xlog_reader *r)
{
	struct pollfd p = { .fd = xlog_reader_fd(r), .events = POLLIN };

	return poll(&p, 1, 5000) == 1;
}

/* Reads lines to the end; seq must go up by one, but over what a synthetic line reports. */
static uint64_t read_all(struct xlog_reader *r, uint64_t seq, unsigned pause_every, uint64_t *ret_missing)
{
	char *buf = malloc(BUF);
	ssize_t n;

	CHECK(buf);
	*ret_missing = 0;
	for (unsigned reads = 1; (n = xlog_reader_read(r, buf, BUF)) != -ENODATA; reads++) {
		CHECK(n >= 0);
		if (n == 0)
			CHECK(wait_readable(r));
		for (char *line = buf, *end; line < buf + n; line = end + 1) {
			unsigned long long got, from, to;

			end = memchr(line, '\n', buf + n - line);
			CHECK(end);
			*end = '\0';
			if (sscanf(line, "{\"type\":\"stdout\",\"seq\":%llu", &got) == 1) {
				CHECK_INT(got, seq + 1);
				seq = got;
				continue;
			}
			CHECK(strstr(line, "\"stream\":\"events\""));
			CHECK(sscanf(strstr(line, "\"from_seq\""), "\"from_seq\":%llu,\"to_seq\":%llu", &from,
				     &to) == 2);
			CHECK_INT(from, seq + 1);
			*ret_missing += to - from + 1;
			seq = to;
		}
		if (pause_every && reads % pause_every == 0)
			usleep(500);
	}
	free(buf);
	return seq;
}

struct reading {
	pthread_t thread;
	struct xlog *log;
	uint64_t after, last, missing;
	unsigned pause_every;
};

static void *reading_main(void *arg)
{
	struct reading *reading = arg;
	struct xlog_reader *r;

	CHECK_INT(xlog_reader_new(reading->log, reading->after, &r), 0);
	reading->last = read_all(r, reading->after, reading->pause_every, &reading->missing);
	xlog_reader_free(r);
	return NULL;
}

static void test_many_readers(void)
{
	enum { READERS = 6, LINES = 20000 };
	struct setup u;
	struct xlog *log;
	struct reading readings[READERS];

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-many", true, 0, 0, false, &log), 0);
	for (unsigned i = 0; i < READERS; i++) {
		readings[i] = (struct reading){ .log = log, .after = i % 2 ? i * 3000 : 0, .pause_every = i };
		CHECK_INT(pthread_create(&readings[i].thread, NULL, reading_main, &readings[i]), 0);
	}
	for (unsigned at = 0; at < LINES; at += 10) {
		put(log, at + 1, 10, 50, at + 10 == LINES);
		if (at % 500 == 0)
			CHECK_INT(xlog_sync(log), 0);
		xlog_committed(log);
	}
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(readings[i].thread, NULL);
		CHECK_INT(readings[i].last, LINES);
		CHECK_INT(readings[i].missing, 0);
	}
	CHECK_INT(xlog_append(log, "{}\n", 3, LINES + 1, false), -ESHUTDOWN);
	xlog_unref(log);
	CHECK(!xlog_find("exe-many"));
	setup_end(&u);
}

static void test_bad_lines_are_refused(void)
{
	struct setup u;
	struct xlog *log, *again;
	char *huge = malloc(XLOG_LINE_MAX + 2);

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-bad", true, 0, 0, false, &log), 0);
	CHECK_INT(xlog_append(log, "{}\n{}\n", 6, 1, false), -EBADMSG);
	CHECK_INT(xlog_append(log, "{}", 2, 1, false), -EBADMSG);
	memset(huge, 'x', XLOG_LINE_MAX + 1);
	huge[XLOG_LINE_MAX + 1] = '\n';
	CHECK_INT(xlog_append(log, huge, XLOG_LINE_MAX + 2, 1, false), -EMSGSIZE);
	CHECK_INT(xlog_append(log, huge + 1, XLOG_LINE_MAX + 1, 1, false), 0);
	CHECK_INT(xlog_open(u.dir, "exe-bad", true, 0, 0, false, &again), -EEXIST);
	CHECK_INT(xlog_open(u.dir, "../exe", true, 0, 0, false, &again), -EINVAL);
	CHECK_INT(xlog_open(u.dir, "exe-none", false, 0, 0, true, &again), -ENOENT);
	again = xlog_find("exe-bad");
	CHECK(again == log);
	xlog_unref(again);
	xlog_unref(log);
	free(huge);
	setup_end(&u);
}

static void count_progress(void *arg)
{
	++*(int *)arg;
}

static void test_lag_and_progress(void)
{
	struct setup u;
	struct xlog *log;
	struct xlog_reader *r;
	char *buf = malloc(BUF);
	int progress = 0;
	ssize_t n;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-lag", true, 0, 0, false, &log), 0);
	xlog_on_progress(log, count_progress, &progress);
	put(log, 1, 900, 10000, false);
	xlog_committed(log);
	CHECK_INT(xlog_lag(log), 0);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	CHECK(xlog_lag(log) > XLOG_WINDOW_MAX / 2);
	while ((n = xlog_reader_read(r, buf, BUF)) > 0)
		;
	CHECK_INT(n, 0);
	CHECK_INT(progress, 1);
	CHECK_INT(xlog_lag(log), 0);
	put(log, 901, 900, 10000, false);
	CHECK(xlog_lag(log) > XLOG_WINDOW_MAX / 2);
	xlog_reader_free(r); /* a reader that leaves lets the source go on */
	CHECK_INT(progress, 2);
	xlog_on_progress(log, NULL, NULL);
	xlog_unref(log);
	free(buf);
	setup_end(&u);
}

static uint64_t blocks_of(const char *dir, const char *id)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/spool/%s/events", dir, id);
	CHECK_INT(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void check_flood_reader(struct xlog *log, uint64_t after, uint64_t last, bool misses)
{
	struct xlog_reader *r;
	uint64_t missing;

	CHECK_INT(xlog_reader_new(log, after, &r), 0);
	CHECK_INT(read_all(r, after, 0, &missing), last);
	CHECK(misses == (missing > 0));
	xlog_reader_free(r);
}

/* 160 MiB of events cost head and window, now and after a restart. */
static void test_flood_leaves_a_hole(void)
{
	enum { LINES = 160 * 1024 };
	struct setup u;
	struct xlog *log;
	struct xlog_position at;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-flood", true, 0, 0, false, &log), 0);
	for (unsigned line = 0; line < LINES; line += 256) {
		put(log, line + 1, 256, 990, line + 256 == LINES);
		xlog_committed(log);
	}
	xlog_position(log, &at);
	CHECK_INT(at.last_seq, LINES);
	CHECK(blocks_of(u.dir, "exe-flood") < (uint64_t)XLOG_HEAD_MAX + XLOG_WINDOW_MAX + 4 * 1024 * 1024);
	for (int round = 0; round < 2; round++) {
		check_flood_reader(log, 0, LINES, true);
		check_flood_reader(log, 5000, LINES, true);
		check_flood_reader(log, 70000, LINES, true); /* from inside the hole */
		check_flood_reader(log, LINES - 10000, LINES, false);
		check_flood_reader(log, LINES, LINES, false);
		xlog_unref(log);
		CHECK_INT(xlog_open(u.dir, "exe-flood", false, at.size, at.last_seq, true, &log), 0);
	}
	xlog_unref(log);
	CHECK_INT(xlog_open(u.dir, "exe-flood", false, at.size + 1, at.last_seq, true, &log), -EUCLEAN);
	CHECK_INT(xlog_open(u.dir, "exe-flood", false, at.size - 1, at.last_seq, true, &log), -EUCLEAN);
	setup_end(&u);
}

/* A live reader keeps the hole away from what it has not read. */
static void test_live_reader_loses_nothing(void)
{
	enum { LINES = 80 * 1024 };
	struct setup u;
	struct xlog *log;
	struct xlog_reader *r;
	uint64_t missing;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-live", true, 0, 0, false, &log), 0);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	for (unsigned line = 0; line < LINES; line += 256) {
		put(log, line + 1, 256, 990, line + 256 == LINES);
		xlog_committed(log);
	}
	CHECK_INT(read_all(r, 0, 0, &missing), LINES);
	CHECK_INT(missing, 0);
	xlog_reader_free(r);
	xlog_unref(log);
	setup_end(&u);
}

/* What was cut is written again: a reader that had it gets no event twice. */
static void test_cut_and_again(void)
{
	struct setup u;
	struct xlog *log;
	struct xlog_position at;
	struct xlog_reader *r;
	uint64_t missing;
	char *buf = malloc(BUF);

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-cut", true, 0, 0, false, &log), 0);
	put(log, 1, 10, 5, false);
	CHECK_INT(xlog_sync(log), 0);
	xlog_committed(log);
	xlog_position(log, &at);
	CHECK_INT(xlog_reader_new(log, 10, &r), 0);
	put(log, 11, 5, 5, false);
	CHECK(xlog_reader_read(r, buf, BUF) > 0); /* 11 to 15 */
	xlog_cut(log, &at);
	put(log, 11, 3, 9, false);
	CHECK_INT(xlog_reader_read(r, buf, BUF), 0);
	/* The end is not shown before it is committed. */
	put(log, 14, 6, 9, true);
	CHECK_INT(xlog_reader_read(r, buf, BUF), 0);
	xlog_committed(log);
	CHECK_INT(read_all(r, 15, 0, &missing), 19);
	xlog_reader_free(r);
	xlog_unref(log);
	CHECK_INT(xlog_open(u.dir, "exe-cut", false, at.size, at.last_seq, false, &log), 0);
	put(log, 11, 1, 5, true);
	xlog_committed(log);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	CHECK_INT(read_all(r, 0, 0, &missing), 11);
	xlog_reader_free(r);
	xlog_unref(log);
	free(buf);
	setup_end(&u);
}

static bool has_file(const char *dir, const char *id)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/spool/%s/events", dir, id);
	return access(path, F_OK) == 0;
}

static void check_lines(struct xlog *log, uint64_t after, uint64_t last)
{
	struct xlog_reader *r;
	uint64_t missing;

	CHECK_INT(xlog_reader_new(log, after, &r), 0);
	CHECK_INT(read_all(r, after, 0, &missing), last);
	CHECK_INT(missing, 0);
	xlog_reader_free(r);
}

/* In memory as long as it is short and nobody wants it safe; a reader sees no difference. */
static void test_small_has_no_file(void)
{
	struct setup u;
	struct xlog *log;
	struct xlog_reader *r;
	struct xlog_position empty;
	char *buf = malloc(BUF), copy[8192];
	const char *lines;
	size_t len;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-small", true, 0, 0, false, &log), 0);
	xlog_position(log, &empty);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	put(log, 1, 5, 9, false);
	put(log, 6, 5, 9, true);
	/* Nothing of a new log is shown, and nothing of it is kept, before it is committed. */
	CHECK_INT(xlog_reader_read(r, buf, BUF), 0);
	xlog_cut(log, &empty);
	put(log, 1, 20, 9, false);
	put(log, 21, 1, 9, true);
	CHECK_INT(xlog_reader_read(r, buf, BUF), 0);
	lines = xlog_small(log, &len);
	CHECK(lines && len < sizeof(copy));
	memcpy(copy, lines, len);
	xlog_committed(log);
	check_lines(log, 0, 21);
	check_lines(log, 20, 21);
	xlog_reader_free(r);
	xlog_unref(log);
	CHECK(!has_file(u.dir, "exe-small"));
	CHECK_INT(xlog_open_lines("exe-small", copy, len, 21, &log), 0);
	check_lines(log, 7, 21);
	xlog_unref(log);
	CHECK_INT(xlog_open_lines("exe-small", copy, len, 22, &log), -EUCLEAN);
	CHECK_INT(xlog_open_lines("exe-small", copy, len - 1, 21, &log), -EUCLEAN);
	free(buf);
	setup_end(&u);
}

static void test_small_grows_into_a_file(void)
{
	struct setup u;
	struct xlog *log;
	struct xlog_reader *r;
	struct xlog_position at;
	char *buf = malloc(BUF);
	size_t len;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-long", true, 0, 0, false, &log), 0);
	put(log, 1, 10, 100, false);
	xlog_committed(log);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	CHECK(xlog_reader_read(r, buf, BUF) > 0);
	CHECK(!has_file(u.dir, "exe-long"));
	put(log, 11, 200, 100, false);
	CHECK(has_file(u.dir, "exe-long") && !xlog_small(log, &len));
	xlog_committed(log);
	CHECK(xlog_reader_read(r, buf, BUF) > 0);
	put(log, 211, 1, 9, true);
	xlog_committed(log);
	check_lines(log, 0, 211);
	xlog_reader_free(r);
	xlog_unref(log);
	/* What must be safe before its end. */
	CHECK_INT(xlog_open(u.dir, "exe-safe", true, 0, 0, false, &log), 0);
	put(log, 1, 3, 9, false);
	CHECK_INT(xlog_sync(log), 0);
	CHECK(has_file(u.dir, "exe-safe"));
	xlog_position(log, &at);
	xlog_unref(log);
	CHECK_INT(xlog_open(u.dir, "exe-safe", false, at.size, at.last_seq, false, &log), 0);
	put(log, 4, 1, 9, true);
	xlog_committed(log);
	check_lines(log, 0, 4);
	xlog_unref(log);
	free(buf);
	setup_end(&u);
}

int main(void)
{
	test_many_readers();
	test_bad_lines_are_refused();
	test_lag_and_progress();
	test_flood_leaves_a_hole();
	test_live_reader_loses_nothing();
	test_cut_and_again();
	test_small_has_no_file();
	test_small_grows_into_a_file();
	return 0;
}
