/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* Retention: what is too old or too much goes, oldest first, with its files; what runs stays; and kill -9 at any
 * moment leaves no row without its files and no files without a row. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "appliance/fault.c"
#include "appliance/store/audit.h"
#include "appliance/store/sweep.h"
#include "appliance/store/sweep_inner.h"
#include "store_setup.h"

enum { KEPT_DAYS = 30, OLD_DAYS = 40, MIB = 1024 * 1024, ROUNDS = 25 };

static int64_t days_ago(int days)
{
	return time(NULL) * 1000LL - days * (int64_t)DAY_MS;
}

/* An execution with bytes of output in the spool, made and ended so many days ago. */
static void add(struct setup *u, const char *id, const char *sandbox, const char *status, int days, size_t bytes)
{
	struct execution_row row = { .status = status, .code = "print(1)", .exit_code = -1, .kernel_id = "krn-1",
				     .queued_ms = days_ago(days), .ended_ms = days_ago(days) };
	struct output_row out = { .kind = "stdout", .head = "h", .head_len = 1, .bytes = bytes, .spooled = bytes };
	struct store_txn *t = store_txn_new(u->store);
	char *text = calloc(1, bytes + 1);

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.sandbox_id, sizeof(row.sandbox_id), "%s", sandbox);
	snprintf(out.execution_id, sizeof(out.execution_id), "%s", id);
	store_txn_execution(t, &row);
	if (bytes > 0)
		store_txn_spool(t, id, 0, 0, text, bytes);
	store_txn_output(t, &out);
	commit(t);
	free(text);
}

static bool row_there(struct setup *u, const char *id)
{
	json_t *got;

	if (store_execution_get(u->store, NULL, id, &got) < 0)
		return false;
	json_decref(got);
	return true;
}

static bool spool_there(struct setup *u, const char *id)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/spool/%s", u->dir, id);
	return access(path, F_OK) == 0;
}

static int64_t number(struct setup *u, const char *sql)
{
	char path[300];
	sqlite3_stmt *st;
	int64_t value;
	sqlite3 *conn;

	snprintf(path, sizeof(path), "%s/carrel.db", u->dir);
	CHECK_INT(sqlite3_open(path, &conn), SQLITE_OK);
	CHECK_INT(sqlite3_prepare_v2(conn, sql, -1, &st, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_step(st), SQLITE_ROW);
	value = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(conn);
	return value;
}

static void change(struct setup *u, const char *sql)
{
	char path[300];
	sqlite3 *conn;

	snprintf(path, sizeof(path), "%s/carrel.db", u->dir);
	CHECK_INT(sqlite3_open(path, &conn), SQLITE_OK);
	CHECK_INT(sqlite3_exec(conn, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(conn);
}

static void test_old(void)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 1000 };
	struct setup u;
	char name[STORE_ID_MAX];
	json_t *got;

	setup_begin(&u);
	setup_sandbox(&u, "sbx-over", "ended", "asked");
	for (int i = 0; i < 100; i++) { /* more than one batch */
		snprintf(name, sizeof(name), "exe-old%d", i);
		add(&u, name, i % 2 ? "sbx-over" : u.sandbox, "ok", OLD_DAYS, i % 3 ? 1000 : 0);
	}
	add(&u, "exe-runs", u.sandbox, "running", OLD_DAYS, 1000);
	add(&u, "exe-waits", u.sandbox, "queued", OLD_DAYS, 0);
	add(&u, "exe-new", u.sandbox, "error", KEPT_DAYS - 1, 1000);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "exe-old%d", i);
		CHECK(!row_there(&u, name) && !spool_there(&u, name));
	}
	CHECK(row_there(&u, "exe-runs") && spool_there(&u, "exe-runs"));
	CHECK(row_there(&u, "exe-waits"));
	CHECK(row_there(&u, "exe-new") && spool_there(&u, "exe-new"));
	/* Outputs went along, and a sandbox that ended and has nothing left; one that runs stays. */
	CHECK_INT(number(&u, "SELECT count(*) FROM outputs"), 3);
	CHECK_INT(number(&u, "SELECT count(*) FROM erasing"), 0);
	CHECK_INT(store_sandbox_get(u.store, u.owner, "sbx-over", &got), -ENOENT);
	CHECK_INT(store_sandbox_get(u.store, u.owner, u.sandbox, &got), 0);
	json_decref(got);
	/* Once it is over it goes as well. */
	add(&u, "exe-runs", u.sandbox, "died", OLD_DAYS, 1000);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK(!row_there(&u, "exe-runs") && !spool_there(&u, "exe-runs"));
	setup_end(&u);
}

