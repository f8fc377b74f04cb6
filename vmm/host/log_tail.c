#include "log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/last_line.h"

enum { TAIL_FIND_SPAN = 16 * 1024 }; /* a kernel's panic, its registers and its call trace */

/* The end of the file, at most size bytes of it; their number or a negative errno. */
static ssize_t tail_read(const char *run_dir, const char *id, const char *file, char *ret, size_t size)
{
	char path[512];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", run_dir, id, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	n = fstat(fd, &st) != 0 ? -1 : pread(fd, ret, size, st.st_size > (off_t)size ? st.st_size - (off_t)size : 0);
	close(fd);
	return n < 0 ? -EIO : n;
}

int log_tail_line(const char *run_dir, const char *id, const char *file, char *ret, size_t size)
{
	char span[LAST_LINE_SPAN];
	const ssize_t n = tail_read(run_dir, id, file, span, sizeof(span));

	if (n >= 0)
		last_line(span, (size_t)n, ret, size);
	return n < 0 ? (int)n : 0;
}

int log_tail_from(const char *run_dir, const char *id, const char *file, const char *word, char *ret, size_t size)
{
	char span[TAIL_FIND_SPAN];
	const ssize_t n = tail_read(run_dir, id, file, span, sizeof(span));
	const char *at = n > 0 ? memmem(span, (size_t)n, word, strlen(word)) : NULL;
	const char *end;

	if (!at)
		return n < 0 ? (int)n : -ENOENT;
	end = memchr(at, '\n', (size_t)(span + n - at));
	last_line(at, (size_t)((end ? end : span + n) - at), ret, size);
	return 0;
}
