/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* What was acknowledged is there after kill -9 at any moment; a full disk is
 * told, takes nothing half-done, and leaves the old rows readable. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "appliance/fault.c"
#include "store_setup.h"

enum { EXECUTIONS = 4, ROUNDS = 25 };

/* Shared with the child: the last event acknowledged of each execution. */
struct progress {
	_Atomic uint64_t acknowledged[EXECUTIONS];
	_Atomic bool failed;
};

struct ack {
	struct progress *progress;
	unsigned which;
	uint64_t seq;
};

static void acknowledge(int err, const char *message, void *arg)
{
	struct ack *ack = arg;

	if (err) {
		fprintf(stderr, "in the child: %s\n", message);
		ack->progress->failed = true;
	} else {
		ack->progress->acknowledged[ack->which] = ack->seq;
	}
	free(ack);
}

static void name_of(unsigned which, char ret[STORE_ID_MAX])
{
	snprintf(ret, STORE_ID_MAX, "exe-crash%u", which);
}

/* One event: a line, bytes of output 0, the rows that say so. */
static void submit_event(struct setup *u, struct xlog *log, unsigned which, uint64_t seq, uint64_t *log_bytes,
			 struct progress *progress)
{
	struct store_txn *t = store_txn_new(u->store);
	struct execution_row row = {
		.status = "running", .exit_code = -1, .kernel_id = "krn-1", .last_seq = seq
	};
	struct output_row out = {
		.kind = "stdout", .head = "h", .head_len = 1, .bytes = seq * 8, .spooled = seq * 8
	};
	struct ack *ack = malloc(sizeof(*ack));
	char line[100], piece[9];
	int len =
		snprintf(line, sizeof(line), "{\"type\":\"stdout\",\"seq\":%llu}\n", (unsigned long long)seq);

	snprintf(piece, sizeof(piece), "%08llu", (unsigned long long)seq % 100000000);
	*log_bytes += len;
	row.log_bytes = *log_bytes;
	name_of(which, row.id);
	name_of(which, out.execution_id);
	snprintf(row.sandbox_id, STORE_ID_MAX, "%s", u->sandbox);
	store_txn_execution(t, &row);
	store_txn_log(t, log, line, len, seq, false);
	store_txn_spool(t, row.id, 0, (seq - 1) * 8, piece, 8);
	store_txn_output(t, &out);
	*ack = (struct ack){ .progress = progress, .which = which, .seq = seq };
	store_txn_submit(t, acknowledge, ack);
}

static void child_main(struct setup *u, struct progress *progress, uint64_t first[EXECUTIONS],
		       uint64_t log_bytes[EXECUTIONS])
{
	struct xlog *logs[EXECUTIONS];
	char id[STORE_ID_MAX];
	unsigned seed = (unsigned)getpid();

	setup_open(u);
	for (unsigned i = 0; i < EXECUTIONS; i++) {
		name_of(i, id);
		CHECK_INT(xlog_open(u->dir, id, first[i] == 0, log_bytes[i], first[i], false, &logs[i]), 0);
	}
	for (;;) {
		unsigned which = rand_r(&seed) % EXECUTIONS;

		submit_event(u, logs[which], which, ++first[which], &log_bytes[which], progress);
		if (rand_r(&seed) % 8 == 0)
			usleep(rand_r(&seed) % 2000);
		while (store_busy(u->store))
			usleep(100);
	}
}

