/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* The store: what goes in comes out as the REST face shows it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its folder holds carreld's main(). */
#include "appliance/fault.c"
#include "appliance/store/ids.h"
#include "appliance/store/schema.h"
#include "appliance/store/store.h"
#include "appliance/store/xlog.h"
#include "store_setup.h"

static void test_sandbox_round_trip(void)
{
	struct setup u;
	json_t *got, *list;

	setup_begin(&u);
	CHECK_INT(store_sandbox_get(u.store, u.owner, u.sandbox, &got), 0);
	CHECK_STR(text_of(got, "id"), u.sandbox);
	CHECK_STR(text_of(got, "state"), "running");
	CHECK_STR(text_of(got, "template"), "python");
	CHECK_STR(text_of(got, "created_at"), "2023-11-14T22:13:20.123Z");
	CHECK_STR(text_of(got, "deadline"), "2023-11-14T22:18:20.999Z");
	CHECK_INT(json_integer_value(json_object_get(json_object_get(got, "limits"), "memory_mb")), 512);
	CHECK(!json_object_get(got, "end_reason") && !json_object_get(got, "ended_at"));
	CHECK(!json_object_get(got, "env") && !json_object_get(got, "seq"));
	json_decref(got);
	CHECK_INT(store_sandbox_get(u.store, "own-other", u.sandbox, &got), -ENOENT);
	CHECK_INT(store_sandbox_list(u.store, u.owner, NULL, NULL, 10, NULL, &list), 0);
	CHECK_INT(json_array_size(json_object_get(list, "sandboxes")), 1);
	CHECK(json_is_null(json_object_get(list, "next")));
	json_decref(list);
	CHECK_INT(store_running_count(u.store, u.owner), 1);

	setup_sandbox(&u, u.sandbox, "ended", "deadline");
	CHECK_INT(store_sandbox_get(u.store, u.owner, u.sandbox, &got), 0);
	CHECK_STR(text_of(got, "end_reason"), "deadline");
	CHECK(json_object_get(got, "ended_at"));
	json_decref(got);
	CHECK_INT(store_running_count(u.store, u.owner), 0);
	CHECK_INT(store_sandbox_list(u.store, u.owner, NULL, NULL, 10, NULL, &list), 0);
	CHECK_INT(json_array_size(json_object_get(list, "sandboxes")), 0);
	json_decref(list);
	setup_end(&u);
}

static void test_list_pages(void)
{
	struct setup u;
	json_t *list;
	char cursor[64] = "", id[STORE_ID_MAX];
	int seen = 0, pages = 0;

	setup_begin(&u);
	for (int i = 0; i < 24; i++) {
		id_new("sbx", id);
		setup_sandbox(&u, id, i % 2 ? "paused" : "running", NULL);
	}
	do {
		CHECK_INT(store_sandbox_list(u.store, u.owner, "running,paused", "python", 10, cursor, &list),
			  0);
		seen += (int)json_array_size(json_object_get(list, "sandboxes"));
		pages++;
		snprintf(cursor, sizeof(cursor), "%s",
			 json_is_null(json_object_get(list, "next")) ? "" : text_of(list, "next"));
		json_decref(list);
	} while (cursor[0]);
	CHECK_INT(seen, 25);
	CHECK_INT(pages, 3);
	CHECK_INT(store_sandbox_list(u.store, u.owner, NULL, NULL, 10, "x1", &list), -EINVAL);
	CHECK_INT(store_sandbox_list(u.store, u.owner, "paused", NULL, 1000, NULL, &list), 0);
	CHECK_INT(json_array_size(json_object_get(list, "sandboxes")), 12);
	json_decref(list);
	CHECK_INT(store_sandbox_list(u.store, u.owner, NULL, "other", 1000, NULL, &list), 0);
	CHECK_INT(json_array_size(json_object_get(list, "sandboxes")), 0);
	json_decref(list);
	setup_end(&u);
}

static json_t *output_at(json_t *execution, unsigned n)
{
	return json_array_get(json_object_get(execution, "outputs"), n);
}

