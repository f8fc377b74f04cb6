#include "cgroup_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* /proc/self/mountinfo of a busy container host; a larger one is refused. */
enum { PROC_TEXT_MAX = 1024 * 1024 };

/* The kernel's bound of cpu.weight; far below that of cpu.shares. */
enum { WEIGHT_MAX = 10000 };

static const struct cgroup_ops *ops_of(const struct cgroup *cg)
{
	return cg->version == 2 ? &cgroup_v2 : &cgroup_v1;
}

int cgroup_path(char *ret, size_t size, const char *dir, const char *name)
{
	int n = snprintf(ret, size, "%s/%s", dir, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int cgroup_write(const char *dir, const char *file, const char *text)
{
	char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
	ssize_t n;
	int fd, err;

	err = cgroup_path(path, sizeof(path), dir, file);
	if (err)
		return err;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	err = n < 0 ? -errno : 0;
	close(fd);
	return err;
}

int cgroup_write_u64(const char *dir, const char *file, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return cgroup_write(dir, file, text);
}

static int read_all(int fd, char *ret, size_t size)
{
	size_t used = 0;
	ssize_t n;

	while (used < size - 1 && (n = read(fd, ret + used, size - 1 - used)) != 0) {
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	ret[used] = '\0';
	return 0;
}

int cgroup_read(const char *dir, const char *file, char *ret, size_t size)
{
	char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
	int fd, err;

	err = cgroup_path(path, sizeof(path), dir, file);
	if (err)
		return err;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	err = read_all(fd, ret, size);
	close(fd);
	return err;
}

/* Their group counts as one process against every other on the host, however
 * many sandboxes are in it; so: one ordinary process a CPU. */
uint64_t cgroup_base_weight(unsigned one)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t weight = (uint64_t)one * (uint64_t)(cpus > 0 ? cpus : 1);

	return weight > WEIGHT_MAX ? WEIGHT_MAX : weight;
}

int cgroup_mkdir(const char *dir)
{
	return mkdir(dir, 0755) != 0 && errno != EEXIST ? -errno : 0;
}

int cgroup_give(const char *dir, const char *const *files, uid_t uid)
{
	char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];

	if (chown(dir, uid, uid) != 0)
		return -errno;
	for (; *files; files++) {
		int err = cgroup_path(path, sizeof(path), dir, *files);

		if (err)
			return err;
		if (chown(path, uid, uid) != 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* each() for every group right below dir. Who made them named them: every name is as good as another. */
static int each_below(const char *dir, int (*each)(const char *dir, void *arg), void *arg)
{
	char path[CGROUP_PATH_MAX];
	DIR *d = opendir(dir);
	struct dirent *entry;
	int err = 0;

	while (!err && d && (entry = readdir(d)) != NULL) {
		if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		err = cgroup_path(path, sizeof(path), dir, entry->d_name);
		if (!err)
			err = each(path, arg);
	}
	if (d)
		closedir(d);
	return err;
}

/* What is still busy stays, and so does what it lies in. */
static int rmdir_tree(const char *dir, void *arg)
{
	(void)arg;
	cgroup_rmdir_below(dir);
	cgroup_rmdir(dir);
	return 0;
}

void cgroup_rmdir_below(const char *dir)
{
	each_below(dir, rmdir_tree, NULL);
}

int cgroup_rmdir(const char *dir)
{
	return rmdir(dir) != 0 && errno != ENOENT ? -errno : 0;
}

int cgroup_kill_procs(const char *dir, unsigned *ret_count)
{
	char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
	unsigned count = 0;
	FILE *f;
	int pid, err;

	err = cgroup_path(path, sizeof(path), dir, "cgroup.procs");
	if (err)
		return err;
	f = fopen(path, "re");
	if (!f && errno != ENOENT)
		return -errno;
	while (f && fscanf(f, "%d", &pid) == 1) {
		if (pid > 1)
			kill(pid, SIGKILL);
		count++;
	}
	if (f)
		fclose(f);
	*ret_count = count;
	return 0;
}

static int kill_tree(const char *dir, void *arg)
{
	return cgroup_kill_tree(dir, arg);
}

int cgroup_kill_tree(const char *dir, unsigned *count)
{
	unsigned one = 0;
	int err = cgroup_kill_procs(dir, &one);

	*count += one;
	return err ? err : each_below(dir, kill_tree, count);
}

static int proc_text(const char *path, char **ret)
{
	char *text = malloc(PROC_TEXT_MAX);
	int fd, err;

	if (!text)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 ? -errno : read_all(fd, text, PROC_TEXT_MAX);
	if (fd >= 0)
		close(fd);
	if (!err && strlen(text) == PROC_TEXT_MAX - 1)
		err = -E2BIG;
	if (err)
		free(text);
	else
		*ret = text;
	return err;
}

int cgroup_base_find(struct cgroup *ret, const char *name, const char *mountinfo, const char *self_cgroup,
		     char *ret_message, size_t size)
{
	int err;

	err = cgroup_v2.base_find(ret, name, mountinfo, self_cgroup, ret_message, size);
	if (err == -ENOENT)
		err = cgroup_v1.base_find(ret, name, mountinfo, self_cgroup, ret_message, size);
	if (err == -ENOENT)
		snprintf(
			ret_message, size,
			"This host has no control groups for memory, cpu, pids and freezer: mount cgroup2 on "
			"/sys/fs/cgroup.");
	return err;
}

int cgroup_base_open(struct cgroup *ret, const char *name, char *ret_message, size_t size)
{
	char *mountinfo = NULL, *self_cgroup = NULL;
	int err;

	err = proc_text("/proc/self/mountinfo", &mountinfo);
	if (!err)
		err = proc_text("/proc/self/cgroup", &self_cgroup);
	if (err)
		snprintf(ret_message, size, "Cannot read the control groups of this process from /proc: %s.",
			 strerror(-err));
	else
		err = cgroup_base_find(ret, name, mountinfo, self_cgroup, ret_message, size);
	free(mountinfo);
	free(self_cgroup);
	return err;
}

void cgroup_base_remove(const struct cgroup *base)
{
	for (int i = 0; i < CGROUP_DIRS; i++)
		if (base->dirs[i][0])
			cgroup_rmdir(base->dirs[i]);
}

struct cgroup cgroup_base_of(const struct cgroup *cg)
{
	struct cgroup base = *cg;

	for (int i = 0; i < CGROUP_DIRS; i++)
		if (base.dirs[i][0])
			*strrchr(base.dirs[i], '/') = '\0';
	return base;
}

bool cgroup_same(const struct cgroup *a, const struct cgroup *b)
{
	for (int i = 0; i < CGROUP_DIRS; i++)
		if (a->dirs[i][0] && b->dirs[i][0] && strcmp(a->dirs[i], b->dirs[i]) != 0)
			return false;
	return a->version == b->version;
}

int cgroup_make(struct cgroup *ret, const struct cgroup *base, const char *id,
		const struct cgroup_limits *limits)
{
	struct cgroup cg = { .version = base->version };
	int err;

	for (int i = 0; i < CGROUP_DIRS; i++) {
		if (!base->dirs[i][0])
			continue;
		err = cgroup_path(cg.dirs[i], sizeof(cg.dirs[i]), base->dirs[i], id);
		if (err)
			return err;
	}
	err = ops_of(&cg)->make(&cg, limits);
	if (err) {
		cgroup_remove(&cg);
		return err;
	}
	*ret = cg;
	return 0;
}

int cgroup_delegate(const struct cgroup *cg, uid_t uid, uint64_t work_bytes)
{
	return ops_of(cg)->delegate(cg, uid, work_bytes);
}

int cgroup_enter(const struct cgroup *cg)
{
	return ops_of(cg)->enter(cg);
}

static int open_path(const struct cgroup *cg, void (*path_of)(const struct cgroup *, char *, size_t),
		     int flags)
{
	char path[CGROUP_PATH_MAX + CGROUP_NAME_MAX];
	int fd;

	path_of(cg, path, sizeof(path));
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int cgroup_open_guest(const struct cgroup *cg)
{
	return open_path(cg, ops_of(cg)->path_guest, O_WRONLY);
}

int cgroup_open_thaw(const struct cgroup *cg)
{
	return open_path(cg, ops_of(cg)->path_thaw, O_WRONLY);
}

int cgroup_open_memory_events(const struct cgroup *cg)
{
	return open_path(cg, ops_of(cg)->path_memory_events, O_RDONLY);
}

const char *cgroup_thaw_text(const struct cgroup *cg)
{
	return ops_of(cg)->thaw_text;
}

int cgroup_freeze(const struct cgroup *cg, bool on)
{
	const char *text = on ? ops_of(cg)->freeze_text : ops_of(cg)->thaw_text;
	int fd = cgroup_open_thaw(cg);
	int err = 0;

	if (fd < 0)
		return fd;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int cgroup_frozen(const struct cgroup *cg, bool *ret)
{
	return ops_of(cg)->frozen(cg, ret);
}

int cgroup_guest_pid(const struct cgroup *cg, pid_t *ret)
{
	int fd = open_path(cg, ops_of(cg)->path_guest, O_RDONLY);
	char text[64], *end;
	ssize_t n;
	long pid;

	if (fd < 0)
		return fd;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	pid = strtol(text, &end, 10);
	if (pid <= 0)
		return -ESRCH;
	if (strcmp(end, "\n") != 0)
		return -EEXIST;
	*ret = (pid_t)pid;
	return 0;
}

int cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	return ops_of(cg)->usage(cg, ret);
}

int cgroup_kill(const struct cgroup *cg, bool *ret_empty)
{
	return ops_of(cg)->kill(cg, ret_empty);
}

int cgroup_remove(const struct cgroup *cg)
{
	return ops_of(cg)->remove(cg);
}