/* After the kill: rows, log and spool agree, and hold at least what was acknowledged. */
static void check_execution(struct setup *u, struct progress *progress, unsigned which, uint64_t *ret_seq,
			    uint64_t *ret_bytes)
{
	struct output_full full;
	struct xlog *log;
	json_t *open_rows, *row;
	size_t i;
	char id[STORE_ID_MAX], piece[9] = "";

	name_of(which, id);
	*ret_seq = *ret_bytes = 0;
	CHECK_INT(store_open_executions(u->store, u->sandbox, &open_rows), 0);
	json_array_foreach(open_rows, i, row)
	{
		if (strcmp(text_of(row, "id"), id) != 0)
			continue;
		*ret_seq = json_integer_value(json_object_get(row, "last_seq"));
		*ret_bytes = json_integer_value(json_object_get(row, "log_bytes"));
	}
	json_decref(open_rows);
	CHECK(*ret_seq >= progress->acknowledged[which]);
	if (*ret_seq == 0)
		return;
	/* Counts the lines: they match log_bytes and last_seq, or the open fails. */
	CHECK_INT(xlog_open(u->dir, id, false, *ret_bytes, *ret_seq, false, &log), 0);
	xlog_unref(log);
	CHECK_INT(store_output_open(u->store, u->owner, id, 0, &full), 0);
	CHECK_INT(full.have, *ret_seq * 8);
	CHECK_INT(pread(full.fd, piece, 8, (*ret_seq - 1) * 8), 8);
	CHECK_INT(strtoull(piece, NULL, 10), *ret_seq % 100000000);
	output_full_close(&full);
}

static void drop_unborn_log(struct setup *u, unsigned which)
{
	char path[300], id[STORE_ID_MAX];

	name_of(which, id);
	snprintf(path, sizeof(path), "%s/spool/%s/events", u->dir, id);
	unlink(path);
}

static uint64_t acknowledged_sum(struct progress *progress)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < EXECUTIONS; i++)
		sum += progress->acknowledged[i];
	return sum;
}

/* On a loaded machine a child may take long to begin: it is not killed before it did something. */
static void wait_for_work(struct progress *progress, uint64_t before)
{
	for (int i = 0; i < 30000 && acknowledged_sum(progress) == before && !progress->failed; i++)
		usleep(1000);
	CHECK(acknowledged_sum(progress) > before);
}

static void test_kill(void)
{
	struct progress *progress =
		mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t seqs[EXECUTIONS] = { 0 }, bytes[EXECUTIONS] = { 0 }, events = 0;
	struct setup u;
	unsigned seed = 11;
	int status;

	CHECK(progress != MAP_FAILED);
	setup_begin(&u);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t before = acknowledged_sum(progress);
		pid_t child;

		store_close(u.store);
		for (unsigned i = 0; i < EXECUTIONS; i++)
			if (seqs[i] == 0)
				drop_unborn_log(&u, i);
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			child_main(&u, progress, seqs, bytes);
		wait_for_work(progress, before);
		usleep(rand_r(&seed) % 50000);
		kill(child, SIGKILL);
		CHECK_INT(waitpid(child, &status, 0), child);
		CHECK(WIFSIGNALED(status) && !progress->failed);
		setup_open(&u);
		for (unsigned i = 0; i < EXECUTIONS; i++)
			check_execution(&u, progress, i, &seqs[i], &bytes[i]);
	}
	for (unsigned i = 0; i < EXECUTIONS; i++)
		events += seqs[i];
	printf("%d kills, %llu events\n", ROUNDS, (unsigned long long)events);
	CHECK(events >= ROUNDS);
	setup_end(&u);
	munmap(progress, sizeof(*progress));
}

static void submit_big(struct setup *u, struct xlog *log, uint64_t seq, size_t log_bytes,
		       struct result *result)
{
	static char big[200 * 1024];
	struct execution_row row = { .id = "exe-full",
				     .status = "running",
				     .exit_code = -1,
				     .kernel_id = "krn-1",
				     .last_seq = seq,
				     .log_bytes = log_bytes };
	struct store_txn *t = store_txn_new(u->store);
	char line[64];
	int len = snprintf(line, sizeof(line), "{\"seq\":%llu}\n", (unsigned long long)seq);

