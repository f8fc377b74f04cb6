#include "cgroup_ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "jail_limits.h"

static const struct {
	const char *controller;
	bool needed;
} hierarchies[CGROUP_DIRS] = {
	[CGROUP_MEMORY] = { "memory", true },    [CGROUP_CPU] = { "cpu", true },
	[CGROUP_CPUACCT] = { "cpuacct", false }, [CGROUP_PIDS] = { "pids", true },
	[CGROUP_FREEZER] = { "freezer", true },  [CGROUP_IO] = { "blkio", false },
};

static int v1_base_dir(char *ret, size_t size, const char *name, const char *mountinfo,
		       const char *self_cgroup, const char *controller)
{
	struct cgroup_mount mount;
	char own[CGROUP_PATH_MAX];
	int err;

	err = cgroup_mount_find(&mount, mountinfo, controller);
	if (err)
		return err;
	err = cgroup_own_dir(own, sizeof(own), &mount, self_cgroup, controller);
	if (err)
		return err;
	err = cgroup_path(ret, size, own, name);
	return err ? err : cgroup_mkdir(ret);
}

static int v1_base_find(struct cgroup *ret, const char *name, const char *mountinfo, const char *self_cgroup,
			char *ret_message, size_t size)
{
	struct cgroup base = { .version = 1 };
	int err;

	for (int i = 0; i < CGROUP_DIRS; i++) {
		err = v1_base_dir(base.dirs[i], sizeof(base.dirs[i]), name, mountinfo, self_cgroup,
				  hierarchies[i].controller);
		if (err == -ENOENT && !hierarchies[i].needed) {
			base.dirs[i][0] = '\0';
			continue;
		}
		if (err) {
			snprintf(ret_message, size, "Cannot make a control group %s for %s: %s.", name,
				 hierarchies[i].controller, strerror(-err));
			return err;
		}
	}
	err = cgroup_write_u64(base.dirs[CGROUP_CPU], "cpu.shares", cgroup_base_weight(1024));
	if (err) {
		snprintf(ret_message, size, "Cannot set the CPU weight of %s: %s.", base.dirs[CGROUP_CPU],
			 strerror(-err));
		return err;
	}
	*ret = base;
	return 0;
}

static int memory_limit(const char *dir, uint64_t bytes)
{
	int err = cgroup_write_u64(dir, "memory.limit_in_bytes", bytes);

	if (err)
		return err;
	/* There only with swap accounting; then it must not be a way around the limit. */
	err = cgroup_write_u64(dir, "memory.memsw.limit_in_bytes", bytes);
	return err == -ENOENT ? 0 : err;
}

/* What the kernel writes back later, in nobody's name, is not counted on this version. */
static int io_limit(const char *dir, const char *file, dev_t disk, uint64_t bytes_s)
{
	char text[64];
	int err;

	if (!dir[0] || bytes_s == 0)
		return 0;
	snprintf(text, sizeof(text), "%u:%u %llu", major(disk), minor(disk), (unsigned long long)bytes_s);
	err = cgroup_write(dir, file, text);
	return err == -ENOENT ? 0 : err;
}

static int v1_make(const struct cgroup *cg, const struct cgroup_limits *limits)
{
	const char *memory = cg->dirs[CGROUP_MEMORY], *cpu = cg->dirs[CGROUP_CPU];
	int err;

	for (int i = 0; i < CGROUP_DIRS; i++) {
		err = cg->dirs[i][0] ? cgroup_mkdir(cg->dirs[i]) : 0;
		if (err)
			return err;
	}
	err = memory_limit(memory, limits->memory_bytes);
	if (err)
		return err;
	err = cgroup_write_u64(cpu, "cpu.cfs_period_us", JAIL_CPU_PERIOD_US);
	if (err)
		return err;
	err = cgroup_write_u64(cpu, "cpu.cfs_quota_us",
			       (uint64_t)limits->cpu_milli * JAIL_CPU_PERIOD_US / 1000);
	if (err)
		return err;
	err = cgroup_write_u64(cg->dirs[CGROUP_PIDS], "pids.max", limits->pids);
	if (!err)
		err = io_limit(cg->dirs[CGROUP_IO], "blkio.throttle.write_bps_device", limits->disk, limits->write_bytes_s);
	return err ? err : io_limit(cg->dirs[CGROUP_IO], "blkio.throttle.read_bps_device", limits->disk, limits->read_bytes_s);
}

