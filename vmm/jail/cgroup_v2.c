#include "cgroup_ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "jail_limits.h"

#define CONTROLLERS "+memory +cpu +pids"
#define LEAF_SELF "carrel-spawn"
#define LEAF_KEEPER "keeper"
#define LEAF_GUEST "guest"

static bool words_have(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
		if ((p == words || p[-1] == ' ') && (p[n] == '\0' || p[n] == ' ' || p[n] == '\n'))
			return true;
	return false;
}

static bool file_has_controllers(const char *dir, const char *file)
{
	char words[256];

	return cgroup_read(dir, file, words, sizeof(words)) == 0 && words_have(words, "memory") &&
	       words_have(words, "cpu") && words_have(words, "pids");
}

/* Where the kernel or those above do not give it, disk traffic is not limited. */
static void io_hand_down(const char *dir, const char *base)
{
	char words[256];

	if (cgroup_read(dir, "cgroup.controllers", words, sizeof(words)) == 0 && words_have(words, "io") &&
	    cgroup_write(dir, "cgroup.subtree_control", "+io") == 0)
		(void)cgroup_write(base, "cgroup.subtree_control", "+io");
}

/* Only this process in dir: a service of its own (Delegate=yes). */
static bool is_alone(const char *dir)
{
	char text[64], *end;

	if (cgroup_read(dir, "cgroup.procs", text, sizeof(text)) != 0)
		return false;
	return strtol(text, &end, 10) == getpid() && strcmp(end, "\n") == 0;
}

/* Processes may be in leaves only, so this one steps aside into one. */
static int step_aside(const char *dir)
{
	char leaf[CGROUP_PATH_MAX];
	int err;

	err = cgroup_path(leaf, sizeof(leaf), dir, LEAF_SELF);
	if (!err)
		err = cgroup_mkdir(leaf);
	return err ? err : cgroup_write(leaf, "cgroup.procs", "0");
}

/* Makes dir/name with the controllers; an error when dir is not the place. */
static int base_try(char *ret, size_t size, const char *dir, const char *name)
{
	int err;

	if (!file_has_controllers(dir, "cgroup.controllers"))
		return -EOPNOTSUPP;
	if (!file_has_controllers(dir, "cgroup.subtree_control")) {
		err = is_alone(dir) ? step_aside(dir) : 0;
		if (!err)
			err = cgroup_write(dir, "cgroup.subtree_control", CONTROLLERS);
		if (err)
			return err;
	}
	err = cgroup_path(ret, size, dir, name);
	if (!err)
		err = cgroup_mkdir(ret);
	if (!err)
		err = cgroup_write(ret, "cgroup.subtree_control", CONTROLLERS);
	if (!err)
		io_hand_down(dir, ret);
	return err ? err : cgroup_write_u64(ret, "cpu.weight", cgroup_base_weight(100));
}

/* Back from the leaf that an earlier start stepped into. */
static void leave_leaf(char *dir)
{
	char *last = strrchr(dir, '/');

	if (last && strcmp(last + 1, LEAF_SELF) == 0)
		*last = '\0';
}

static int v2_base_find(struct cgroup *ret, const char *name, const char *mountinfo, const char *self_cgroup,
			char *ret_message, size_t size)
{
	struct cgroup base = { .version = 2 };
	struct cgroup_mount mount;
	char dir[CGROUP_PATH_MAX];
	int err;

	err = cgroup_mount_find(&mount, mountinfo, NULL);
	/* Version 1 with an empty version 2 tree beside it is version 1. */
	if (err || !file_has_controllers(mount.point, "cgroup.controllers"))
		return -ENOENT;
	err = cgroup_own_dir(dir, sizeof(dir), &mount, self_cgroup, NULL);
	if (err)
		return err;
	leave_leaf(dir);
	while ((err = base_try(base.dirs[0], sizeof(base.dirs[0]), dir, name)) != 0 &&
	       strcmp(dir, mount.point) != 0)
		*strrchr(dir, '/') = '\0';
	if (err) {
		snprintf(ret_message, size,
			 "No control group from this process up to %s lets Carrel limit memory, cpu and pids "
			 "(%s): "
			 "start carrel-spawn as a systemd service with Delegate=yes.",
			 mount.point, strerror(-err));
		return err == -ENOENT ? -EPERM : err;
	}
	*ret = base;
	return 0;
}

static int leaf_path(const struct cgroup *cg, const char *leaf, char *ret, size_t size)
{
	return cgroup_path(ret, size, cg->dirs[0], leaf);
}

static int io_limit(const char *dir, const struct cgroup_limits *limits)
{
	char text[128];
	int err, n;

	if (limits->write_bytes_s == 0 || limits->read_bytes_s == 0)
		return 0;
	n = snprintf(text, sizeof(text), "%u:%u wbps=%llu rbps=%llu", major(limits->disk), minor(limits->disk),
		     (unsigned long long)limits->write_bytes_s, (unsigned long long)limits->read_bytes_s);
	err = (size_t)n < sizeof(text) ? cgroup_write(dir, "io.max", text) : -E2BIG;
	return err == -ENOENT ? 0 : err;
}

