/* carrel run: a sandbox, files in, code, files out, and the sandbox is gone. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "remote.h"
#include "signals.h"
#include "stream.h"

enum {
	FILES_MAX = 1000,
	DEFAULT_S = 3600,  /* life of the sandbox where no --timeout was given */
	AROUND_S = 300,    /* life beyond --timeout: for copying files */
	LONGEST_S = 86400, /* reference v1 */
};

/* A file to copy, and its name on the other side. */
struct file_arg {
	char *path, *other;
};

struct run {
	struct command *command;
	const char *code_arg, *file;
	const char *engine, *template_name, *snapshot, *sandbox, *images, *language;
	long timeout_s;
	bool keep;
	json_t *env, *limits;
	struct file_arg puts[FILES_MAX], gets[FILES_MAX];
	unsigned put_count, get_count;
	char id[64];
	bool ours; /* made here: deleted at the end */
	struct events events;
	int signals;
	int leave_code; /* why we leave, once a signal said so */
};

/* "PATH" or "PATH:OTHER"; a local file of the whole name wins. */
static int file_arg(struct run *r, const char *text, bool local_first, struct file_arg *files,
		    unsigned *count)
{
	const char *colon = strrchr(text, ':');
	struct file_arg file = { 0 };

	if (*count == FILES_MAX)
		return misused(r->command, "at most %d files", FILES_MAX);
	if (!colon || colon == text || (local_first && access(text, F_OK) == 0))
		colon = text + strlen(text);
	file.path = strndup(text, colon - text);
	file.other = strdup(*colon ? colon + 1 : "");
	if (!file.path || !file.other) {
		free(file.path);
		free(file.other);
		return complain(EXIT_FAILED, "Out of memory.");
	}
	files[(*count)++] = file;
	return EXIT_OK;
}

/* "NAME=NUMBER": which there are, and from where to where, is the appliance's to say. */
static int limit_option(struct run *r, const char *text)
{
	const char *equals = strchr(text, '=');
	json_t *number = equals ? json_loads(equals + 1, JSON_DECODE_ANY, NULL) : NULL;
	char name[64];

	if (!json_is_number(number) || equals == text || equals - text >= (ptrdiff_t)sizeof(name)) {
		json_decref(number);
		return misused(r->command, "--limit takes NAME=NUMBER, not \"%s\"", text);
	}
	snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	return json_object_set_new(r->limits, name, number) ? misused(r->command, "\"%s\" is not UTF-8", text) : EXIT_OK;
}

static int take_option(struct run *r, int opt, char *value, char **argv)
{
	switch (opt) {
	case 'c':
		r->code_arg = value;
		return EXIT_OK;
	case 'p':
		return file_arg(r, value, true, r->puts, &r->put_count);
	case 'g':
		return file_arg(r, value, false, r->gets, &r->get_count);
	case 'e':
		r->engine = value;
		return EXIT_OK;
	case 't':
		r->template_name = value;
		return EXIT_OK;
	case 'n':
		r->snapshot = value;
		return EXIT_OK;
	case 'l':
		r->language = value;
		return EXIT_OK;
	case 's':
		r->sandbox = value;
		return EXIT_OK;
	case 'i':
		r->images = value;
		return EXIT_OK;
	case 'k':
		r->keep = true;
		return EXIT_OK;
	case 'j':
		r->command->json = true;
		return EXIT_OK;
	case 'v':
		return env_option(r->command, value, r->env);
	case 'm':
		return limit_option(r, value);
	case 'o':
		return number_option(r->command, "--timeout", value, 1, LONGEST_S, &r->timeout_s);
	default:
		return wrong_option(r->command, argv);
	}
}

/* What a file's name says of its language; NULL: nothing, the sandbox's template decides. */
static const char *language_of(const char *file)
{
	const char *suffix = strrchr(base_name(file), '.');

	return suffix && (strcmp(suffix, ".sh") == 0 || strcmp(suffix, ".bash") == 0) ? "bash" : NULL;
}

