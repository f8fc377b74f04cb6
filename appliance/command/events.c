#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base64.h"

void events_init(struct events *e, const struct command *c, const char *images)
{
	*e = (struct events){ .command = c, .images = images, .color = isatty(STDERR_FILENO), .exited = -1 };
}

static int put(struct events *e, FILE *to, const char *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, to) == len && fflush(to) == 0)
		return 0;
	if (!e->write_error)
		e->write_error = errno ? errno : EIO;
	return -1;
}

/* {text} as it is, {b64} decoded. */
static int show_stream(struct events *e, json_t *event, FILE *to)
{
	json_t *text = json_object_get(event, "text");
	const char *b64 = text_of(event, "b64");
	char *bytes;
	size_t len;
	int got;

	if (json_is_string(text))
		return put(e, to, json_string_value(text), json_string_length(text));
	if (!b64)
		return 0;
	bytes = base64_decode(b64, &len);
	if (!bytes)
		return 0;
	got = put(e, to, bytes, len);
	free(bytes);
	return got;
}

/* Leaves out escape sequences (CSI), which a file or a pipe does not want. */
static void print_plain(FILE *to, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\033");

		fwrite(text, 1, len, to);
		text += len;
		if (*text == '\0')
			break;
		text++;
		if (*text == '[') {
			text += 1 + strspn(text + 1, "0123456789;?");
			text += *text != '\0';
		}
	}
}

static void print_line(const struct events *e, const char *text)
{
	size_t len = strlen(text);

	if (e->color)
		fputs(text, stderr);
	else
		print_plain(stderr, text);
	if (len == 0 || text[len - 1] != '\n')
		fputc('\n', stderr);
}

static void show_error(struct events *e, json_t *event)
{
	json_t *traceback = json_object_get(event, "traceback"), *line;
	const char *name = text_of(event, "name"), *value = text_of(event, "value");
	size_t i;

	json_array_foreach(traceback, i, line) if (json_is_string(line))
		print_line(e, json_string_value(line));
	if (json_is_string(traceback) && json_string_length(traceback) > 0)
		print_line(e, json_string_value(traceback));
	else if (json_array_size(traceback) == 0)
		fprintf(stderr, "%s: %s\n", name ? name : "error", value ? value : "");
}

static const struct {
	const char *mime, *suffix;
	bool text;
} pictures[] = {
	{ "image/png", "png", false },    { "image/jpeg", "jpg", false },      { "image/gif", "gif", false },
	{ "image/svg+xml", "svg", true }, { "application/pdf", "pdf", false },
};

static void save_picture(struct events *e, const char *data, const char *suffix, bool is_text)
{
	size_t len = strlen(data);
	char *bytes = is_text ? strdup(data) : base64_decode(data, &len);
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/carrel-%u.%s", e->images, e->image_count, suffix);
	file = bytes ? fopen(path, "we") : NULL;
	if (file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0)
		fprintf(stderr, "[picture: %s]\n", path);
	else
		e->unsaved = complain(EXIT_FAILED, "%s was not saved: %s.", path,
				      bytes ? strerror(errno) : "it is not base64");
	free(bytes);
}

/* True when the bundle held a picture. */
static bool show_picture(struct events *e, json_t *data)
{
	for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
		const char *picture = text_of(data, pictures[i].mime);

		if (!picture)
			continue;
		e->image_count++;
		fflush(stdout);
		if (e->images)
			save_picture(e, picture, pictures[i].suffix, pictures[i].text);
		else
			fprintf(stderr, "[picture %u: %s, %zu bytes; --images DIR saves it]\n",
				e->image_count, pictures[i].mime,
				pictures[i].text ? strlen(picture) : strlen(picture) / 4 * 3);
		return true;
	}
	return false;
}

static int show_bundle(struct events *e, json_t *event)
{
	json_t *data = json_object_get(event, "data");
	json_t *text = json_object_get(data, "text/plain");
	const char *mime;
	json_t *value;

	if (show_picture(e, data))
		return 0;
	if (json_is_string(text)) {
		if (put(e, stdout, json_string_value(text), json_string_length(text)) < 0)
			return -1;
		return put(e, stdout, "\n", 1);
	}
	json_object_foreach(data, mime, value) fprintf(stderr, "[%s, not shown here]\n", mime);
	return 0;
}

/* It is the record that was cut: whoever watched has seen all of it. */
static void show_truncated(json_t *event)
{
	const char *stream = text_of(event, "stream");

	fflush(stdout);
	fprintf(stderr, "[%s had %lld bytes, of which the record shows %lld: carrel logs]\n",
		stream ? stream : "the output",
		(long long)json_integer_value(json_object_get(event, "bytes_total")),
		(long long)json_integer_value(json_object_get(event, "bytes_kept")));
}