static void submit_outputs(struct setup *u, const char *xid)
{
	struct output_row out = { .n = 0,
				  .kind = "stdout",
				  .head = "abc\xff",
				  .head_len = 4,
				  .tail = "xyz",
				  .tail_len = 3,
				  .bytes = 1000,
				  .truncated = true };
	struct execution_row row = { .status = "ok",
				     .exit_code = -1,
				     .execution_count = 7,
				     .kernel_restarted = true,
				     .queued_ms = 1,
				     .started_ms = 2,
				     .ended_ms = 1700000000001 };
	struct store_txn *t = store_txn_new(u->store);
	json_t *bundle = json_pack("{s:s, s:s}", "text/plain", "<Figure>", "image/png", "iVBO\nRw==");
	json_t *error = json_pack("{s:s, s:s, s:[s]}", "ename", "E", "evalue", "v", "traceback", "line");

	snprintf(out.execution_id, STORE_ID_MAX, "%s", xid);
	snprintf(row.id, STORE_ID_MAX, "%s", xid);
	snprintf(row.sandbox_id, STORE_ID_MAX, "%s", u->sandbox);
	snprintf(row.kernel_id, STORE_ID_MAX, "krn-1");
	store_txn_execution(t, &row);
	store_txn_spool(t, xid, 0, 0,
			"abc\xff"
			"0123456789",
			14);
	out.spooled = 14;
	store_txn_output(t, &out);
	out = (struct output_row){ .n = 1,
				   .kind = "display",
				   .head = "<Figure>",
				   .head_len = 8,
				   .bytes = 8,
				   .mime = "image/png",
				   .data = bundle };
	snprintf(out.execution_id, STORE_ID_MAX, "%s", xid);
	store_txn_output(t, &out);
	out = (struct output_row){
		.n = 2, .kind = "error", .head = "line", .head_len = 4, .bytes = 4, .data = error
	};
	snprintf(out.execution_id, STORE_ID_MAX, "%s", xid);
	store_txn_output(t, &out);
	json_decref(bundle);
	json_decref(error);
	commit(t);
}

static void test_execution_round_trip(void)
{
	struct setup u;
	json_t *got, *out, *list;
	struct output_full full;
	char buf[64];

	setup_begin(&u);
	setup_execution(&u, "exe-1", "running", "print(1)");
	CHECK_INT(store_open_executions(u.store, u.sandbox, &list), 0);
	CHECK_INT(json_array_size(list), 1);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(list, 0), "timeout_ms")), 5000);
	json_decref(list);
	submit_outputs(&u, "exe-1");
	CHECK_INT(store_execution_get(u.store, u.owner, "exe-1", &got), 0);
	CHECK_STR(text_of(got, "code"), "print(1)"); /* the update without code kept it */
	CHECK_STR(text_of(got, "status"), "ok");
	CHECK(json_is_true(json_object_get(got, "kernel_restarted")));
	CHECK_STR(text_of(got, "ended_at"), "2023-11-14T22:13:20.001Z");
	CHECK(!json_object_get(got, "exit_code") && !json_object_get(got, "reason"));
	out = output_at(got, 0);
	CHECK_STR(text_of(out, "text"), "abc\xEF\xBF\xBD\n[... 993 bytes omitted ...]\nxyz");
	CHECK(json_is_true(json_object_get(out, "truncated")));
	CHECK_INT(json_integer_value(json_object_get(out, "bytes")), 1000);
	out = output_at(got, 1);
	CHECK_STR(text_of(out, "mime"), "image/png");
	CHECK_STR(text_of(json_object_get(out, "data"), "text/plain"), "<Figure>");
	CHECK_STR(text_of(output_at(got, 2), "text"), "line");
	json_decref(got);
	CHECK_INT(store_execution_get(u.store, "own-other", "exe-1", &got), -ENOENT);
	CHECK_INT(store_execution_list(u.store, "own-other", u.sandbox, 10, NULL, &got), -ENOENT);
	CHECK_INT(store_execution_list(u.store, u.owner, u.sandbox, 10, NULL, &got), 0);
	CHECK_INT(json_array_size(
			  json_object_get(json_array_get(json_object_get(got, "executions"), 0), "outputs")),
		  3);
	json_decref(got);

	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 0, &full), 0);
	CHECK_STR(full.content_type, "text/plain; charset=utf-8");
	CHECK(full.have == 14 && full.total == 1000);
	CHECK_INT(read(full.fd, buf, sizeof(buf)), 14);
	output_full_close(&full);
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 1, &full), 0);
	CHECK_STR(full.content_type, "image/png");
	CHECK(full.have == 4 && full.total == 4 && memcmp(full.text, "\x89PNG" + 0, 4) == 0);
	output_full_close(&full);
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 9, &full), -ENOENT);
	setup_end(&u);
}

