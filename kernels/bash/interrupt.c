#include "bash/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

struct process {
	char state;
	pid_t group;
	unsigned long long started; /* clock ticks since the machine started */
};

static bool read_text(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_process(pid_t pid, struct process *ret)
{
	char text[1024], *at;
	int group;

	/* The name in parentheses may hold anything. */
	if (!read_text(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')))
		return false;
	if (sscanf(at + 1, " %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ret->state, &group, &ret->started) != 3)
		return false;
	ret->group = group;
	return true;
}

static bool has_int(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at && (strtoull(at + strlen(name), NULL, 16) >> (SIGINT - 1) & 1);
}

/* As a job in the background does. */
static bool ignores_int(pid_t pid)
{
	char status[4096];

	return read_text(pid, "status", status, sizeof(status)) && has_int(status, "SigIgn:\t");
}

/* SIGINT would end it. */
static bool dies_of_int(pid_t pid)
{
	char status[4096];

	return read_text(pid, "status", status, sizeof(status)) && !has_int(status, "SigCgt:\t") &&
	       !has_int(status, "SigIgn:\t") && !has_int(status, "SigBlk:\t");
}

static void wait_a_moment(void)
{
	struct timespec t = { .tv_nsec = INTERRUPT_LOOK_MS * 1000000L };

	nanosleep(&t, NULL);
}

static unsigned long long ticks_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (unsigned long long)t.tv_sec * (unsigned long long)sysconf(_SC_CLK_TCK) +
	       (unsigned long long)(t.tv_nsec / (1000000000L / sysconf(_SC_CLK_TCK)));
}

static bool same_program(pid_t a, pid_t b)
{
	struct stat one, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)a);
	if (stat(path, &one) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)b);
	return stat(path, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* A shell that forks holds the signal back until it waits for the child, and its
 * copy that is about to become another program catches and forgets it. */
static bool is_forking(pid_t shell, pid_t pid, const struct process *p)
{
	char status[4096];
	bool young = pid != shell && p->started + INTERRUPT_YOUNG_TICKS >= ticks_now();

	return read_text(pid, "status", status, sizeof(status)) &&
	       (has_int(status, "SigBlk:\t") || (young && has_int(status, "SigCgt:\t"))) &&
	       same_program(shell, pid);
}

struct group {
	bool moving; /* a process has not stopped yet */
	bool early;  /* one has ended, unnoticed by who started it, or one is forking */
	bool alone;  /* the shell has nothing in the foreground: now, or ever */
};

static struct group look_at(pid_t shell)
{
	struct group g = { .alone = true };
	DIR *dir = opendir("/proc");
	struct process p;
	struct dirent *de;
	pid_t pid;

	while (dir && (de = readdir(dir))) {
		pid = (pid_t)atoi(de->d_name);
		if (pid <= 0 || getpgid(pid) != shell || !read_process(pid, &p))
			continue;
		g.alone = g.alone && (pid == shell || ignores_int(pid));
		g.early = g.early || p.state == 'Z' || is_forking(shell, pid, &p);
		g.moving = g.moving || !strchr("TtZX", p.state);
	}
	if (dir)
		closedir(dir);
	return g;
}

/* True when all stand still, and the signal will not be lost on any. No event tells
 * that a process has stopped that is not our child. A shell that is alone may be
 * between two children, where it misses the signal: not so when it is at each look. */
static bool hold(pid_t shell, bool may_be_alone)
{
	struct group g;
	int i;

	kill(-shell, SIGSTOP);
	for (i = 0; i < INTERRUPT_LOOKS; i++) {
		g = look_at(shell);
		if (!g.moving)
			break;
		wait_a_moment();
	}
	return !g.early && (may_be_alone || !g.alone);
}

unsigned long long interrupt_group(pid_t shell)
{
	unsigned long long now;
	int i;

	for (i = 0; i < INTERRUPT_LOOKS && !hold(shell, i >= INTERRUPT_LOOKS_ALONE); i++) {
		kill(-shell, SIGCONT);
		wait_a_moment();
	}
	now = ticks_now();
	kill(-shell, SIGINT);
	kill(-shell, SIGCONT);
	return now;
}

void interrupt_again(pid_t shell, unsigned long long since)
{
	DIR *dir = opendir("/proc");
	struct process p;
	struct dirent *de;
	pid_t pid;

	while (dir && (de = readdir(dir))) {
		pid = (pid_t)atoi(de->d_name);
		if (pid > 0 && pid != shell && getpgid(pid) == shell && read_process(pid, &p) &&
		    p.started <= since && dies_of_int(pid))
			kill(pid, SIGINT);
	}
	if (dir)
		closedir(dir);
}
