#include "spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two descriptors a sandbox, and room for the ones of a start. */
static void raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Installations on one host differ by their runtime directory (FNV-1a). */
static void base_name(int run_fd, const char *run_dir, char *ret, size_t size)
{
	char link[32], path[4096];
	uint64_t hash = 0xcbf29ce484222325u;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", run_fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n > 0)
		path[n] = '\0';
	else
		snprintf(path, sizeof(path), "%s", run_dir);
	for (const char *p = path; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	snprintf(ret, size, "carrel-%08x", (unsigned)(hash ^ hash >> 32));
}

static int fail(const char *message)
{
	fprintf(stderr, "carrel-spawn: %s\n", message);
	return 111;
}

static void end(struct spawn *s)
{
	if (s->options.stop_on_exit)
		cgroup_base_remove(&s->base);
	unlink(s->options.socket);
}

int main(int argc, char **argv)
{
	static struct spawn s = { .run_fd = -1 };
	char message[512], name[CGROUP_NAME_MAX];

	umask(022);
	if (options_parse(&s.options, argc, argv) != 0)
		return 100;
	if (geteuid() != 0)
		return fail("it must be started as root: it makes namespaces and control groups.");
	for (int i = 0; i < SPAWN_CLIENTS_MAX; i++)
		s.clients[i].watch.fd = -1;
	raise_nofile();
	s.run_fd = rundir_open_base(s.options.run_dir, s.options.client_gid, message, sizeof(message));
	if (s.run_fd < 0)
		return fail(message);
	if (flock(s.run_fd, LOCK_EX | LOCK_NB) != 0)
		return fail("another carrel-spawn serves this runtime directory.");
	base_name(s.run_fd, s.options.run_dir, name, sizeof(name));
	if (cgroup_base_open(&s.base, name, message, sizeof(message)) != 0)
		return fail(message);
	if (loop_open(&s, message, sizeof(message)) != 0)
		return fail(message);
	adopt_all(&s);
	loop_run(&s);
	end(&s);
	return 0;
}
