#include "bash/shell.h"
#include "bash/display.h"
#include "bash/launch.h"
#include "core/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FAIL(...) (snprintf(why, why_size, __VA_ARGS__), -EIO)

/* The descriptor by which a new shell takes its standard error, see shell.bash. */
#define STDERR_AT_START 9

extern char **environ;

/* shell.bash, put into the program by the assembler. */
extern const char shell_bash[], shell_bash_end[];
__asm__(".section .rodata\n"
	".globl shell_bash, shell_bash_end\n"
	".hidden shell_bash, shell_bash_end\n"
	"shell_bash:\n"
	".incbin \"kernels/bash/shell.bash\"\n"
	"shell_bash_end:\n"
	".byte 0\n"
	".previous\n");

/* ---- what all shells of the kernel use ---- */

static void fd_path(int fd, char *out, size_t size)
{
	snprintf(out, size, "/proc/%d/fd/%d", (int)getpid(), fd);
}

/* Its name stands in messages about syntax errors. */
static void make_folder(struct bash_shell *sh)
{
	const char *base = getenv("TMPDIR");
	char code[64];

	fd_path(sh->code, code, sizeof(code));
	snprintf(sh->code_path, sizeof(sh->code_path), "%s", code);
	snprintf(sh->tmp, sizeof(sh->tmp), "%s/bash-XXXXXX", base && base[0] == '/' ? base : "/tmp");
	if (strlen(sh->tmp) > 200 || strchr(sh->tmp, '\'') || !mkdtemp(sh->tmp)) {
		log_line("no temporary folder could be made: display will only take files");
		sh->tmp[0] = '\0';
		return;
	}
	snprintf(sh->code_path, sizeof(sh->code_path), "%s/cell", sh->tmp);
	if (symlink(code, sh->code_path) < 0)
		snprintf(sh->code_path, sizeof(sh->code_path), "%s", code);
}

int bash_shell_open(struct bash_shell *sh, char *why, size_t why_size)
{
	*sh = (struct bash_shell){ .pidfd = -1, .control = -1 };
	sh->code = memfd_create("cell", MFD_CLOEXEC);
	sh->input = memfd_create("stdin", MFD_CLOEXEC);
	sh->state = memfd_create("state", MFD_CLOEXEC);
	if (sh->code < 0 || sh->input < 0 || sh->state < 0 || pipe2(sh->up, O_CLOEXEC) < 0 ||
	    pipe2(sh->answers, O_CLOEXEC) < 0 || pipe2(sh->acks, O_CLOEXEC) < 0)
		return FAIL("cannot make the pipes to the shell: %s", strerror(errno));
	fcntl(sh->up[0], F_SETFL, O_NONBLOCK);
	fcntl(sh->answers[0], F_SETFL, O_NONBLOCK);
	fcntl(sh->acks[1], F_SETFL, O_NONBLOCK);
	fcntl(sh->answers[1], F_SETFL, O_NONBLOCK);
	make_folder(sh);
	return 0;
}

static void remove_folder(struct bash_shell *sh)
{
	char path[PATH_MAX + 8];

	if (!sh->tmp[0])
		return;
	snprintf(path, sizeof(path), "%s/cell", sh->tmp);
	unlink(path);
	if (rmdir(sh->tmp) < 0 && errno != ENOENT)
		log_line("%s was not removed: %s", sh->tmp, strerror(errno));
}

void bash_shell_close(struct bash_shell *sh)
{
	int i;

	for (i = 0; i < 2; i++) {
		close(sh->up[i]);
		close(sh->answers[i]);
		close(sh->acks[i]);
	}
	close(sh->code);
	close(sh->input);
	close(sh->state);
	buf_free(&sh->reader.text);
	remove_folder(sh);
}

void bash_shell_setup_text(const struct bash_shell *sh, struct buf *out)
{
	struct {
		const char *name;
		int fd;
	} rows[] = {
		{ "up", sh->up[1] },    { "answers", sh->answers[0] }, { "acks", sh->acks[0] },
		{ "stdin", sh->input }, { "state", sh->state },
	};
	char line[PATH_MAX + 64], path[64];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fd_path(rows[i].fd, path, sizeof(path));
		snprintf(line, sizeof(line), "__carrel_%s=%s\n", rows[i].name, path);
		buf_puts(out, line);
	}
	snprintf(line, sizeof(line), "__carrel_tmp='%s' __carrel_show_max=%d\n", sh->tmp, DISPLAY_MAX + 1);
	buf_puts(out, line);
	buf_put(out, shell_bash, (size_t)(shell_bash_end - shell_bash));
}

/* ---- the process ---- */

static int spawn(struct bash_shell *sh, int commands)
{
	static const char *const argv[] = { "bash", "--norc",  "--noprofile", "--noediting",
					    "+o",   "history", "-i",          NULL };
	const struct launch_file files[] = {
		{ commands, 0 },
		{ 2, STDERR_AT_START },
		/* It says there, before its first command, that it has no terminal. */
		{ LAUNCH_NULL, 2 },
	};

	return launch_bash(files, sizeof(files) / sizeof(files[0]), STDERR_AT_START + 1, argv, environ, &sh->pid);
}

