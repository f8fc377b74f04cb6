#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent.h"
#include "core/unsent.h"
#include "kernel.h"
#include "spec.h"
#include "tail.h"
#include "util.h"

/* A pipe's own size bounds what can be left in it; the system may have given more. */
enum { LEFT_MAX = 1024 * 1024 };

/* Descriptors 1 and 2 of a kernel of ours are pipes which it reads itself.
 * Opened before any code of the user runs, so they are no others. */
void kernel_output_open(struct kernel *k)
{
	int i;

	if (k->spec->core)
		kernel_unsent_open(k);
	for (i = 0; i < 2 && k->spec->core; i++) {
		cleanup_free char *path = xasprintf("/proc/%d/fd/%d", (int)k->pid, i + 1);
		struct stat st;

		k->output_fd[i] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (k->output_fd[i] >= 0 && fstat(k->output_fd[i], &st) == 0 && S_ISFIFO(st.st_mode))
			continue;
		log_line("what kernel %s prints right before a crash will be lost: %s", k->id,
			 k->output_fd[i] < 0 ? strerror(errno) : "its output is no pipe");
		if (k->output_fd[i] >= 0)
			close(k->output_fd[i]);
		k->output_fd[i] = -1;
	}
}

void kernel_output_close(struct kernel *k)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (k->output_fd[i] >= 0)
			close(k->output_fd[i]);
		k->output_fd[i] = -1;
	}
	kernel_unsent_close(k);
}

static void send_left(struct kernel *k, int i, char *bytes)
{
	size_t len = 0;
	json_t *text;
	ssize_t n;

	while (k->output_fd[i] >= 0 && len < LEFT_MAX) {
		n = read(k->output_fd[i], bytes + len, LEFT_MAX - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	len += kernel_unsent_line(k, i, bytes + len);
	text = len ? text_json(bytes, len) : NULL;
	if (text)
		kernel_channel_stream(k, kernel_cell(k), kernel_stream_names[i], text);
}

void kernel_output_left(struct kernel *k)
{
	cleanup_free char *bytes = xcalloc(1, LEFT_MAX + UNSENT_LINE_MAX);
	int i;

	kernel_unsent_left(k);
	for (i = 0; i < 2; i++)
		send_left(k, i, bytes);
	kernel_output_close(k);
}
