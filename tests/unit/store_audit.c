/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* The audit: what is in a row, that no row is changed or taken out, whose rows a question gives, and that
 * neither polling nor hammering at the door fills it. */
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "appliance/fault.c"
#include "appliance/store/audit.h"
#include "appliance/store/audit_syslog.h"
#include "store_setup.h"

static unsigned lines(struct setup *u, const struct audit_query *q, json_t **ret_last, int64_t *ret_seq)
{
	char *text, *at, *end;
	unsigned count = 0;
	size_t len;

	CHECK_INT(store_audit_lines(u->store, q, &text, &len), 0);
	*ret_last = NULL;
	for (at = text; (end = strchr(at, '\n')); at = end + 1) {
		json_decref(*ret_last);
		*ret_last = json_loadb(at, end - at, 0, NULL);
		CHECK(*ret_last);
		if (count++ == 0 && ret_seq)
			*ret_seq = json_integer_value(json_object_get(*ret_last, "seq"));
	}
	CHECK(*at == '\0');
	free(text);
	return count;
}

static unsigned count_of(struct setup *u, const char *owner, const char *action)
{
	struct audit_query q = { .owner_id = owner, .limit = 1000 };
	char *text, *at, needle[64];
	unsigned count = 0;
	size_t len;

	snprintf(needle, sizeof(needle), "\"action\":\"%s\"", action);
	CHECK_INT(store_audit_lines(u->store, &q, &text, &len), 0);
	for (at = text; (at = strstr(at, needle)); at++)
		count++;
	free(text);
	return count;
}

static void test_row(void)
{
	struct audit_query q = { .limit = 1000 };
	struct store_txn *t;
	struct setup u;
	json_t *row, *detail = json_pack("{s:s}", "path", "a.csv");

	setup_begin(&u);
	t = store_txn_new(u.store);
	audit_asker_set("key-7");
	store_txn_audit(t, u.owner, u.sandbox, "file_put", detail);
	audit_asker_set(NULL);
	commit(t);
	CHECK(lines(&u, &q, &row, NULL) > 1);
	CHECK_STR(text_of(row, "action"), "file_put");
	CHECK_STR(text_of(row, "result"), "ok");
	CHECK_STR(text_of(row, "key_id"), "key-7");
	CHECK_STR(text_of(row, "owner_id"), u.owner);
	CHECK_STR(text_of(row, "sandbox_id"), u.sandbox);
	CHECK_STR(text_of(json_object_get(row, "detail"), "path"), "a.csv");
	json_decref(row);
	t = store_txn_new(u.store);
	store_txn_audit(t, u.owner, u.sandbox, "sandbox_end", NULL);
	commit(t);
	lines(&u, &q, &row, NULL);
	CHECK(json_is_null(json_object_get(row, "key_id"))); /* Carrel's own doing */
	json_decref(row);
	json_decref(detail);
	setup_end(&u);
}

/* Also by who opens the file with a SQLite of his own. */
static void test_append_only(void)
{
	static const char *const refused[] = { "UPDATE audit SET owner_id = 'somebody'", "DELETE FROM audit",
					       "DELETE FROM audit WHERE seq = 1",
					       "INSERT OR REPLACE INTO audit (seq, at_ms, action) VALUES (1, 1, 'x')" };
	struct audit_query q = { .limit = 1000 };
	struct setup u;
	char path[300];
	sqlite3 *conn;
	unsigned before;
	json_t *row;

	setup_begin(&u);
	before = lines(&u, &q, &row, NULL);
	json_decref(row);
	snprintf(path, sizeof(path), "%s/carrel.db", u.dir);
	CHECK_INT(sqlite3_open(path, &conn), SQLITE_OK);
	/* REPLACE deletes first, and only then asks triggers that are recursive. */
	CHECK_INT(sqlite3_exec(conn, "PRAGMA recursive_triggers = ON", NULL, NULL, NULL), SQLITE_OK);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK_INT(sqlite3_exec(conn, refused[i], NULL, NULL, NULL), SQLITE_CONSTRAINT);
	sqlite3_close(conn);
	CHECK_INT(lines(&u, &q, &row, NULL), before);
	json_decref(row);
	setup_end(&u);
}