/* One bad transaction of a group fails alone. */
static void test_bad_transaction_fails_alone(void)
{
	struct setup u;
	struct kernel_row kernel = { .id = "krn-1",
				     .sandbox_id = "sbx-none",
				     .name = "python3",
				     .language = "python",
				     .state = "idle" };
	struct store_txn *t;
	struct result bad = { 0 }, good = { 0 };
	json_t *list;

	setup_begin(&u);
	t = store_txn_new(u.store);
	store_txn_kernel(t, &kernel);
	store_txn_submit(t, result_done, &bad);
	snprintf(kernel.sandbox_id, STORE_ID_MAX, "%s", u.sandbox);
	kernel.received = 41;
	kernel.restarted = true;
	t = store_txn_new(u.store);
	store_txn_kernel(t, &kernel);
	store_txn_submit(t, result_done, &good);
	CHECK_INT(result_wait(&good), 0);
	CHECK_INT(result_wait(&bad), -EINVAL);
	CHECK(strstr(bad.message, "FOREIGN KEY"));
	CHECK_INT(store_open_kernels(u.store, u.sandbox, &list), 0);
	CHECK_INT(json_integer_value(json_object_get(json_array_get(list, 0), "received")), 41);
	CHECK(json_is_true(json_object_get(json_array_get(list, 0), "restarted")));
	json_decref(list);
	t = store_txn_new(u.store);
	store_txn_kernel_gone(t, "krn-1");
	commit(t);
	CHECK_INT(store_open_kernels(u.store, u.sandbox, &list), 0);
	CHECK_INT(json_array_size(list), 0);
	json_decref(list);
	setup_end(&u);
}

/* Who reads an execution whose end cannot be stored is let go, not kept waiting. */
static void test_an_end_that_is_lost(void)
{
	static const char first[] = "{\"seq\":1}\n", end[] = "{\"seq\":3}\n";
	char *buf = malloc(XLOG_LINE_MAX + 1);
	struct xlog_reader *r;
	struct result bad = { 0 };
	struct store_txn *t;
	struct xlog *log;
	struct setup u;

	setup_begin(&u);
	CHECK_INT(xlog_open(u.dir, "exe-lost", true, 0, 0, false, &log), 0);
	t = store_txn_new(u.store);
	store_txn_log(t, log, first, strlen(first), 1, false);
	commit(t);
	CHECK_INT(xlog_reader_new(log, 0, &r), 0);
	t = store_txn_new(u.store);
	/* Line 2 never came to the disk. */
	store_txn_log(t, log, end, strlen(end), 3, true);
	store_txn_submit(t, result_done, &bad);
	CHECK_INT(result_wait(&bad), -EBADMSG);
	CHECK_INT(xlog_reader_read(r, buf, XLOG_LINE_MAX + 1), (ssize_t)strlen(first));
	CHECK_INT(xlog_reader_read(r, buf, XLOG_LINE_MAX + 1), -EBADMSG);
	xlog_reader_free(r);
	xlog_unref(log);
	free(buf);
	setup_end(&u);
}

/* First and last line of an execution, in one transaction or in two. */
static void run_quick(struct setup *u, const char *id, bool split)
{
	static const char first[] = "{\"seq\":1}\n", end[] = "{\"seq\":2}\n";
	struct execution_row row = { .status = "ok", .exit_code = -1, .execution_count = 1, .last_seq = 2 };
	struct store_txn *t;
	struct xlog *log;

	setup_execution(u, id, "running", "1");
	CHECK_INT(xlog_open(u->dir, id, true, 0, 0, false, &log), 0);
	t = store_txn_new(u->store);
	store_txn_log(t, log, first, strlen(first), 1, false);
	if (split) {
		commit(t);
		t = store_txn_new(u->store);
	}
	store_txn_log(t, log, end, strlen(end), 2, true);
	snprintf(row.id, STORE_ID_MAX, "%s", id);
	snprintf(row.sandbox_id, STORE_ID_MAX, "%s", u->sandbox);
	snprintf(row.kernel_id, STORE_ID_MAX, "krn-1");
	row.log_bytes = strlen(first) + strlen(end);
	store_txn_execution(t, &row);
	commit(t);
	xlog_unref(log);
}