static int take_options(struct run *r, int argc, char **argv)
{
	static const struct option options[] = {
		{ "put", required_argument, NULL, 'p' },      { "get", required_argument, NULL, 'g' },
		{ "engine", required_argument, NULL, 'e' },   { "template", required_argument, NULL, 't' },
		{ "timeout", required_argument, NULL, 'o' },  { "sandbox", required_argument, NULL, 's' },
		{ "images", required_argument, NULL, 'i' },   { "env", required_argument, NULL, 'v' },
		{ "language", required_argument, NULL, 'l' }, { "keep", no_argument, NULL, 'k' },
		{ "json", no_argument, NULL, 'j' },           { "snapshot", required_argument, NULL, 'n' },
		{ "limit", required_argument, NULL, 'm' },    { 0 }
	};
	int opt, code = EXIT_OK;

	while (code == EXIT_OK && (opt = getopt_long(argc, argv, "c:", options, NULL)) != -1)
		code = take_option(r, opt, optarg, argv);
	if (code != EXIT_OK)
		return code;
	if (argc - optind > 1 || (argc - optind == 1 && r->code_arg))
		return misused(r->command, "\"%s\" is one word too many", argv[argc - 1]);
	r->file = argc > optind ? argv[optind] : NULL;
	if (r->file && !r->language)
		r->language = language_of(r->file);
	if (!r->file && !r->code_arg)
		return misused(r->command, "what code? FILE, - for stdin, or -c CODE");
	if (r->sandbox && (r->engine || r->template_name || r->snapshot || json_object_size(r->limits) > 0))
		return misused(r->command,
			       "a sandbox that is there has its engine, template and limits: leave them out");
	if (r->snapshot && (r->template_name || json_object_size(r->limits) > 0))
		return misused(r->command, "a snapshot has its template and limits: leave them out");
	return EXIT_OK;
}

/* The whole code, allocated; at most what a request may carry. */
static int read_code(struct run *r, char **ret)
{
	FILE *file = strcmp(r->file, "-") == 0 ? stdin : fopen(r->file, "re");
	char *code = malloc(HTTP_BODY_MAX + 1);
	size_t len = 0;
	int err = 0;

	if (file && code) {
		len = fread(code, 1, HTTP_BODY_MAX + 1, file);
		err = ferror(file) ? errno : 0;
	} else {
		err = errno;
	}
	if (file && file != stdin)
		fclose(file);
	if (err || len > HTTP_BODY_MAX) {
		free(code);
		return err ? complain(EXIT_FAILED, "%s: %s.", r->file, strerror(err))
			   : complain(EXIT_FAILED,
				      "%s is larger than 1 MiB: put what is data into files (--put).",
				      r->file);
	}
	code[len] = '\0';
	if (strlen(code) != len) {
		free(code);
		return complain(EXIT_FAILED, "%s is no text: it holds a NUL.", r->file);
	}
	*ret = code;
	return EXIT_OK;
}

/* What can be known to fail is told before a sandbox is made. */
static int check_puts(const struct run *r)
{
	struct stat st;

	for (unsigned i = 0; i < r->put_count; i++) {
		if (access(r->puts[i].path, R_OK) < 0 || stat(r->puts[i].path, &st) < 0)
			return complain(EXIT_FAILED, "%s: %s.", r->puts[i].path, strerror(errno));
		if (S_ISDIR(st.st_mode))
			return complain(EXIT_FAILED, "%s is a directory: pack it with tar.", r->puts[i].path);
	}
	return EXIT_OK;
}

/* A sandbox that is being made has no name yet: it is waited for, to be deleted. */
static int on_signal_creating(int signal, void *arg)
{
	struct run *r = arg;

	if (r->leave_code)
		return 1;
	r->leave_code = EXIT_SIGNAL + signal;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "[waiting for the sandbox, to delete it; Ctrl-C again does not wait]\n");
	return 0;
}

