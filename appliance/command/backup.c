#include "backup.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../version.h"
#include "doctor.h"

extern char **environ;

/* Where a backup is being made: beside its file, so that the last step is a rename. */
struct making {
	char state[BACKUP_PATH_MAX], folder[BACKUP_PATH_MAX], part[BACKUP_PATH_MAX];
	const char *file;
};

void backup_state(char ret[BACKUP_PATH_MAX])
{
	snprintf(ret, BACKUP_PATH_MAX, "%s", setting("STATE", "./state"));
}

int backup_run(const char **argv)
{
	pid_t pid;
	int status = 0, err = posix_spawnp(&pid, argv[0], NULL, NULL, (char **)argv, environ);

	if (err)
		return complain(EXIT_FAILED, "%s cannot be started: %s.", argv[0], strerror(err));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
		return EXIT_OK;
	return complain(EXIT_FAILED, "%s failed; what it said stands above.", argv[0]);
}

sqlite3 *backup_open(const char *path, int flags)
{
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(path, &db, flags, NULL) == SQLITE_OK) {
		sqlite3_busy_timeout(db, 10 * 1000);
		return db;
	}
	complain(EXIT_FAILED, "%s cannot be opened: %s.", path, db ? sqlite3_errmsg(db) : "out of memory");
	sqlite3_close(db);
	return NULL;
}

bool backup_sql(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
		return true;
	complain(EXIT_FAILED, "The copy of the store: %s.", sqlite3_errmsg(db));
	return false;
}

long long backup_number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st = NULL;
	long long number = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
		number = sqlite3_column_int64(st, 0);
	else
		complain(EXIT_FAILED, "The copy of the store: %s.", sqlite3_errmsg(db));
	sqlite3_finalize(st);
	return number;
}

/* In one step, and so one moment: in pieces it would begin anew with each commit of carreld's. */
static int store_copy(const struct making *m)
{
	char from[BACKUP_PATH_MAX + 16], to[BACKUP_PATH_MAX + 16];
	sqlite3 *source, *copy;
	sqlite3_backup *backup = NULL;
	struct stat st;
	int code = EXIT_FAILED, rc = SQLITE_BUSY;

	snprintf(from, sizeof(from), "%s/carrel.db", m->state);
	snprintf(to, sizeof(to), "%s/carrel.db", m->folder);
	source = backup_open(from, SQLITE_OPEN_READWRITE);
	copy = source ? backup_open(to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) : NULL;
	if (copy)
		backup = sqlite3_backup_init(copy, "main", source, "main");
	if (backup)
		rc = sqlite3_backup_step(backup, -1);
	if (backup && sqlite3_backup_finish(backup) == SQLITE_OK && rc == SQLITE_DONE && backup_sql(copy, "PRAGMA journal_mode = DELETE"))
		code = EXIT_OK;
	else if (copy)
		complain(code, "The store %s cannot be copied: %s.", from, sqlite3_errmsg(copy));
	sqlite3_close(copy);
	sqlite3_close(source);
	/* carreld's, as the one that it is a copy of. */
	if (code == EXIT_OK && (stat(from, &st) < 0 || chown(to, st.st_uid, st.st_gid) < 0))
		code = complain(EXIT_FAILED, "%s cannot be given its owner: %s.", to, strerror(errno));
	return code;
}

/* What goes in besides the store: names below the state directory, a line each. */
static int list_files(const struct making *m, sqlite3 *db, FILE *list)
{
	static const char sql[] = "SELECT 'sets/' || id FROM sandboxes WHERE state = 'paused'"
				  " UNION ALL SELECT 'scratch/' || id || '.ext4' FROM sandboxes WHERE state = 'paused'"
				  " UNION ALL SELECT 'snapshots/' || id FROM snapshots";
	char path[2 * BACKUP_PATH_MAX];
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	fputs("token\nspool\n", list);
	snprintf(path, sizeof(path), "%s/templates", m->state);
	if (access(path, F_OK) == 0)
		fputs("templates\n", list);
	while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(st, 0);

		snprintf(path, sizeof(path), "%s/%s", m->state, name);
		if (access(path, F_OK) == 0)
			fprintf(list, "%s\n", name);
	}
	sqlite3_finalize(st);
	return rc == SQLITE_OK ? EXIT_OK : complain(EXIT_FAILED, "The copy of the store: %s.", sqlite3_errmsg(db));
}

static int describe(const struct making *m, sqlite3 *db)
{
	char path[BACKUP_PATH_MAX + 16], at[32];
	time_t now = time(NULL);
	struct tm tm;
	json_t *json;
	int err;

	gmtime_r(&now, &tm);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json = json_pack("{s:i, s:s, s:s, s:I, s:I}", "backup", 1, "carrel", CARREL_VERSION, "created_at", at,
			 "sandboxes", (json_int_t)backup_number(db, "SELECT count(*) FROM sandboxes"), "executions",
			 (json_int_t)backup_number(db, "SELECT count(*) FROM executions"));
	snprintf(path, sizeof(path), "%s/backup.json", m->folder);
	err = json_dump_file(json, path, JSON_INDENT(1));
	json_decref(json);
	return err ? complain(EXIT_FAILED, "%s cannot be written.", path) : EXIT_OK;
}