static void check_events(struct setup *u, const char *id)
{
	char *buf = malloc(XLOG_LINE_MAX + 1);
	struct xlog_reader *r;
	struct xlog *log;

	CHECK_INT(store_log_open(u->store, u->owner, id, &log), 0);
	CHECK_INT(xlog_reader_new(log, 1, &r), 0);
	CHECK_INT(xlog_reader_read(r, buf, XLOG_LINE_MAX + 1), 10);
	CHECK(memcmp(buf, "{\"seq\":2}\n", 10) == 0);
	CHECK_INT(xlog_reader_read(r, buf, XLOG_LINE_MAX + 1), -ENODATA);
	xlog_reader_free(r);
	xlog_unref(log);
	free(buf);
}

/* What said little costs no file, and goes with its row. */
static void test_a_quick_execution(void)
{
	static const char *const ids[] = { "exe-quick", "exe-split" };
	struct setup u;
	struct xlog *log;
	struct fault f;
	char path[300];

	setup_begin(&u);
	for (int split = 0; split < 2; split++) {
		run_quick(&u, ids[split], split);
		check_events(&u, ids[split]);
		snprintf(path, sizeof(path), "%s/spool/%s", u.dir, ids[split]);
		CHECK((access(path, F_OK) == 0) == (split == 1));
		CHECK_INT(store_execution_erase(u.store, u.owner, ids[split], &f), 0);
		CHECK_INT(store_log_open(u.store, u.owner, ids[split], &log), -ENOENT);
	}
	setup_end(&u);
}

