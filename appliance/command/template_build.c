#include "template.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backup.h"
#include "doctor.h"

extern char **environ;

/* Beside the folder that the command lies in, in a checkout as in an installed Carrel. */
static bool script_find(char ret[PATH_MAX + 32])
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return false;
	self[len] = '\0';
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(self, '/');

		if (!slash)
			return false;
		*slash = '\0';
	}
	snprintf(ret, PATH_MAX + 32, "%s/kernels/image/template", self);
	return access(ret, X_OK) == 0;
}

static void last_line(int fd, char *ret, size_t size)
{
	FILE *file = fdopen(fd, "re");
	char line[PATH_MAX];

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (ret)
			snprintf(ret, size, "%s", line);
	}
	if (file)
		fclose(file);
	else
		close(fd);
}

/* argv[0] is the script's place. */
static int script_start(char *const *argv, pid_t *ret_pid, int *ret_fd)
{
	posix_spawn_file_actions_t actions;
	int out[2], err;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	err = posix_spawn(ret_pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	if (err)
		close(out[0]);
	*ret_fd = out[0];
	return -err;
}

int template_run(const char *const *words, char *ret, size_t size)
{
	/* What it takes from its environment besides STATE. */
	static const char *const settings[] = { "CARREL_CACHE", "MIRROR", "WHEELS" };
	char script[PATH_MAX + 32], state[BACKUP_PATH_MAX], *argv[TEMPLATE_WORDS_MAX + 4] = { script };
	int fd = -1, status = 0, n = 1, err;
	pid_t pid;

	if (!script_find(script))
		return complain(EXIT_FAILED, "kernels/image/template is not where this command is from: use the one of a "
					     "checkout or of an installed Carrel.");
	while (words[n - 1] && n <= TEMPLATE_WORDS_MAX) {
		argv[n] = (char *)words[n - 1]; /* as posix_spawn() wants it; nobody writes there */
		n++;
	}
	backup_state(state);
	setenv("STATE", state, 1);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		setting(settings[i], NULL);
	err = script_start(argv, &pid, &fd);
	if (err)
		return complain(EXIT_FAILED, "%s cannot be started: %s.", script, strerror(-err));
	last_line(fd, ret, size);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* It said why. */
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* --- what is in use --- */

int template_sweep(void)
{
	static const char sql[] = "SELECT DISTINCT image FROM sandboxes WHERE state <> 'ended' AND image IS NOT NULL"
				  " UNION SELECT DISTINCT image FROM snapshots";
	const char *words[TEMPLATE_WORDS_MAX + 2] = { "sweep" };
	char path[BACKUP_PATH_MAX + 16], state[BACKUP_PATH_MAX];
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int n = 1, rc = SQLITE_OK, code;

	backup_state(state);
	snprintf(path, sizeof(path), "%s/carrel.db", state);
	if (access(path, F_OK) == 0) {
		db = backup_open(path, SQLITE_OPEN_READWRITE);
		rc = db ? sqlite3_prepare_v2(db, sql, -1, &st, NULL) : SQLITE_ERROR;
	}
	/* One that is just being made has no rows, as one that never ran. */
	if (db && !st && strncmp(sqlite3_errmsg(db), "no such table", 13) == 0)
		rc = SQLITE_OK;
	while (st && (rc = sqlite3_step(st)) == SQLITE_ROW && n < TEMPLATE_WORDS_MAX)
		words[n++] = strdup((const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	sqlite3_close(db);
	/* Rather too much kept than one thing too few. */
	if (rc != SQLITE_OK && rc != SQLITE_DONE)
		code = complain(EXIT_FAILED, "What is in use cannot be read from %s; nothing is removed.", path);
	else
		code = template_run(words, NULL, 0);
	while (n > 1)
		free((char *)words[--n]);
	return code;
}

/* --- build --- */

static int64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* The appliance makes the warm snapshot; says how far it is. */
static int wait_warm(struct command *c, const char *name)
{
	int64_t began = now_s();
	char *path = http_path("/v1/templates/", name), last[400] = "";
	int code = path ? EXIT_OK : complain(EXIT_FAILED, "Out of memory.");
	bool warm = false;

	while (code == EXIT_OK && !warm) {
		json_t *one = NULL;
		struct reply reply;
		const char *message;

		if (http_json(&c->http, "GET", path, NULL, &one, &reply) < 0)
			code = complain_reply(c, EXIT_FAILED, &reply);
		warm = json_is_true(json_object_get(one, "warm"));
		message = text_of(one, "message");
		if (message && strcmp(message, last) != 0)
			fprintf(stderr, "carrel: %s: %s\n", name, message);
		snprintf(last, sizeof(last), "%s", message ? message : "");
		if (code == EXIT_OK && !warm && strstr(last, "could not be made"))
			code = complain(EXIT_FAILED, "Sandboxes of %s are booted, which takes long, until that is put right.", name);
		else if (code == EXIT_OK && !warm && now_s() - began > TEMPLATE_WARM_S)
			code = complain(EXIT_TIMEOUT, "%s is not warm after %d s; it goes on without being waited for.", name,
					TEMPLATE_WARM_S);
		json_decref(one);
		if (code == EXIT_OK && !warm)
			poll(NULL, 0, TEMPLATE_POLL_MS);
	}
	free(path);
	return code;
}

static bool appliance_runs(void)
{
	char state[BACKUP_PATH_MAX], path[BACKUP_PATH_MAX + 16];

	backup_state(state);
	snprintf(path, sizeof(path), "%s/url", state);
	return access(path, F_OK) == 0;
}

int template_build(struct command *c, const char *dir, const char *name, bool wait)
{
	char folder[PATH_MAX], image[128] = "";
	int code;

	if (!realpath(dir, folder))
		return complain(EXIT_FAILED, "%s cannot be read: %s.", dir, strerror(errno));
	if (!name)
		name = strrchr(folder, '/') + 1;
	code = template_run((const char *const[]){ "build", folder, name, NULL }, image, sizeof(image));
	if (code == EXIT_OK && wait && appliance_runs())
		code = need_appliance(c);
	if (code == EXIT_OK && c->http.multi)
		code = wait_warm(c, name);
	if (code == EXIT_OK && c->json) {
		json_t *made = json_pack("{s:s, s:s}", "name", name, "image", image);

		print_json(made);
		json_decref(made);
	} else if (code == EXIT_OK) {
		printf("%s\n", image);
	}
	/* The image that had the name before. */
	return code == EXIT_OK ? template_sweep() : code;
}
