/* QEMU's program on this host, and the line that binds snapshots to their monitor. */
#include "engine_inner.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tsc.h"
#include "vmm/jail/jail_limits.h"
#include "vmm/qemu_revision.h"
#include "vmm/snapshot/state.h"

const char *qemu_program_path(void)
{
	static const char *const paths[] = { "/usr/bin/qemu-system-x86_64",
					     "/usr/local/bin/qemu-system-x86_64" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

static int version_start(const char *path, int out, pid_t *ret)
{
	char name[] = "qemu-system-x86_64", option[] = "--version", locale[] = "LC_ALL=C";
	char *argv[] = { name, option, NULL }, *env[] = { locale, NULL };
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawn(ret, path, &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

/* "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)" */
static int version_read(const char *path, char *ret, unsigned size)
{
	char text[256];
	size_t used = 0;
	ssize_t n;
	pid_t pid;
	int pipe_fds[2], err;

	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return -errno;
	err = version_start(path, pipe_fds[1], &pid);
	close(pipe_fds[1]);
	while (!err && used < sizeof(text) - 1 &&
	       (n = read(pipe_fds[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	close(pipe_fds[0]);
	if (err)
		return err;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	text[used] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (strncmp(text, "QEMU ", 5) != 0)
		return -EPROTO;
	snprintf(ret, size, "%s", text);
	return 0;
}

/* Asked once: a changed program is met with a changed process. */
int qemu_program_version(char *ret, unsigned size)
{
	static char version[256];
	const char *path = qemu_program_path();
	int err;

	if (!path)
		return -ENOENT;
	if (!version[0]) {
		err = version_read(path, version, sizeof(version));
		if (err)
			return err;
	}
	snprintf(ret, size, "%s", version);
	return 0;
}

/* With -cpu host a snapshot holds the features of this very processor. */
static unsigned processor_signature(void)
{
	unsigned a = 0, b, c, d;

	__get_cpuid(1, &a, &b, &c, &d);
	return a;
}

/* Whole MHz: a start of the same machine measures within a few parts in a million. */
static int fingerprint_qemu(const struct engine_ops *ops, unsigned khz, char *ret_line, unsigned size)
{
	char version[256];
	int err = qemu_program_version(version, sizeof(version));

	if (err)
		return err;
	return snprintf(ret_line, size, "%s; accel=%s; arguments=%d; tsc_mhz=%u; processor=%08x", version, ops->accel,
			QEMU_ARGS_REVISION, (khz + 500) / 1000, ops == &engine_kvm_qemu ? processor_signature() : 0u);
}

int engine_fingerprint(const struct engine_ops *ops, char *ret_line, unsigned size)
{
	unsigned khz = tsc_khz();
	int n;

	if (khz == 0)
		return -ENOTSUP;
	if (ops == &engine_jail)
		n = snprintf(ret_line, size, "jail");
	else if (ops == &engine_kvm)
		n = snprintf(ret_line, size, "carrel-vmm; state=%d; tsc_mhz=%u; processor=%08x", STATE_VERSION,
			     (khz + 500) / 1000, processor_signature());
	else
		n = fingerprint_qemu(ops, khz, ret_line, size);
	return n < 0 ? n : (unsigned)n >= size ? -ENOSPC : 0;
}

unsigned engine_overhead_mb(const struct engine_ops *ops)
{
	if (ops == &engine_kvm)
		return ENGINE_VMM_MB;
	if (ops == &engine_jail)
		return ENGINE_JAIL_MB;
	return ops == &engine_kvm_qemu ? ENGINE_QEMU_MB : ENGINE_QEMU_MB + QEMU_TB_MB;
}