static void test_audit(void)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 1000 };
	struct setup u;
	char sql[200];

	setup_begin(&u);
	snprintf(sql, sizeof(sql), "INSERT INTO audit (at_ms, action) VALUES (%lld, 'old'), (%lld, 'young')",
		 (long long)days_ago(OLD_DAYS), (long long)days_ago(KEPT_DAYS - 1));
	change(&u, sql);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK_INT(number(&u, "SELECT count(*) FROM audit WHERE action = 'old'"), 1); /* behind rows of today */
	change(&u, "UPDATE sweep SET open = 1; DELETE FROM audit WHERE at_ms > unixepoch() * 1000 - 1000000;"
		   "UPDATE sweep SET open = 0");
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK_INT(number(&u, "SELECT count(*) FROM audit WHERE action = 'old'"), 0);
	CHECK_INT(number(&u, "SELECT count(*) FROM audit WHERE action = 'young'"), 1);
	CHECK_INT(number(&u, "SELECT open FROM sweep"), 0);
	setup_end(&u);
}

static void test_owners(void)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 1000 };
	struct owner_quota less = { -1, 2, -1 };
	struct fault f;
	struct setup u;

	setup_begin(&u);
	add(&u, "exe-three", u.sandbox, "ok", 3, 10);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK(row_there(&u, "exe-three"));
	CHECK_INT(store_owner_change(u.store, u.owner, u.owner, &less, &f), 0);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK(!row_there(&u, "exe-three"));
	add(&u, "exe-big", u.sandbox, "ok", 1, MIB);
	add(&u, "exe-big2", u.sandbox, "ok", 1, MIB);
	add(&u, "exe-small", u.sandbox, "ok", 1, 1000);
	less = (struct owner_quota){ -1, -1, 1 };
	CHECK_INT(store_owner_change(u.store, u.owner, u.owner, &less, &f), 0);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK(!row_there(&u, "exe-big") && !row_there(&u, "exe-big2") && row_there(&u, "exe-small"));
	setup_end(&u);
}

/* Oldest first, and no more than it takes; what was counted is what is left. */
static void test_much(void)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 5 };
	struct setup u;
	char name[STORE_ID_MAX];
	int64_t bytes;
	json_t *got;
	struct fault f;

	setup_begin(&u);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "exe-%d", i);
		add(&u, name, u.sandbox, "ok", 1, MIB);
	}
	add(&u, "exe-runs", u.sandbox, "running", 2, MIB);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "exe-%d", i);
		CHECK_INT(row_there(&u, name), i >= 6);
	}
	CHECK(row_there(&u, "exe-runs"));
	bytes = number(&u, "SELECT bytes FROM history");
	CHECK(bytes > 4 * MIB && bytes < 5 * MIB);
	CHECK_INT(bytes, number(&u, "SELECT sum(stored) FROM executions"));
	/* An erased one counts for little, and it is counted again. */
	CHECK_INT(store_execution_erase(u.store, u.owner, "exe-9", &f), 0);
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK_INT(number(&u, "SELECT bytes FROM history"), number(&u, "SELECT sum(stored) FROM executions"));
	CHECK(number(&u, "SELECT bytes FROM history") < bytes - MIB + 2000);
	/* Nothing but a bound that holds nothing: what runs is left. */
	keep.mb = 0;
	CHECK_INT(sweep_once(u.store, &keep), 0);
	CHECK_INT(number(&u, "SELECT count(*) FROM executions"), 1);
	CHECK_INT(number(&u, "SELECT count(*) FROM audit"), 0);
	CHECK_INT(store_sandbox_get(u.store, u.owner, u.sandbox, &got), 0);
	json_decref(got);
	setup_end(&u);
}