int bash_shell_spawn(struct bash_shell *sh, char *why, size_t why_size)
{
	int fd[2], err;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return FAIL("cannot make the pipe to the shell: %s", strerror(errno));
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	err = spawn(sh, fd[0]);
	close(fd[0]);
	if (!err) {
		sh->pidfd = pidfd_open(sh->pid, 0);
		err = sh->pidfd < 0 ? -errno : 0;
	} else {
		sh->pid = 0;
	}
	if (err) {
		close(fd[1]);
		bash_shell_signal(sh, SIGKILL);
		sh->pid = 0;
		return FAIL("cannot start /bin/bash: %s", strerror(-err));
	}
	sh->control = fd[1];
	sh->status = 0;
	sh->flags[0] = '\0';
	record_reset(&sh->reader);
	return 0;
}

static void forget(struct bash_shell *sh)
{
	close(sh->pidfd);
	close(sh->control);
	sh->pidfd = sh->control = -1;
	sh->pid = 0;
}

bool bash_shell_is_alive(const struct bash_shell *sh)
{
	siginfo_t info = { 0 };

	return sh->pid && waitid(P_PID, (id_t)sh->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       !info.si_pid;
}

bool bash_shell_ended(struct bash_shell *sh, struct bash_shell_end *ret)
{
	siginfo_t info = { 0 };

	if (!sh->pid || waitid(P_PID, (id_t)sh->pid, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return false;
	*ret = info.si_code == CLD_EXITED ? (struct bash_shell_end){ .code = info.si_status }
					  : (struct bash_shell_end){ .signal = info.si_status };
	forget(sh);
	return true;
}

/* ---- memory files ---- */

static int write_all(int fd, const char *text, size_t n)
{
	ssize_t done;

	while (n > 0) {
		done = write(fd, text, n);
		if (done < 0)
			return -errno;
		text += done;
		n -= (size_t)done;
	}
	return 0;
}

int bash_shell_set_code(struct bash_shell *sh, const char *text, size_t n)
{
	char byte;

	/* Answers to a read that was interrupted are nobody's. */
	while (read(sh->answers[0], &byte, 1) == 1)
		;
	if (ftruncate(sh->input, 0) < 0 || ftruncate(sh->code, 0) < 0)
		return -errno;
	lseek(sh->input, 0, SEEK_SET);
	lseek(sh->code, 0, SEEK_SET);
	return write_all(sh->code, text, n);
}

int bash_shell_add_input(struct bash_shell *sh, const char *text, size_t n)
{
	lseek(sh->input, 0, SEEK_END);
	return write_all(sh->input, text, n);
}

bool bash_shell_take_state(struct bash_shell *sh, struct buf *out)
{
	off_t size = lseek(sh->state, 0, SEEK_END);
	char *room = size > 0 && size <= SHELL_STATE_MAX ? buf_room(out, (size_t)size) : NULL;
	bool whole = room && pread(sh->state, room, (size_t)size, 0) == (ssize_t)size;

	if (whole)
		out->len += (size_t)size;
	if (ftruncate(sh->state, 0) < 0)
		log_line("what the last shell left cannot be forgotten: %s", strerror(errno));
	return whole;
}

/* ---- signals ---- */

void bash_shell_signal(const struct bash_shell *sh, int sig)
{
	if (sh->pid)
		kill(-sh->pid, sig);
}

static pid_t session_of(pid_t pid)
{
	return pid > 0 ? getsid(pid) : -1;
}

void bash_shell_signal_session(const struct bash_shell *sh, int sig)
{
	struct dirent *de;
	DIR *dir;
	pid_t pid;

	if (!sh->pid)
		return;
	dir = opendir("/proc");
	while (dir && (de = readdir(dir))) {
		pid = (pid_t)atoi(de->d_name);
		if (session_of(pid) == sh->pid)
			kill(pid, sig);
	}
	if (dir)
		closedir(dir);
}

/* ---- a shell that does not answer ---- */

static bool reads_descriptor_0(pid_t pid)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	/* read is number 0 on x86-64; its first argument follows. */
	return !strncmp(text, "0 0x0 ", 6);
}

bool bash_shell_is_deaf(const struct bash_shell *sh)
{
	struct stat ours, theirs;
	char path[64];
	int unread = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)sh->pid);
	return fstat(sh->control, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev && ioctl(sh->control, FIONREAD, &unread) == 0 && unread == 0 &&
	       reads_descriptor_0(sh->pid);
}

/* ---- the end ---- */

static bool wait_end(struct bash_shell *sh, int ms)
{
	struct pollfd p = { .fd = sh->pidfd, .events = POLLIN };
	struct bash_shell_end end;

	while (poll(&p, 1, ms) < 0 && errno == EINTR)
		;
	return bash_shell_ended(sh, &end);
}

void bash_shell_stop(struct bash_shell *sh)
{
	/* Its word about leaving would be the last output of the last cell. */
	static const char leave[] = "{ \\builtin exit; } 2>/dev/null\n";

	if (!sh->pid)
		return;
	if (write(sh->control, leave, sizeof(leave) - 1) > 0 && wait_end(sh, SHELL_END_MS))
		return;
	bash_shell_signal_session(sh, SIGHUP);
	if (wait_end(sh, SHELL_END_MS))
		return;
	bash_shell_signal_session(sh, SIGKILL);
	wait_end(sh, -1);
}