static int folder_fill(const struct making *m)
{
	char path[BACKUP_PATH_MAX + 16];
	sqlite3 *db;
	FILE *list;
	int code = store_copy(m);

	if (code != EXIT_OK)
		return code;
	snprintf(path, sizeof(path), "%s/carrel.db", m->folder);
	db = backup_open(path, SQLITE_OPEN_READONLY);
	snprintf(path, sizeof(path), "%s/list", m->folder);
	list = db ? fopen(path, "we") : NULL;
	code = list ? list_files(m, db, list) : EXIT_FAILED;
	if (list && fclose(list) != 0)
		code = complain(EXIT_FAILED, "%s cannot be written: %s.", path, strerror(errno));
	if (code == EXIT_OK)
		code = describe(m, db);
	sqlite3_close(db);
	return code;
}

static int archive(const struct making *m)
{
	char list[BACKUP_PATH_MAX + 16];
	/* Times to the nanosecond: a paused sandbox's disk is known by them. */
	const char *argv[] = { "tar", "--create", "--force-local", "--format=posix", "--sparse", "--numeric-owner", "--ignore-failed-read",
			 "--warning=no-file-changed", "--warning=no-file-removed", "--file", m->part,
			 "--directory", m->folder, "backup.json", "carrel.db", "--directory", m->state,
			 "--verbatim-files-from", "--files-from", list, NULL };

	snprintf(list, sizeof(list), "%s/list", m->folder);
	return backup_run(argv);
}

/* Whole and safe under its name, or not there. */
static int put_in_place(const struct making *m)
{
	int fd = open(m->part, O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0 || fsync(fd) < 0 || rename(m->part, m->file) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err ? complain(EXIT_FAILED, "%s cannot be written: %s.", m->file, strerror(err)) : EXIT_OK;
}

static void clean(const struct making *m)
{
	static const char *const names[] = { "carrel.db", "carrel.db-journal", "list", "backup.json" };
	char path[BACKUP_PATH_MAX + 32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", m->folder, names[i]);
		unlink(path);
	}
	rmdir(m->folder);
	unlink(m->part);
}

static int make(struct making *m)
{
	char absolute[BACKUP_PATH_MAX];
	int code;

	/* tar changes its directory between names. */
	if (!realpath(m->state, absolute))
		return complain(EXIT_FAILED, "The state directory %s cannot be read: %s.", m->state, strerror(errno));
	memcpy(m->state, absolute, sizeof(absolute));
	if (!mkdtemp(m->folder))
		return complain(EXIT_FAILED, "Nothing can be written beside %s: %s.", m->file, strerror(errno));
	if (realpath(m->folder, absolute))
		memcpy(m->folder, absolute, sizeof(absolute));
	code = folder_fill(m);
	if (code == EXIT_OK)
		code = archive(m);
	if (code == EXIT_OK)
		code = put_in_place(m);
	clean(m);
	return code;
}

static int run(struct command *c, int argc, char **argv)
{
	char **words = words_only(c, argc, argv);
	struct making m;
	struct stat st;
	int code;

	if (!words)
		return EXIT_USAGE;
	if (!words[0] || words[1])
		return misused(c, "into which file?");
	if (strlen(words[0]) > BACKUP_PATH_MAX - 32)
		return misused(c, "the file's name is too long");
	m.file = words[0];
	backup_state(m.state);
	snprintf(m.folder, sizeof(m.folder), "%s.making-XXXXXX", m.file);
	snprintf(m.part, sizeof(m.part), "%s.part", m.file);
	umask(0077); /* it is every owner's code and outputs */
	code = make(&m);
	if (code != EXIT_OK)
		return code;
	if (stat(m.file, &st) < 0)
		return complain(EXIT_FAILED, "%s is gone: %s.", m.file, strerror(errno));
	if (c->json) {
		json_t *answer = json_pack("{s:s, s:I}", "file", m.file, "bytes", (json_int_t)st.st_size);

		print_json(answer);
		json_decref(answer);
	} else {
		printf("%s: %lld MiB\n", m.file, (long long)(st.st_size >> 20));
	}
	return EXIT_OK;
}

const struct verb verb_backup = {
	.name = "backup",
	.usage = "FILE [--json]",
	.help = "copy the state directory into a file while the appliance runs\n\n"
		"Every row that was acknowledged before, outputs, paused sandboxes and snapshots; not what running\n"
		"sandboxes have in memory and on their disks. Run it where the appliance runs, as root, with its\n"
		"STATE. The file holds keys and all owners' code: keep it as you keep those.",
	.local = true,
	.run = run,
};