static int code_of_end(const char *status, json_t *exit_code, const char *signal)
{
	int number = signal ? signal_number(signal) : 0;

	if (json_is_integer(exit_code))
		return (int)(json_integer_value(exit_code) & 0xff);
	if (number > 0)
		return EXIT_SIGNAL + number;
	if (!status || strcmp(status, "ok") == 0)
		return status ? EXIT_OK : EXIT_FAILED;
	if (strcmp(status, "timeout") == 0)
		return EXIT_TIMEOUT;
	if (strcmp(status, "interrupted") == 0 || strcmp(status, "cancelled") == 0)
		return EXIT_SIGNAL + 2;
	return EXIT_FAILED;
}

/* Cells have a status; processes only a reason where something ended them. */
static void take_end(struct events *e, json_t *event)
{
	const char *status = text_of(event, "status"), *reason = text_of(event, "reason");
	const char *signal = text_of(event, "signal");
	json_t *exit_code = json_object_get(event, "exit_code");

	e->ended = true;
	if (!status && reason && strcmp(reason, "timeout") == 0)
		status = "timeout";
	e->code = status && strcmp(status, "timeout") == 0 ? EXIT_TIMEOUT
							   : code_of_end(status, exit_code, signal);
	if (status && strcmp(status, "error") == 0 && !exit_code && !signal && e->exited >= 0)
		e->code = e->exited;
	if (status && strcmp(status, "timeout") == 0)
		snprintf(e->how, sizeof(e->how), "It ran out of time and was stopped.");
	else if (status && strcmp(status, "died") == 0)
		snprintf(e->how, sizeof(e->how), "It died%s%s%s%s.", reason ? ": " : "", reason ? reason : "",
			 signal ? ", signal " : "", signal ? signal : "");
	else if (status && strcmp(status, "cancelled") == 0)
		snprintf(e->how, sizeof(e->how), "It was cancelled%s%s.", reason ? ": " : "",
			 reason ? reason : "");
	else if (signal || reason)
		snprintf(e->how, sizeof(e->how), "It ended%s%s%s%s.", reason ? ": " : "",
			 reason ? reason : "", signal ? ", by signal " : "", signal ? signal : "");
}

/* sys.exit() in a cell is an exception like others, and a status of bash an error;
 * here they are what they are in a program. */
static void take_exit(struct events *e, json_t *event)
{
	const char *name = text_of(event, "name"), *value = text_of(event, "value");
	char *end;
	long number;

	if (!name || !value || (strcmp(name, "SystemExit") != 0 && strcmp(name, "ExitStatus") != 0))
		return;
	number = strtol(value, &end, 10);
	if (*value == '\0' || strcmp(value, "None") == 0)
		e->exited = EXIT_OK;
	else
		e->exited = *end ? EXIT_FAILED : (int)(number & 0xff);
}

/* Its id is wanted as soon as it is known: for Ctrl-C, and to come back to it. */
static void take_id(struct events *e, json_t *event)
{
	const char *id = text_of(event, "execution_id");

	if (id)
		snprintf(e->execution_id, sizeof(e->execution_id), "%s", id);
}

static int show_readable(struct events *e, json_t *event, const char *type)
{
	if (strcmp(type, "stdout") == 0)
		return show_stream(e, event, stdout);
	fflush(stdout);
	if (strcmp(type, "stderr") == 0)
		return show_stream(e, event, stderr);
	if (strcmp(type, "result") == 0 || strcmp(type, "display") == 0)
		return show_bundle(e, event);
	if (strcmp(type, "error") == 0)
		show_error(e, event);
	else if (strcmp(type, "truncated") == 0)
		show_truncated(event);
	else if (json_is_true(json_object_get(event, "kernel_restarted")))
		fprintf(stderr, "[the kernel is a fresh one: what earlier code had defined is gone]\n");
	return 0;
}

int events_show(json_t *event, const char *text, size_t len, void *arg)
{
	struct events *e = arg;
	const char *type = text_of(event, "type");
	json_t *seq = json_object_get(event, "seq");

	if (!type || e->ended)
		return 0;
	if (json_is_integer(seq))
		e->seq = json_integer_value(seq);
	take_id(e, event);
	if (strcmp(type, "error") == 0)
		take_exit(e, event);
	if (strcmp(type, "end") == 0)
		take_end(e, event);
	if (!e->command->json)
		return show_readable(e, event, type);
	if (put(e, stdout, text, len) < 0)
		return -1;
	return put(e, stdout, "\n", 1);
}
