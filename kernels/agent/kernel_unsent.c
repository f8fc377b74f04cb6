#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent.h"
#include "core/unsent.h"
#include "kernel.h"
#include "util.h"

/* Each becomes a message of some 300 bytes; a kernel's queue holds fewer. */
enum { RECORDS_MAX = 16 * 1024 };

const char *const kernel_stream_names[2] = { [UNSENT_STDOUT] = "stdout", [UNSENT_STDERR] = "stderr" };

static bool is_unsent(int dir, const char *name)
{
	static const char want[] = "/memfd:" UNSENT_NAME " ";
	char target[64];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	return n >= (ssize_t)sizeof(want) - 1 && memcmp(target, want, sizeof(want) - 1) == 0;
}

void kernel_unsent_open(struct kernel *k)
{
	cleanup_free char *path = xasprintf("/proc/%d/fd", (int)k->pid);
	DIR *dir = opendir(path);
	struct dirent *de;

	k->heard = 0;
	while (dir && k->unsent_fd < 0 && (de = readdir(dir))) {
		if (is_unsent(dirfd(dir), de->d_name))
			k->unsent_fd = openat(dirfd(dir), de->d_name, O_RDONLY | O_CLOEXEC);
	}
	if (k->unsent_fd < 0)
		log_line("what kernel %s says right before a crash may be lost: %s", k->id,
			 dir ? "it keeps none of it" : strerror(errno));
	if (dir)
		closedir(dir);
}

void kernel_unsent_close(struct kernel *k)
{
	if (k->unsent_fd >= 0)
		close(k->unsent_fd);
	k->unsent_fd = -1;
}

void kernel_unsent_heard(struct kernel *k)
{
	struct wire_part topic = jupyter_topic(k->jupyter);
	const uint8_t *at = k->unsent_fd >= 0 && topic.len ? memrchr(topic.bytes, '@', topic.len) : NULL;
	const uint8_t *end = topic.bytes + topic.len;
	uint64_t count = 0;

	if (!at)
		return;
	while (++at < end && isdigit(*at))
		count = count * 10 + (uint64_t)(*at - '0');
	if (at == end)
		k->heard = count;
}

static bool read_at(struct kernel *k, void *to, size_t len, size_t offset)
{
	return k->unsent_fd >= 0 && pread(k->unsent_fd, to, len, (off_t)offset) == (ssize_t)len;
}

/* The ring from `from` on, len bytes of it. */
static bool read_ring(struct kernel *k, uint8_t *to, uint64_t from, size_t len)
{
	size_t at = from % UNSENT_RING, first = len < UNSENT_RING - at ? len : UNSENT_RING - at;

	return read_at(k, to, first, offsetof(struct unsent, ring) + at) &&
	       (first == len || read_at(k, to + first, len - first, offsetof(struct unsent, ring)));
}

static void tell_gap(struct kernel *k, uint64_t bytes)
{
	json_t *text = json_sprintf("[carrel: %" PRIu64 " bytes of output went with the kernel.]\n", bytes);

	if (text)
		kernel_channel_stream(k, kernel_cell(k), "stderr", text);
}

static bool send_text(struct kernel *k, uint8_t kind, const uint8_t *payload, size_t len)
{
	struct wire_part parent = { .bytes = payload + sizeof(uint32_t) };
	json_t *text;

	if (len < sizeof(uint32_t))
		return false;
	len -= sizeof(uint32_t);
	parent.len = wire_u32(payload);
	if (parent.len > len)
		return false;
	text = text_json((const char *)parent.bytes + parent.len, len - parent.len);
	if (text)
		kernel_channel_stream(k, parent, kernel_stream_names[kind], text);
	return text != NULL;
}

static bool send_other(struct kernel *k, const uint8_t *payload, size_t len)
{
	enum wire_channel ch;
	struct wire_message m;

	if (wire_decode(payload, len, &ch, &m) < 0 || ch != WIRE_IOPUB)
		return false;
	kernel_channel_message(k, &m);
	return true;
}

/* False: this is no record of ours. One without a payload was too large to be kept. */
static bool send_record(struct kernel *k, uint8_t kind, const uint8_t *payload, size_t len)
{
	if (kind != UNSENT_MESSAGE)
		return kind <= UNSENT_STDERR && send_text(k, kind, payload, len);
	if (len == 0)
		log_line("a message of kernel %s, too large to be kept, went with it", k->id);
	return len == 0 || send_other(k, payload, len);
}

/* len bytes that the user may have written: no size is believed. */
static void send_records(struct kernel *k, const uint8_t *at, size_t len)
{
	unsigned n;

	for (n = 0; len >= UNSENT_HEAD && n < RECORDS_MAX; n++) {
		uint8_t kind = at[4];
		uint32_t size = wire_u32(at);

		at += UNSENT_HEAD, len -= UNSENT_HEAD;
		if (size > len || !send_record(k, kind, at, size))
			return log_line("what kernel %s left unsent is spoilt", k->id);
		at += size, len -= size;
	}
	if (n == RECORDS_MAX)
		tell_gap(k, len);
}

void kernel_unsent_left(struct kernel *k)
{
	cleanup_free uint8_t *bytes = NULL;
	uint64_t put;

	if (!read_at(k, &put, sizeof(put), offsetof(struct unsent, put)) || put <= k->heard)
		return;
	if (put - k->heard > UNSENT_RING)
		return tell_gap(k, put - k->heard);
	bytes = malloc(put - k->heard);
	if (bytes && read_ring(k, bytes, k->heard, put - k->heard))
		send_records(k, bytes, put - k->heard);
	else
		tell_gap(k, put - k->heard);
}

size_t kernel_unsent_line(struct kernel *k, int stream, char *to)
{
	struct unsent_line line;

	if (!read_at(k, &line, sizeof(line),
		     offsetof(struct unsent, line) + (size_t)stream * sizeof(line)) ||
	    line.n > sizeof(line.text))
		return 0;
	memcpy(to, line.text, line.n);
	return line.n;
}