static void test_keys(void)
{
	struct setup u;
	struct fault f;
	struct stat st;
	char owner[STORE_ID_MAX], key[STORE_KEY_MAX], first[STORE_KEY_MAX], id[STORE_ID_MAX], kid[STORE_ID_MAX], path[300];
	bool admin;

	setup_begin(&u);
	setup_token(&u, first);
	CHECK(strncmp(first, "e2b_", 4) == 0 && strlen(first) == 68);
	snprintf(path, sizeof(path), "%s/token", u.dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK_INT(store_key_check(u.store, first, owner, kid, &admin), 0);
	CHECK(admin);
	CHECK_INT(store_key_check(u.store, "e2b_00", owner, kid, &admin), -EACCES);
	CHECK_INT(store_first_owner(u.store, u.dir, &f), 0);
	setup_token(&u, key);
	CHECK_STR(key, first); /* a token that works stays */
	CHECK_INT(unlink(path), 0);
	CHECK_INT(store_first_owner(u.store, u.dir, &f), 0);
	setup_token(&u, key);
	CHECK(strcmp(key, first) != 0);
	CHECK_INT(store_key_check(u.store, key, owner, kid, &admin), 0);
	CHECK_INT(store_key_check(u.store, first, owner, kid, &admin), -EACCES);
	CHECK_INT(store_key_new(u.store, owner, owner, "ci", false, 0, id, key, &f), 0);
	CHECK_INT(store_key_check(u.store, key, owner, kid, &admin), 0);
	CHECK(!admin);
	CHECK_INT(store_key_new(u.store, owner, owner, "old", false, 1, id, key, &f), 0);
	CHECK_INT(store_key_check(u.store, key, owner, kid, &admin), -EACCES); /* expired */
	setup_end(&u);
}

static void test_owners(void)
{
	struct setup u;
	char owner[STORE_ID_MAX], id[STORE_ID_MAX], key[STORE_KEY_MAX], who[STORE_ID_MAX], kid[STORE_ID_MAX];
	struct fault f;
	unsigned quota = 0;
	json_t *got;
	bool admin;

	setup_begin(&u);
	CHECK_INT(store_owner_new(u.store, u.owner, "two", &(struct owner_quota){ 3, -1, -1 }, owner, &f), 0);
	CHECK_INT(store_owner_quota(u.store, owner, 20, &quota), 0);
	CHECK_INT(quota, 3);
	CHECK_INT(store_owner_quota(u.store, u.owner, 20, &quota), 0);
	CHECK_INT(quota, 20);
	CHECK_INT(store_owner_quota(u.store, "own-none", 20, &quota), -ENOENT);
	CHECK_INT(store_owner_get(u.store, owner, &got), 0);
	CHECK_STR(text_of(got, "name"), "two");
	CHECK_INT(json_integer_value(json_object_get(json_object_get(got, "quota"), "sandboxes")), 3);
	CHECK(json_is_false(json_object_get(got, "first")));
	json_decref(got);
	CHECK_INT(store_key_new(u.store, u.owner, owner, "k", false, 0, id, key, &f), 0);
	CHECK_INT(store_key_check(u.store, key, who, kid, &admin), 0);
	CHECK_STR(who, owner);
	CHECK_INT(store_key_revoke(u.store, u.owner, id, &f), 0);
	CHECK_INT(store_key_check(u.store, key, who, kid, &admin), -EACCES);
	CHECK_INT(store_key_revoke(u.store, u.owner, id, &f), 0);
	CHECK_INT(store_key_revoke(u.store, u.owner, "key-none", &f), -ENOENT);
	CHECK_INT(store_key_list(u.store, owner, 10, NULL, &got), 0);
	CHECK(text_of(json_array_get(json_object_get(got, "keys"), 0), "revoked_at"));
	json_decref(got);
	setup_end(&u);
}

static void test_erase(void)
{
	struct setup u;
	char path[300];
	struct store_figures figures;
	struct output_full full;
	struct fault f;
	json_t *got;

	setup_begin(&u);
	setup_execution(&u, "exe-1", "running", "print(1)");
	CHECK_INT(store_execution_erase(u.store, u.owner, "exe-1", &f), -EBUSY);
	CHECK_INT(f.status, 409);
	submit_outputs(&u, "exe-1");
	CHECK_INT(store_execution_erase(u.store, "own-other", "exe-1", &f), -ENOENT);
	snprintf(path, sizeof(path), "%s/spool/exe-1", u.dir);
	CHECK_INT(access(path, F_OK), 0);
	CHECK_INT(store_execution_erase(u.store, u.owner, "exe-1", &f), 0);
	CHECK_INT(access(path, F_OK), -1);
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 0, &full), -ENOENT);
	CHECK_INT(store_execution_get(u.store, u.owner, "exe-1", &got), 0);
	CHECK(json_is_null(json_object_get(got, "code")));
	CHECK_INT(json_array_size(json_object_get(got, "outputs")), 0);
	CHECK_STR(text_of(got, "status"), "ok");
	CHECK_STR(text_of(got, "ended_at"), "2023-11-14T22:13:20.001Z");
	json_decref(got);
	CHECK_INT(store_execution_erase(u.store, u.owner, "exe-1", &f), 0); /* again */
	store_figures(u.store, &figures);
	CHECK(figures.commits > 0 && figures.transactions > 0 && figures.failed == 0);
	CHECK_INT(figures.spooled_bytes, 14);
	setup_end(&u);
}