/* The file takes its free pages again. */
static void test_size(void)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 1000 };
	char head[4096], name[STORE_ID_MAX];
	int64_t pages = 0, now;
	struct setup u;

	memset(head, 'x', sizeof(head));
	setup_begin(&u);
	for (int round = 0; round < 6; round++) {
		struct store_txn *t = store_txn_new(u.store);

		for (int i = 0; i < 300; i++) {
			struct execution_row row = { .status = "ok", .exit_code = -1, .kernel_id = "krn-1",
						     .queued_ms = days_ago(OLD_DAYS), .ended_ms = days_ago(OLD_DAYS) };
			struct output_row out = { .kind = "stdout", .head = head, .head_len = sizeof(head), .bytes = sizeof(head) };

			snprintf(name, sizeof(name), "exe-%d-%d", round, i);
			memcpy(row.id, name, sizeof(name));
			memcpy(out.execution_id, name, sizeof(name));
			snprintf(row.sandbox_id, sizeof(row.sandbox_id), "%s", u.sandbox);
			store_txn_execution(t, &row);
			store_txn_output(t, &out);
		}
		commit(t);
		CHECK_INT(sweep_once(u.store, &keep), 0);
		now = number(&u, "PRAGMA page_count");
		CHECK(round < 2 || now <= pages + 8);
		pages = now;
	}
	setup_end(&u);
}

/* --- kill -9 --- */

/* Makes old history and sweeps it, until it is killed. */
static void child_main(struct setup *u, int round)
{
	struct sweep_settings keep = { .days = KEPT_DAYS, .mb = 1000 };
	char name[STORE_ID_MAX];

	setup_open(u);
	for (int i = 0;; i++) {
		snprintf(name, sizeof(name), "exe-%d-%d", round, i);
		add(u, name, u->sandbox, i % 5 ? "ok" : "running", OLD_DAYS, 100 + i);
		if (i % 40 == 39)
			CHECK_INT(sweep_once(u->store, &keep), 0);
	}
}

static unsigned rows_without_spool(struct setup *u)
{
	char path[300], spool[400];
	unsigned count = 0;
	sqlite3_stmt *st;
	sqlite3 *conn;

	snprintf(path, sizeof(path), "%s/carrel.db", u->dir);
	CHECK_INT(sqlite3_open(path, &conn), SQLITE_OK);
	CHECK_INT(sqlite3_prepare_v2(conn, "SELECT execution_id, n FROM outputs WHERE spooled > 0", -1, &st, NULL), SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		snprintf(spool, sizeof(spool), "%s/spool/%s/%d", u->dir, sqlite3_column_text(st, 0), sqlite3_column_int(st, 1));
		count += access(spool, F_OK) != 0;
	}
	sqlite3_finalize(st);
	sqlite3_close(conn);
	return count;
}

static unsigned spools_without_row(struct setup *u, unsigned *ret_all)
{
	char path[300];
	struct dirent *entry;
	unsigned count = 0;
	DIR *list;

	snprintf(path, sizeof(path), "%s/spool", u->dir);
	list = opendir(path);
	CHECK(list);
	*ret_all = 0;
	while ((entry = readdir(list))) {
		if (entry->d_name[0] == '.')
			continue;
		(*ret_all)++;
		count += !row_there(u, entry->d_name);
	}
	closedir(list);
	return count;
}

static void test_kill(void)
{
	unsigned seed = 5, spools, caught = 0;
	struct setup u;
	int status;

	setup_begin(&u);
	for (int round = 0; round < ROUNDS; round++) {
		pid_t child;

		store_close(u.store);
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			child_main(&u, round);
		usleep(100000 + rand_r(&seed) % 300000);
		kill(child, SIGKILL);
		CHECK_INT(waitpid(child, &status, 0), child);
		CHECK(WIFSIGNALED(status));
		setup_open(&u);
		CHECK_INT(rows_without_spool(&u), 0);
		caught += number(&u, "SELECT count(*) > 0 FROM erasing");
		/* As its start does, with all that is older than it. */
		CHECK_INT(sweep_leftovers(u.store, time(NULL) * 1000LL + 2000), 0);
		CHECK_INT(spools_without_row(&u, &spools), 0);
		CHECK_INT(rows_without_spool(&u), 0);
		CHECK_INT(number(&u, "SELECT count(*) FROM erasing"), 0);
	}
	printf("%d kills, %u of them between rows and files\n", ROUNDS, caught);
	CHECK(spools > 0);
	setup_end(&u);
}

int main(void)
{
	setbuf(stdout, NULL);
	test_old();
	test_audit();
	test_owners();
	test_much();
	test_size();
	test_kill();
	return 0;
}
