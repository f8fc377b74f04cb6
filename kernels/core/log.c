#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int log_fd = 2;

void log_set_fd(int fd)
{
	log_fd = fd;
}

void log_line(const char *fmt, ...)
{
	char line[512] = "carrel-kernel: ";
	const int head = 15;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line + head, sizeof(line) - head - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = n < (int)sizeof(line) - head - 2 ? head + n : (int)sizeof(line) - 2;
	line[n] = '\n';
	/* Nothing more can be told where telling itself fails. */
	if (write(log_fd, line, (size_t)n + 1) < 0)
		return;
}
