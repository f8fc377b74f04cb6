#include "file.h"

#include <errno.h>
#include <unistd.h>

int file_write(int fd, const void *bytes, size_t size, uint64_t offset)
{
	const uint8_t *from = bytes;

	while (size > 0) {
		ssize_t n = pwrite(fd, from, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		from += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}