static int create(struct run *r)
{
	long life = r->timeout_s ? r->timeout_s + AROUND_S : DEFAULT_S;
	json_t *body = json_pack("{s:i}", "timeout_s", (int)(life < LONGEST_S ? life : LONGEST_S)),
	       *answer = NULL;
	struct reply reply;
	const char *id;
	int got;

	if (r->engine)
		json_object_set_new(body, "engine", json_string(r->engine));
	if (r->template_name)
		json_object_set_new(body, "template", json_string(r->template_name));
	if (r->snapshot)
		json_object_set_new(body, "snapshot", json_string(r->snapshot));
	if (json_object_size(r->limits) > 0)
		json_object_set(body, "limits", r->limits);
	r->command->http.interrupt = on_signal_creating;
	r->command->http.arg = r;
	got = http_json(&r->command->http, "POST", "/v1/sandboxes", body, &answer, &reply);
	r->command->http.interrupt = NULL;
	json_decref(body);
	if (got < 0 && reply.stopped)
		return complain(r->leave_code, "A sandbox may be left that ends by itself: see carrel ls.");
	if (got < 0)
		return complain_reply(r->command, EXIT_FAILED, &reply);
	id = json_string_value(json_object_get(answer, "id"));
	snprintf(r->id, sizeof(r->id), "%s", id ? id : "");
	json_decref(answer);
	if (!r->id[0])
		return complain(EXIT_FAILED, "The appliance's answer names no sandbox.");
	r->ours = true;
	return r->leave_code;
}

static void delete_sandbox(struct run *r)
{
	char path[100];
	struct reply reply;

	snprintf(path, sizeof(path), "/v1/sandboxes/%s", r->id);
	if (http_json(&r->command->http, "DELETE", path, NULL, NULL, &reply) < 0)
		complain(EXIT_FAILED, "The sandbox %s was not deleted (%s): carrel kill %s", r->id,
			 reply.message, r->id);
	r->ours = false;
}

static void interrupt_code(struct run *r)
{
	char path[200];
	struct reply reply;

	snprintf(path, sizeof(path), "/v1/executions/%s/interrupt", r->events.execution_id);
	if (http_json(&r->command->http, "POST", path, NULL, NULL, &reply) < 0)
		complain(EXIT_FAILED, "%s", reply.message);
}

/* The first Ctrl-C interrupts the code, as at a terminal; whatever follows ends the whole. */
static int on_signal(int signal, void *arg)
{
	struct run *r = arg;

	r->signals++;
	if (signal == SIGINT && r->signals == 1 && r->events.execution_id[0]) {
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "[interrupting; Ctrl-C again %s]\n",
				r->sandbox ? "leaves it alone" : "ends the sandbox");
		interrupt_code(r);
		return 0;
	}
	r->leave_code = EXIT_SIGNAL + signal;
	return 1;
}

static int execute(struct run *r, const char *code)
{
	struct stream stream = {
		.command = r->command, .events = &r->events, .interrupt = on_signal, .arg = r
	};
	json_t *body = json_pack("{s:s}", "code", code);
	char *path = http_path("/v1/sandboxes/", r->id), *execute_path = NULL;
	int got;

	if (!body)
		got = complain(EXIT_FAILED, "The code is not UTF-8.");
	else if (!path || asprintf(&execute_path, "%s/execute", path) < 0)
		got = complain(EXIT_FAILED, "Out of memory.");
	else {
		if (r->timeout_s)
			json_object_set_new(body, "timeout_s", json_integer(r->timeout_s));
		if (r->language)
			json_object_set_new(body, "language", json_string(r->language));
		if (json_object_size(r->env) > 0)
			json_object_set(body, "env", r->env);
		got = stream_follow(&stream, execute_path, body);
	}
	json_decref(body);
	free(path);
	free(execute_path);
	if (r->leave_code)
		return r->leave_code;
	if (got == EXIT_OK && r->events.how[0] && !r->command->json)
		complain(0, "%s", r->events.how);
	return got == EXIT_OK ? r->events.code : got;
}

/* The first failure counts; the rest is tried all the same. */
static int get_files(struct run *r)
{
	int code = EXIT_OK;

	for (unsigned i = 0; i < r->get_count; i++) {
		const struct file_arg *file = &r->gets[i];
		const char *local = file->other[0] ? file->other : base_name(file->path);
		int one = remote_get(r->command, r->id, file->path, local, NULL);

		if (code == EXIT_OK)
			code = one;
	}
	return code;
}