static void add(struct setup *u, const char *owner, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct store_txn *t = store_txn_new(u->store);

		store_txn_audit(t, owner, u->sandbox, "execute", NULL);
		commit(t);
	}
}

static void test_questions(void)
{
	struct audit_query q = { .limit = 4 };
	int64_t first, next;
	struct setup u;
	unsigned all = 0, got;
	json_t *row;

	setup_begin(&u);
	add(&u, "own-one", 5);
	add(&u, "own-two", 5);
	do { /* page by page, each row once and in order */
		got = lines(&u, &q, &row, &first);
		CHECK(got == 0 || first > q.after);
		next = json_integer_value(json_object_get(row, "seq"));
		q.after = got ? next : q.after;
		all += got;
		json_decref(row);
	} while (got > 0);
	CHECK(all >= 10);
	q = (struct audit_query){ .owner_id = "own-two", .limit = 1000 };
	CHECK_INT(lines(&u, &q, &row, NULL), 5);
	CHECK_STR(text_of(row, "owner_id"), "own-two");
	json_decref(row);
	q.sandbox_id = "sbx-other";
	CHECK_INT(lines(&u, &q, &row, NULL), 0);
	q = (struct audit_query){ .since_ms = 1, .until_ms = INT64_MAX, .limit = 1000 };
	CHECK_INT(lines(&u, &q, &row, NULL), all);
	json_decref(row);
	q.until_ms = 2;
	CHECK_INT(lines(&u, &q, &row, NULL), 0);
	q = (struct audit_query){ .since_ms = INT64_MAX - 1, .limit = 1000 };
	CHECK_INT(lines(&u, &q, &row, NULL), 0);
	setup_end(&u);
}

static void test_doors(void)
{
	struct setup u;

	setup_begin(&u);
	for (int i = 0; i < 500; i++) {
		store_key_used(u.store, "key-1", "own-one", "192.0.2.1");
		store_refused(u.store, "key-2", "own-two", u.sandbox, "quota", json_pack("{s:i}", "status", 429));
	}
	store_key_used(u.store, "key-1", "own-one", "192.0.2.2");
	store_refused(u.store, NULL, NULL, NULL, "unauthorized", json_object());
	commit(store_txn_new(u.store));
	CHECK_INT(count_of(&u, "own-one", "key_use"), 2);
	CHECK(count_of(&u, "own-two", "refused") >= 20 && count_of(&u, "own-two", "refused") < 30);
	CHECK_INT(count_of(&u, NULL, "refused") - count_of(&u, "own-two", "refused"), 1);
	setup_end(&u);
}

static unsigned syslog_take(int fd, const char *needle, unsigned wanted)
{
	struct timeval patience = { .tv_sec = 10 };
	char message[16384];
	unsigned got = 0;

	CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	while (got < wanted) {
		ssize_t n = recv(fd, message, sizeof(message) - 1, 0);

		CHECK(n > 0);
		message[n] = '\0';
		CHECK(strncmp(message, "<86>", 4) == 0 && strstr(message, " carrel-audit["));
		got += strstr(message, needle) != NULL;
	}
	return got;
}

/* Its daemon comes late, and carreld is started again: each row arrives. */
static void test_syslog(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct audit_syslog *a;
	struct setup u;
	int fd;

	setup_begin(&u);
	snprintf(at.sun_path, sizeof(at.sun_path), "%.90s/log", u.dir);
	CHECK_INT(audit_syslog_start(u.store, at.sun_path, &a), 0);
	add(&u, "own-early", 3);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK_INT(syslog_take(fd, "own-early", 3), 3);
	audit_syslog_stop(a);
	add(&u, "own-between", 700); /* more than a socket holds, and than one page */
	CHECK_INT(audit_syslog_start(u.store, at.sun_path, &a), 0);
	CHECK_INT(syslog_take(fd, "own-between", 700), 700);
	audit_syslog_stop(a);
	close(fd);
	setup_end(&u);
}

int main(void)
{
	setbuf(stdout, NULL);
	test_row();
	test_append_only();
	test_questions();
	test_doors();
	test_syslog();
	return 0;
}