static int v1_delegate(const struct cgroup *cg, uid_t uid, uint64_t work_bytes)
{
	static const char *const files[] = { "cgroup.procs", "tasks", NULL }, *const procs[] = { "cgroup.procs", NULL };
	char work[CGROUP_PATH_MAX];
	int err = cgroup_path(work, sizeof(work), cg->dirs[CGROUP_MEMORY], CGROUP_V1_WORK);

	if (!err)
		err = cgroup_mkdir(work);
	if (!err)
		err = memory_limit(work, work_bytes);
	if (!err)
		err = cgroup_give(work, procs, uid);
	return err ? err : cgroup_give(cg->dirs[CGROUP_PIDS], files, uid);
}

static int v1_enter(const struct cgroup *cg)
{
	int err;

	for (int i = 0; i < CGROUP_DIRS; i++) {
		if (i == CGROUP_FREEZER || !cg->dirs[i][0])
			continue;
		err = cgroup_write(cg->dirs[i], "cgroup.procs", "0");
		if (err)
			return err;
	}
	return 0;
}

static void v1_path_guest(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/cgroup.procs", cg->dirs[CGROUP_FREEZER]);
}

static void v1_path_thaw(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/freezer.state", cg->dirs[CGROUP_FREEZER]);
}

static void v1_path_memory_events(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/memory.oom_control", cg->dirs[CGROUP_MEMORY]);
}

static int v1_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	struct cgroup_usage usage = { 0 };
	char text[64];
	int err;

	err = cgroup_read(cg->dirs[CGROUP_MEMORY], "memory.usage_in_bytes", text, sizeof(text));
	if (err)
		return err;
	usage.memory_bytes = strtoull(text, NULL, 10);
	if (cg->dirs[CGROUP_CPUACCT][0]) {
		err = cgroup_read(cg->dirs[CGROUP_CPUACCT], "cpuacct.usage", text, sizeof(text));
		if (err)
			return err;
		usage.cpu_usec = strtoull(text, NULL, 10) / 1000;
	}
	*ret = usage;
	return 0;
}

/* "FREEZING" comes before it. */
static int v1_frozen(const struct cgroup *cg, bool *ret)
{
	char text[32];
	int err = cgroup_read(cg->dirs[CGROUP_FREEZER], "freezer.state", text, sizeof(text));

	if (!err)
		*ret = strncmp(text, "FROZEN", strlen("FROZEN")) == 0;
	return err;
}

/* A frozen process takes no SIGKILL before it is thawed. */
static int v1_kill(const struct cgroup *cg, bool *ret_empty)
{
	unsigned a = 0, b = 0;
	int err;

	err = cgroup_kill_procs(cg->dirs[CGROUP_MEMORY], &a);
	if (!err)
		err = cgroup_kill_procs(cg->dirs[CGROUP_FREEZER], &b);
	if (err)
		return err;
	err = cgroup_freeze(cg, false);
	if (err && err != -ENOENT)
		return err;
	*ret_empty = a + b == 0;
	return 0;
}

static int v1_remove(const struct cgroup *cg)
{
	int err = 0;

	for (int i = 0; i < CGROUP_DIRS; i++) {
		if (cg->dirs[i][0])
			cgroup_rmdir_below(cg->dirs[i]);
		int one = cg->dirs[i][0] ? cgroup_rmdir(cg->dirs[i]) : 0;

		err = err ? err : one;
	}
	return err;
}

const struct cgroup_ops cgroup_v1 = {
	.thaw_text = "THAWED",
	.freeze_text = "FROZEN",
	.frozen = v1_frozen,
	.base_find = v1_base_find,
	.make = v1_make,
	.delegate = v1_delegate,
	.enter = v1_enter,
	.path_guest = v1_path_guest,
	.path_thaw = v1_path_thaw,
	.path_memory_events = v1_path_memory_events,
	.usage = v1_usage,
	.kill = v1_kill,
	.remove = v1_remove,
};