static void set_version(const char *dir, int version)
{
	char path[300], sql[64];
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/carrel.db", dir);
	snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", version);
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void test_refusals(void)
{
	struct setup u;
	struct store *second;
	struct fault f;
	char path[300];
	int fd;

	setup_begin(&u);
	CHECK_INT(store_open(u.dir, &second, &f), -EBUSY);
	CHECK(strstr(f.message, "Another carreld"));
	store_close(u.store);
	set_version(u.dir, 99);
	CHECK_INT(store_open(u.dir, &second, &f), -EPROTO);
	CHECK_STR(f.code, "store_newer");
	set_version(u.dir, schema_version);
	CHECK_INT(store_open(u.dir, &second, &f), 0);
	store_close(second);
	snprintf(path, sizeof(path), "%s/carrel.db", u.dir);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	CHECK_INT(pwrite(fd, "garbage garbage garbage", 23, 8192 + 100), 23);
	CHECK_INT(pwrite(fd, "garbage garbage garbage", 23, 4096), 23);
	CHECK_INT(store_open(u.dir, &second, &f), -EUCLEAN);
	CHECK_STR(f.code, "store_damaged");
	CHECK_INT(pwrite(fd, "not a database at all   ", 24, 0), 24);
	close(fd);
	CHECK_INT(store_open(u.dir, &second, &f), -EUCLEAN);
	CHECK(strstr(f.message, "damaged"));
	u.store = NULL;
	setup_end(&u);
}

/* A store of each earlier version is taken to today's, and works. */
static void test_migrations(void)
{
	for (int version = 1; version < schema_version; version++) {
		struct setup u = { .dir = "/tmp/carrel-store-XXXXXX", .sandbox = "sbx-first" };
		char path[300];
		sqlite3 *db;

		CHECK(mkdtemp(u.dir));
		snprintf(path, sizeof(path), "%s/carrel.db", u.dir);
		CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
		for (int i = 0; i < version; i++)
			CHECK_INT(sqlite3_exec(db, schema_steps[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		set_version(u.dir, version);
		setup_open(&u);
		setup_sandbox(&u, u.sandbox, "running", NULL);
		setup_execution(&u, "exe-1", "running", "print(1)");
		setup_end(&u);
	}
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t at_work;
static char committed[16];

static void at_gate(int err, const char *message, void *arg)
{
	(void)message, (void)arg;
	CHECK_INT(err, 0);
	sem_post(&at_work);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void note_commit(int err, const char *message, void *arg)
{
	(void)message;
	CHECK_INT(err, 0);
	strncat(committed, arg, 1);
}

/* A flood's bulk lets others pass; no lane loses its order, and what has none keeps its place. */
static void test_lanes(void)
{
	static char a, b, c;
	static const struct {
		const void *lane;
		bool bulk;
		const char *name;
	} row[] = { { &a, true, "A" },  { &b, true, "B" },  { &a, false, "a" }, { &c, false, "C" },
		    { NULL, true, "N" }, { &c, false, "c" }, { &b, true, "b" } };
	struct setup u;
	struct fault f;

	setup_begin(&u);
	pthread_mutex_lock(&gate);
	sem_init(&at_work, 0, 0);
	store_txn_submit(store_txn_new(u.store), at_gate, NULL);
	sem_wait(&at_work);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct store_txn *t = store_txn_new(u.store);

		store_txn_lane(t, row[i].lane, row[i].bulk);
		store_txn_submit(t, note_commit, (void *)row[i].name);
	}
	pthread_mutex_unlock(&gate);
	CHECK_INT(store_txn_wait(store_txn_new(u.store), &f), 0);
	CHECK_STR(committed, "AaCBNcb");
	setup_end(&u);
}

/* An event names its output before the row of it is committed: who asks at once waits. */
static void test_output_is_waited_for(void)
{
	enum { PIECE = 1024 * 1024, PIECES = 16 };
	char *piece = calloc(1, PIECE);
	struct output_row out = {
		.execution_id = "exe-1", .n = 1, .kind = "stdout", .head = "late", .head_len = 4, .bytes = 4
	};
	struct output_full full;
	struct store_txn *t;
	struct setup u;

	setup_begin(&u);
	setup_execution(&u, "exe-1", "running", "print(1)");
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 1, &full), -ENOENT);
	/* Something in front that takes its time. */
	t = store_txn_new(u.store);
	for (int i = 0; i < PIECES; i++)
		store_txn_spool(t, "exe-1", 7, (uint64_t)i * PIECE, piece, PIECE);
	store_txn_submit(t, NULL, NULL);
	t = store_txn_new(u.store);
	store_txn_output(t, &out);
	store_txn_submit(t, NULL, NULL);
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 1, &full), 0);
	CHECK(full.have == 4 && memcmp(full.text, "late", 4) == 0);
	output_full_close(&full);
	CHECK_INT(store_output_open(u.store, u.owner, "exe-1", 2, &full), -ENOENT);
	CHECK_INT(store_output_open(u.store, "own-other", "exe-1", 1, &full), -ENOENT);
	free(piece);
	setup_end(&u);
}

int main(void)
{
	test_migrations();
	test_output_is_waited_for();
	test_lanes();
	test_sandbox_round_trip();
	test_list_pages();
	test_execution_round_trip();
	test_bad_transaction_fails_alone();
	test_a_quick_execution();
	test_an_end_that_is_lost();
	test_keys();
	test_owners();
	test_erase();
	test_refusals();
	return 0;
}
