/* carrel restore: a state directory from a backup. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../core/set_sum.h"
#include "backup.h"

/* A file of the spool that a row counts on, with at least so many bytes. */
static bool spool_has(const char *folder, const char *execution, const char *name, long long bytes)
{
	char path[2 * BACKUP_PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/spool/%.60s/%.20s", folder, execution, name);
	return stat(path, &st) == 0 && st.st_size >= bytes;
}

/* Executions that were erased while the backup was made: their rows say so. */
static bool erase_missing(sqlite3 *db, const char *folder, unsigned *ret_count)
{
	static const char sql[] =
		"SELECT id, 'events', log_bytes FROM executions WHERE events IS NULL AND log_bytes > 0"
		" UNION ALL SELECT execution_id, n, spooled FROM outputs WHERE spooled > 0";
	static const char note[] = "INSERT OR IGNORE INTO missing VALUES (?)";
	sqlite3_stmt *st = NULL, *add = NULL;
	bool ok = backup_sql(db, "CREATE TEMP TABLE missing (id TEXT PRIMARY KEY)") &&
		  sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
		  sqlite3_prepare_v2(db, note, -1, &add, NULL) == SQLITE_OK;

	while (ok && sqlite3_step(st) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(st, 0);

		if (spool_has(folder, id, (const char *)sqlite3_column_text(st, 1), sqlite3_column_int64(st, 2)))
			continue;
		sqlite3_bind_text(add, 1, id, -1, SQLITE_TRANSIENT);
		ok = sqlite3_step(add) == SQLITE_DONE;
		sqlite3_reset(add);
	}
	sqlite3_finalize(st);
	sqlite3_finalize(add);
	*ret_count = ok ? (unsigned)backup_number(db, "SELECT count(*) FROM missing") : 0;
	return ok && backup_sql(db, "DELETE FROM outputs WHERE execution_id IN (SELECT id FROM missing);"
				    "UPDATE executions SET code = NULL, env = NULL, asked = NULL, events = NULL,"
				    "  log_bytes = 0 WHERE id IN (SELECT id FROM missing)");
}

/* What ran has no machine here. carreld ends it at its start, as one whose end was under way, and its cells with it. */
static bool end_running(sqlite3 *db)
{
	return backup_sql(db, "UPDATE sandboxes SET state = 'ending', end_reason = 'host-restart'"
			      " WHERE state IN ('creating', 'running')");
}

/* The disk of a paused sandbox is known by its size, its times and its inode, which is another one here. One that was
 * written to since, while the backup was made, is not made to look as if it were not. */
static void disk_adopt(const char *folder, const char *id)
{
	char disk[2 * BACKUP_PATH_MAX], manifest[2 * BACKUP_PATH_MAX];
	char sum[DISK_HASH_SIZE];
	json_t *root, *facts;
	struct stat st;

	snprintf(disk, sizeof(disk), "%s/scratch/%.60s.ext4", folder, id);
	snprintf(manifest, sizeof(manifest), "%s/sets/%.60s/manifest.json", folder, id);
	root = json_load_file(manifest, 0, NULL);
	facts = json_object_get(root, "disk");
	if (facts && stat(disk, &st) == 0 && set_manifest_sum(root, sum) && text_of(root, "sum") &&
	    strcmp(sum, text_of(root, "sum")) == 0 &&
	    json_integer_value(json_object_get(facts, "mtime_s")) == st.st_mtim.tv_sec &&
	    json_integer_value(json_object_get(facts, "mtime_ns")) == st.st_mtim.tv_nsec) {
		json_object_set_new(facts, "inode", json_integer((json_int_t)st.st_ino));
		if (!set_manifest_sum(root, sum) || json_object_set_new(root, "sum", json_string(sum)) < 0 ||
		    json_dump_file(root, manifest, JSON_COMPACT) < 0)
			complain(EXIT_FAILED, "%s cannot be written: %s.", manifest, strerror(errno));
	}
	json_decref(root);
}

static bool adopt_paused(sqlite3 *db, const char *folder)
{
	sqlite3_stmt *st = NULL;
	bool ok = sqlite3_prepare_v2(db, "SELECT id FROM sandboxes WHERE state = 'paused'", -1, &st, NULL) == SQLITE_OK;

	while (ok && sqlite3_step(st) == SQLITE_ROW)
		disk_adopt(folder, (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return ok;
}

static bool sound(sqlite3 *db)
{
	sqlite3_stmt *st = NULL;
	bool ok = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL) == SQLITE_OK &&
		  sqlite3_step(st) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(st, 0), "ok") == 0;

	sqlite3_finalize(st);
	if (!ok)
		complain(EXIT_FAILED, "The store in the backup is damaged.");
	return ok;
}

static int look_over(const char *folder, unsigned *ret_missing)
{
	char path[2 * BACKUP_PATH_MAX];
	bool ok;
	sqlite3 *db;

	snprintf(path, sizeof(path), "%s/backup.json", folder);
	if (access(path, F_OK) < 0)
		return complain(EXIT_FAILED, "The file is no backup that carrel made.");
	unlink(path);
	snprintf(path, sizeof(path), "%s/carrel.db", folder);
	db = backup_open(path, SQLITE_OPEN_READWRITE);
	ok = db && sound(db) && backup_sql(db, "BEGIN IMMEDIATE") && erase_missing(db, folder, ret_missing) && end_running(db) && adopt_paused(db, folder) &&
	     backup_sql(db, "COMMIT");
	sqlite3_close(db);
	return ok ? EXIT_OK : EXIT_FAILED;
}

static int extract(const char *file, const char *folder)
{
	const char *argv[] = { "tar", "--extract", "--force-local", "--preserve-permissions", "--same-owner", "--numeric-owner", "--sparse",
			 "--file", file, "--directory", folder, NULL };

	return backup_run(argv);
}

static void remove_tree(const char *folder)
{
	const char *argv[] = { "rm", "-rf", "--one-file-system", "--", folder, NULL };

	backup_run(argv);
}

/* Nothing that is there is ever replaced. */
static int state_free(const char *state)
{
	if (rmdir(state) < 0 && errno != ENOENT)
		return complain(EXIT_FAILED, "%s is there already: move it away, or set STATE to another directory.", state);
	return EXIT_OK;
}

static int run(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv), state[BACKUP_PATH_MAX], folder[BACKUP_PATH_MAX + 16];
	unsigned missing = 0;
	int code;

	if (!words)
		return EXIT_USAGE;
	if (!words[0] || words[1])
		return misused(c, "from which file?");
	backup_state(state);
	code = state_free(state);
	if (code != EXIT_OK)
		return code;
	snprintf(folder, sizeof(folder), "%s.restoring", state);
	if (mkdir(folder, 0700) < 0)
		return complain(EXIT_FAILED, "%s cannot be made: %s.", folder, strerror(errno));
	code = extract(words[0], folder);
	if (code == EXIT_OK)
		code = look_over(folder, &missing);
	if (code == EXIT_OK && (chmod(folder, 0755) < 0 || rename(folder, state) < 0))
		code = complain(EXIT_FAILED, "%s cannot be put into its place: %s.", folder, strerror(errno));
	if (code != EXIT_OK) {
		remove_tree(folder);
		return code;
	}
	if (c->json)
		printf("{\"restored\":true,\"erased_meanwhile\":%u}\n", missing);
	else
		printf("%s is as it was%s.\n", state,
		       missing ? ", but for executions that were erased while the backup was made" : "");
	return EXIT_OK;
}

const struct verb verb_restore = {
	.name = "restore",
	.usage = "FILE [--json]",
	.help = "make a state directory from a backup\n\n"
		"STATE must not be there yet; start the appliance with it afterwards. Sandboxes that ran end then with\n"
		"the reason host-restart, and so do their cells; paused ones resume where the warm snapshot that they\n"
		"lie on is still in CARREL_CACHE. As root, so that files get their owners back.",
	.local = true,
	.run = run,
};