static int in_sandbox(struct run *r, const char *code)
{
	int got = EXIT_OK, files;

	for (unsigned i = 0; i < r->put_count && got == EXIT_OK; i++)
		got = remote_put(r->command, r->id, r->puts[i].path, r->puts[i].other, NULL);
	if (got != EXIT_OK)
		return got;
	got = execute(r, code);
	if (r->leave_code)
		return got;
	files = get_files(r);
	return got != EXIT_OK ? got : files;
}

static int run_all(struct run *r)
{
	char *code = r->file ? NULL : strdup(r->code_arg);
	int got = check_puts(r);

	if (got == EXIT_OK && !code)
		got = r->file ? read_code(r, &code) : complain(EXIT_FAILED, "Out of memory.");
	if (got == EXIT_OK && signals_init() < 0)
		got = complain(EXIT_FAILED, "Signals cannot be caught.");
	if (r->sandbox)
		snprintf(r->id, sizeof(r->id), "%s", r->sandbox);
	else if (got == EXIT_OK)
		got = create(r);
	if (got == EXIT_OK)
		got = in_sandbox(r, code);
	free(code);
	/* What was asked to be kept is kept, unless a second Ctrl-C meant all of it. */
	if (r->ours && (!r->keep || r->leave_code))
		delete_sandbox(r);
	else if (r->ours)
		complain(0, "The sandbox %s is kept: carrel run --sandbox %s …, carrel kill %s", r->id, r->id,
			 r->id);
	return got;
}

static int run(struct command *c, int argc, char **argv)
{
	struct run *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return complain(EXIT_FAILED, "Out of memory.");
	r->command = c;
	r->env = json_object();
	r->limits = json_object();
	code = take_options(r, argc, argv);
	events_init(&r->events, c, r->images);
	if (code == EXIT_OK && r->images && mkdir(r->images, 0777) < 0 && errno != EEXIST)
		code = complain(EXIT_FAILED, "%s cannot be made: %s.", r->images, strerror(errno));
	if (code == EXIT_OK)
		code = run_all(r);
	if (code == EXIT_OK)
		code = r->events.unsaved;
	for (unsigned i = 0; i < r->put_count; i++) {
		free(r->puts[i].path);
		free(r->puts[i].other);
	}
	for (unsigned i = 0; i < r->get_count; i++) {
		free(r->gets[i].path);
		free(r->gets[i].other);
	}
	json_decref(r->env);
	json_decref(r->limits);
	free(r);
	return code;
}

const struct verb verb_run = {
	.name = "run",
	.usage = "FILE | -c CODE [options]",
	.help = "run code in a sandbox of its own\n\n"
		"Output appears as it comes. FILE may be - for stdin.\n"
		"  --put FILE[:PATH]   copy FILE in first (to /home/user, or to PATH); any number of times\n"
		"  --get PATH[:FILE]   copy PATH out afterwards, also when the code failed; as often as "
		"wanted\n"
		"  --images DIR        save pictures that the code shows as DIR/carrel-1.png and so on\n"
		"  --engine E          auto, kvm, tcg; jail, for trusted code, where the appliance allows it\n"
		"  --template T        python, …\n"
		"  --language L        the kernel's language; bash for FILE.sh and FILE.bash, else the "
		"template's\n"
		"  --env N=V           in the code's environment\n"
		"  --limit N=V         of the sandbox, as often as wanted:"
#define LIMIT(name, ...) " " #name
#include "link/limits.def"
#undef LIMIT
		"\n"
		"  --timeout S         stop the code after S seconds (else after an hour)\n"
		"  --keep              leave the sandbox running   --sandbox ID   use one that is there\n"
		"  --snapshot ID       start from a snapshot (carrel snapshot ls)\n"
		"  --json              the events themselves, one JSON object a line\n\n"
		"The exit code is that of the code: 0, 1 after an exception, that of sys.exit(N), 124\n"
		"after the time-out, 128 + N after a death by signal N. Ctrl-C interrupts the code; a\n"
		"second one ends the sandbox.",
	.run = run,
};
