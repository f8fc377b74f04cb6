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

/* Installations on one host differ by their runtime directory, whatever path
 * each sees it under. */
static int base_name(int run_fd, char *ret, size_t size)
{
	struct stat st;

	if (fstat(run_fd, &st) != 0)
		return -errno;
	snprintf(ret, size, "carrel-%llx-%llx", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	return 0;
}

static int fail(const char *message)
{
	fprintf(stderr, "carrel-spawn: %s\n", message);
	return 111;
}

/* The group an earlier carrel-spawn made may lie elsewhere. An empty one goes now, another
 * with the last sandbox in it. */
static void groups_note(struct spawn *s)
{
	struct cgroup earlier;
	int err = rundir_group_read(s->run_fd, &earlier);

	if (!err && !cgroup_same(&earlier, &s->base))
		cgroup_base_remove(&earlier);
	err = rundir_group_write(s->run_fd, &s->base);
	if (err)
		fprintf(stderr, "carrel-spawn: cannot note its control group: %s\n", strerror(-err));
}

static void disk_find(struct spawn *s)
{
	struct stat st;
	int err = fstat(s->run_fd, &st) != 0 ? -errno : cgroup_disk_of(st.st_dev, &s->disk);

	if (err && s->options.write_mb_s)
		fprintf(stderr, "carrel-spawn: what sandboxes write is not limited (WRITE_MB_S): %s lies on no disk that has a limit.\n",
			s->options.run_dir);
}

static void end(struct spawn *s)
{
	/* It stays where a sandbox does. */
	cgroup_base_remove(&s->base);
	unlink(s->options.socket);
}

int main(int argc, char **argv)
{
	static struct spawn s = { .run_fd = -1, .images.dir_fd = -1 };
	char message[512] = "cannot stat the runtime directory.", name[CGROUP_NAME_MAX];

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
	if (base_name(s.run_fd, name, sizeof(name)) != 0 ||
	    cgroup_base_open(&s.base, name, message, sizeof(message)) != 0)
		return fail(message);
	if (loop_open(&s, message, sizeof(message)) != 0)
		return fail(message);
	disk_find(&s);
	groups_note(&s);
	adopt_all(&s);
	loop_run(&s);
	end(&s);
	return 0;
}
