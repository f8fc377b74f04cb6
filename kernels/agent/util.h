/* Small things every file of the agent uses: scope cleanup, logging, allocation
 * that cannot fail, reading and writing whole small files.
 *
 * x…() abort when memory is out: the agent is exempt from the guest's
 * out-of-memory killer and Linux overcommits, so a small allocation that fails
 * means the guest is beyond saving. Buffers whose size a peer chooses are
 * allocated with malloc() and checked where they are made.
 */
#ifndef CARREL_AGENT_UTIL_H
#define CARREL_AGENT_UTIL_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void cleanup_free_p(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_p(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_json_p(json_t **j)
{
	json_decref(*j);
}

#define cleanup_free __attribute__((cleanup(cleanup_free_p)))
#define cleanup_close __attribute__((cleanup(cleanup_close_p)))
#define cleanup_json __attribute__((cleanup(cleanup_json_p)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

void *xcalloc(size_t n, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr (the guest's console). At most LOG_LINES_MAX lines in ten
 * seconds: code inside can provoke lines, and a serial console is slow. */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Gives up ownership of a descriptor or pointer held by a cleanup variable. */
static inline int take_fd(int *fd)
{
	int got = *fd;

	*fd = -1;
	return got;
}

static inline json_t *take_json(json_t **j)
{
	json_t *got = *j;

	*j = NULL;
	return got;
}

/* Writes text into an existing file (sysfs, cgroup, proc), or creates it with mode. */
int file_write(const char *path, const char *text);
int file_create(const char *path, unsigned mode, const void *bytes, size_t len);
/* Reads at most size - 1 bytes, ends them with NUL. Returns their count. */
ssize_t file_read(const char *path, char *buf, size_t size);

/* Milliseconds of the monotonic clock, nanoseconds of the wall clock. */
uint64_t now_ms(void);
int64_t now_unix_ns(void);

/* size random bytes of the guest kernel; hex text of them when size is that of the text without NUL. */
void random_bytes(void *buf, size_t size);
void random_hex(char *text, size_t digits);

/* Letters, digits, '-', '_' and '.', not leading with a '.', 1 to AGENT_ID_MAX: safe in paths. */
bool id_is_valid(const char *id);

#endif
