#include "log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/last_line.h"

int log_tail_line(const char *run_dir, const char *id, const char *file, char *ret, size_t size)
{
	char path[512], span[LAST_LINE_SPAN];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", run_dir, id, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	n = fstat(fd, &st) != 0
		    ? -1
		    : pread(fd, span, sizeof(span),
			    st.st_size > (off_t)sizeof(span) ? st.st_size - (off_t)sizeof(span) : 0);
	close(fd);
	if (n < 0)
		return -EIO;
	last_line(span, (size_t)n, ret, size);
	return 0;
}