static int v2_limits(const char *dir, const struct cgroup_limits *limits)
{
	char quota[48];
	int err;

	snprintf(quota, sizeof(quota), "%llu %d",
		 (unsigned long long)limits->cpu_milli * JAIL_CPU_PERIOD_US / 1000, JAIL_CPU_PERIOD_US);
	err = cgroup_write_u64(dir, "memory.max", limits->memory_bytes);
	if (err)
		return err;
	/* There only with swap accounting; then it must not be a way around the limit. */
	err = cgroup_write_u64(dir, "memory.swap.max", 0);
	if (err && err != -ENOENT)
		return err;
	err = cgroup_write(dir, "cpu.max", quota);
	if (!err)
		err = cgroup_write_u64(dir, "pids.max", limits->pids);
	return err ? err : io_limit(dir, limits);
}

static int v2_make(const struct cgroup *cg, const struct cgroup_limits *limits)
{
	static const char *const leaves[] = { LEAF_KEEPER, LEAF_GUEST };
	char leaf[CGROUP_PATH_MAX];
	int err;

	err = cgroup_mkdir(cg->dirs[0]);
	if (!err)
		err = v2_limits(cg->dirs[0], limits);
	for (size_t i = 0; !err && i < sizeof(leaves) / sizeof(*leaves); i++) {
		err = leaf_path(cg, leaves[i], leaf, sizeof(leaf));
		if (!err)
			err = cgroup_mkdir(leaf);
	}
	return err;
}

/* The groups below have limits of their own, within those of the sandbox. */
static int v2_delegate(const struct cgroup *cg, uid_t uid, uint64_t work_bytes)
{
	static const char *const files[] = { "cgroup.procs", "cgroup.subtree_control", "cgroup.threads", NULL };
	char leaf[CGROUP_PATH_MAX];
	int err = cgroup_write(cg->dirs[0], "cgroup.subtree_control", CONTROLLERS);

	(void)work_bytes;
	if (!err)
		err = leaf_path(cg, LEAF_GUEST, leaf, sizeof(leaf));
	return err ? err : cgroup_give(leaf, files, uid);
}

static int v2_enter(const struct cgroup *cg)
{
	char leaf[CGROUP_PATH_MAX];
	int err = leaf_path(cg, LEAF_KEEPER, leaf, sizeof(leaf));

	return err ? err : cgroup_write(leaf, "cgroup.procs", "0");
}

static void v2_path_guest(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/" LEAF_GUEST "/cgroup.procs", cg->dirs[0]);
}

static void v2_path_thaw(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/" LEAF_GUEST "/cgroup.freeze", cg->dirs[0]);
}

static void v2_path_memory_events(const struct cgroup *cg, char *ret, size_t size)
{
	snprintf(ret, size, "%s/memory.events", cg->dirs[0]);
}

static int v2_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	struct cgroup_usage usage = { 0 };
	char text[1024];
	const char *usec;
	int err;

	err = cgroup_read(cg->dirs[0], "memory.current", text, sizeof(text));
	if (err)
		return err;
	usage.memory_bytes = strtoull(text, NULL, 10);
	err = cgroup_read(cg->dirs[0], "cpu.stat", text, sizeof(text));
	if (err)
		return err;
	usec = strstr(text, "usage_usec ");
	usage.cpu_usec = usec ? strtoull(usec + strlen("usage_usec "), NULL, 10) : 0;
	*ret = usage;
	return 0;
}

static int v2_frozen(const struct cgroup *cg, bool *ret)
{
	char leaf[CGROUP_PATH_MAX], text[128];
	int err = leaf_path(cg, LEAF_GUEST, leaf, sizeof(leaf));

	if (!err)
		err = cgroup_read(leaf, "cgroup.events", text, sizeof(text));
	if (!err)
		*ret = strstr(text, "frozen 1") != NULL;
	return err;
}

/* A sandbox may have made groups of its own. */
static int v2_kill(const struct cgroup *cg, bool *ret_empty)
{
	unsigned count = 0;
	int err = cgroup_kill_tree(cg->dirs[0], &count);

	if (!err)
		*ret_empty = count == 0;
	return err;
}

static int v2_remove(const struct cgroup *cg)
{
	char leaf[CGROUP_PATH_MAX];

	if (leaf_path(cg, LEAF_KEEPER, leaf, sizeof(leaf)) == 0)
		cgroup_rmdir(leaf);
	if (leaf_path(cg, LEAF_GUEST, leaf, sizeof(leaf)) == 0) {
		cgroup_rmdir_below(leaf);
		cgroup_rmdir(leaf);
	}
	return cgroup_rmdir(cg->dirs[0]);
}

const struct cgroup_ops cgroup_v2 = {
	.thaw_text = "0",
	.freeze_text = "1",
	.frozen = v2_frozen,
	.base_find = v2_base_find,
	.make = v2_make,
	.delegate = v2_delegate,
	.enter = v2_enter,
	.path_guest = v2_path_guest,
	.path_thaw = v2_path_thaw,
	.path_memory_events = v2_path_memory_events,
	.usage = v2_usage,
	.kill = v2_kill,
	.remove = v2_remove,
};
