#include "log.h"

#include <string.h>
#include <unistd.h>

#include "vmm/jail/jail_limits.h"
#include "vmm/last_line.h"

enum { HALF = KEEPER_LOG_MAX / 2 };

static void log_halve(struct log *log)
{
	static char half[HALF];
	ssize_t n = pread(log->fd, half, sizeof(half), (off_t)(log->size - HALF));

	if (n > 0 && pwrite(log->fd, half, (size_t)n, 0) == n)
		log->size = (size_t)n;
	else
		log->size = 0;
	if (ftruncate(log->fd, (off_t)log->size) != 0)
		log->size = 0;
}

void log_append(struct log *log, const char *bytes, size_t n)
{
	while (n > 0) {
		size_t room = KEEPER_LOG_MAX - log->size;
		size_t chunk = n < room ? n : room;

		if (chunk == 0) {
			log_halve(log);
			continue;
		}
		if (pwrite(log->fd, bytes, chunk, (off_t)log->size) != (ssize_t)chunk)
			return;
		log->size += chunk;
		bytes += chunk;
		n -= chunk;
	}
}

void log_last_line(const struct log *log, char *ret, size_t size)
{
	char span[LAST_LINE_SPAN];
	size_t from = log->size > sizeof(span) ? log->size - sizeof(span) : 0;
	ssize_t n = pread(log->fd, span, sizeof(span), (off_t)from);

	last_line(span, n > 0 ? (size_t)n : 0, ret, size);
}
