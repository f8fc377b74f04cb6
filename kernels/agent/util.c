#include "util.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "limits.h"

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		abort();
	return p;
}

char *xstrdup(const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		abort();
	return copy;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	return text;
}

/* True when this line may be written; counts what was kept back. */
static bool log_allowed(unsigned *ret_kept_back)
{
	static uint64_t window_start;
	static unsigned lines, kept_back;
	uint64_t now = now_ms();

	if (now - window_start >= LOG_WINDOW_MS) {
		*ret_kept_back = kept_back;
		window_start = now;
		lines = kept_back = 0;
	}
	if (lines >= LOG_LINES_MAX) {
		kept_back++;
		return false;
	}
	lines++;
	return true;
}

void log_line(const char *fmt, ...)
{
	unsigned kept_back = 0;
	char text[1024];
	va_list ap;

	if (!log_allowed(&kept_back))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (kept_back)
		fprintf(stderr, "carrel-agent: %u more lines were left out\n", kept_back);
	fprintf(stderr, "carrel-agent: %s\n", text);
}

static int write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_write(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write_all(fd, text, strlen(text));
}

int file_create(const char *path, unsigned mode, const void *bytes, size_t len)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0)
		return -errno;
	return write_all(fd, bytes, len);
}

ssize_t file_read(const char *path, char *buf, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;

	if (fd < 0)
		return -errno;
	while (got < size - 1) {
		ssize_t n = read(fd, buf + got, size - 1 - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	buf[got] = '\0';
	return (ssize_t)got;
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int64_t now_unix_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void random_bytes(void *buf, size_t size)
{
	uint8_t *at = buf;

	while (size) {
		ssize_t n = getrandom(at, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			abort();
		at += n;
		size -= (size_t)n;
	}
}

void random_hex(char *text, size_t digits)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t byte;
	size_t i;

	for (i = 0; i < digits; i++) {
		if (i % 2 == 0)
			random_bytes(&byte, 1);
		text[i] = hex[i % 2 == 0 ? byte >> 4 : byte & 15];
	}
	text[digits] = '\0';
}

bool id_is_valid(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

	return len > 0 && len <= AGENT_ID_MAX && id[len] == '\0' && id[0] != '.';
}