	memset(big, 'c', sizeof(big) - 1);
	row.code = big;
	snprintf(row.sandbox_id, STORE_ID_MAX, "%s", u->sandbox);
	store_txn_log(t, log, line, len, seq, false);
	store_txn_execution(t, &row);
	store_txn_audit(t, u->owner, u->sandbox, big, NULL);
	*result = (struct result){ 0 };
	store_txn_submit(t, result_done, result);
	result_wait(result);
}

/* Until the disk is full, then once more with room. */
static void fill_and_free(struct setup *u, void (*make_room)(struct setup *u))
{
	struct xlog *log;
	struct xlog_position before, after;
	struct result result;
	json_t *got;
	uint64_t seq = 0;

	CHECK_INT(xlog_open(u->dir, "exe-full", true, 0, 0, false, &log), 0);
	do {
		xlog_position(log, &before);
		seq++;
		submit_big(u, log, seq, before.size + 10, &result);
	} while (result.err == 0 && seq < 100);
	CHECK_INT(result.err, -ENOSPC);
	CHECK(strstr(result.message, "is full"));
	xlog_position(log, &after);
	CHECK_INT(after.size, before.size); /* the line went back with its rows */
	CHECK_INT(after.last_seq, seq - 1);
	CHECK_INT(store_sandbox_get(u->store, u->owner, u->sandbox, &got), 0);
	json_decref(got);
	CHECK_INT(store_execution_get(u->store, u->owner, "exe-full", &got), 0);
	json_decref(got);
	make_room(u);
	submit_big(u, log, seq, before.size + 10, &result); /* the same event goes in once there is room */
	CHECK_INT(result.err, 0);
	xlog_unref(log);
}

static void lift_limit(struct setup *u)
{
	struct rlimit limit;

	(void)u;
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Files that may not grow past a size answer as a full disk does. */
static void test_quota(void)
{
	struct rlimit limit;
	struct setup u;

	signal(SIGXFSZ, SIG_IGN);
	setup_begin(&u);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 1024 * 1024;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
	fill_and_free(&u, lift_limit);
	setup_end(&u);
}

static void grow_tmpfs(struct setup *u)
{
	CHECK_INT(mount("tmpfs", u->dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
}

static void fill_tmpfs(void)
{
	struct setup u = { .dir = "/tmp/carrel-store-XXXXXX" };

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		exit(77);
	CHECK(mkdtemp(u.dir));
	CHECK_INT(mount("tmpfs", u.dir, "tmpfs", 0, "size=2m"), 0);
	setup_open(&u);
	snprintf(u.sandbox, sizeof(u.sandbox), "sbx-first");
	setup_sandbox(&u, u.sandbox, "running", NULL);
	fill_and_free(&u, grow_tmpfs);
	store_close(u.store);
	CHECK_INT(umount(u.dir), 0);
	CHECK_INT(rmdir(u.dir), 0);
	exit(0);
}

/* A file system of 2 MiB in a mount namespace of its own. */
static void test_full_file_system(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0)
		fill_tmpfs();
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		printf("full file system: left out, mounting is not allowed here\n");
	else
		CHECK_INT(WEXITSTATUS(status), 0);
}

/* Many small transactions at once share their syncs: none waits for a time-out, all are answered. */
static void test_group_commit(void)
{
	enum { MANY = 2000 };
	struct result *results = calloc(MANY, sizeof(*results));
	struct setup u;
	struct store_txn *t;

	CHECK(results);
	setup_begin(&u);
	for (int i = 0; i < MANY; i++) {
		t = store_txn_new(u.store);
		store_txn_audit(t, u.owner, u.sandbox, "many", NULL);
		store_txn_submit(t, result_done, &results[i]);
	}
	for (int i = 0; i < MANY; i++)
		CHECK_INT(result_wait(&results[i]), 0);
	CHECK(!store_busy(u.store));
	setup_end(&u);
	free(results);
}

int main(void)
{
	setbuf(stdout, NULL);
	test_group_commit();
	test_quota();
	test_full_file_system();
	test_kill();
	return 0;
}
