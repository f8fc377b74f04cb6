/* UNIT: vmm/jail LIBS: -lseccomp */
/* Where control groups are found and made, on trees that only look like them. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "vmm/jail/cgroup.h"
#include "vmm/jail/cgroup_ops.h"

static char top[] = "/tmp/carrel-cgroup-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", top, path);
	f = fopen(full, "we");
	CHECK(f != NULL);
	fputs(text, f);
	fclose(f);
}

static const char *get(const char *path)
{
	static char text[256];

	CHECK_INT(cgroup_read(top, path, text, sizeof(text)), 0);
	return text;
}

static void dir(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", top, path);
	CHECK_INT(mkdir(full, 0755), 0);
}

/* A group as the kernel would show it. */
static void group(const char *path, const char *controllers, const char *subtree, const char *procs)
{
	static const char *const files[] = { "cgroup.controllers", "cgroup.subtree_control", "cgroup.procs" };
	const char *const texts[] = { controllers, subtree, procs };
	char file[512];

	dir(path);
	for (int i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, files[i]);
		put(file, texts[i]);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int find(struct cgroup *ret, const char *mountinfo_format, const char *own, char *message)
{
	char mountinfo[2048];

	snprintf(mountinfo, sizeof(mountinfo), mountinfo_format, top, top, top, top, top, top);
	return cgroup_base_find(ret, "carrel-t", mountinfo, own, message, 512);
}

#define V2_MOUNT "30 23 0:26 / %s/v2 rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

/* The fake files for the base do not appear by themselves when it is made. */
static void base_files(const char *path)
{
	static const char *const files[] = { "cgroup.subtree_control", "cpu.weight" };
	char file[512];

	dir(path);
	for (int i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, files[i]);
		put(file, "");
	}
}

static void v2_session_scope_goes_up_to_the_slice(void)
{
	struct cgroup base;
	char message[512], want[512];

	group("v2", "cpu memory pids\n", "cpu memory pids\n", "1\n");
	group("v2/user.slice", "cpu memory pids\n", "cpu memory pids\n", "");
	group("v2/user.slice/session.scope", "memory pids\n", "", "100\n200\n");
	base_files("v2/user.slice/carrel-t");
	CHECK_INT(find(&base, V2_MOUNT, "0::/user.slice/session.scope\n", message), 0);
	CHECK_INT(base.version, 2);
	snprintf(want, sizeof(want), "%s/v2/user.slice/carrel-t", top);
	CHECK_STR(base.dirs[0], want);
	CHECK_STR(get("v2/user.slice/carrel-t/cgroup.subtree_control"), "+memory +cpu +pids");
}

static void v2_own_service_steps_aside(void)
{
	struct cgroup base;
	char message[512], want[512], procs[32];

	snprintf(procs, sizeof(procs), "%d\n", getpid());
	group("v2/system.service", "cpu memory pids\n", "", procs);
	group("v2/system.service/carrel-spawn", "", "", "");
	base_files("v2/system.service/carrel-t");
	CHECK_INT(find(&base, V2_MOUNT, "0::/system.service\n", message), 0);
	snprintf(want, sizeof(want), "%s/v2/system.service/carrel-t", top);
	CHECK_STR(base.dirs[0], want);
	CHECK_STR(get("v2/system.service/carrel-spawn/cgroup.procs"), "0");
	CHECK_STR(get("v2/system.service/cgroup.subtree_control"), "+memory +cpu +pids");
	CHECK_STR(get("v2/system.service/carrel-t/cgroup.subtree_control"), "+memory +cpu +pids");
	/* And from inside that leaf the next start finds the same place. */
	put("v2/system.service/cgroup.subtree_control", "cpu memory pids\n");
	put("v2/system.service/cgroup.controllers", "cpu io memory pids\n");
	CHECK_INT(find(&base, V2_MOUNT, "0::/system.service/carrel-spawn\n", message), 0);
	CHECK_STR(base.dirs[0], want);
	/* The last that was written; these files do not shrink. */
	CHECK(strncmp(get("v2/system.service/carrel-t/cgroup.subtree_control"), "+io", 3) == 0);
}

static void v2_nothing_usable_is_a_sentence(void)
{
	struct cgroup base = { .version = 7 };
	char message[512] = "";

	group("bare", "cpu memory pids\n", "", "1\n2\n");
	/* Without subtree_control nothing can be handed down. */
	char path[512];
	snprintf(path, sizeof(path), "%s/bare/cgroup.subtree_control", top);
	CHECK_INT(unlink(path), 0);
	CHECK(find(&base, "30 23 0:26 / %s/bare rw - cgroup2 cgroup2 rw\n", "0::/\n", message) < 0);
	CHECK(strstr(message, "Delegate=yes") != NULL);
	CHECK_INT(base.version, 7);
}

static void v2_limits_and_leaves(void)
{
	const struct cgroup_limits limits = { .memory_bytes = 608u << 20, .cpu_milli = 1200, .pids = 160, .disk = makedev(8, 16),
					      .write_bytes_s = 100, .read_bytes_s = 400 };
	static const char *const files[] = { "memory.max", "memory.swap.max", "cpu.max", "pids.max", "io.max" };
	struct cgroup base = { .version = 2 }, cg, of;
	char file[512];

	snprintf(base.dirs[0], sizeof(base.dirs[0]), "%s/v2/user.slice/carrel-t", top);
	dir("v2/user.slice/carrel-t/box");
	for (int i = 0; i < 5; i++) {
		snprintf(file, sizeof(file), "v2/user.slice/carrel-t/box/%s", files[i]);
		put(file, "");
	}
	CHECK_INT(cgroup_make(&cg, &base, "box", &limits), 0);
	of = cgroup_base_of(&cg);
	CHECK(cgroup_same(&of, &base) && !cgroup_same(&cg, &base));
	CHECK_STR(get("v2/user.slice/carrel-t/box/memory.max"), "637534208");
	CHECK_STR(get("v2/user.slice/carrel-t/box/memory.swap.max"), "0");
	CHECK_STR(get("v2/user.slice/carrel-t/box/cpu.max"), "24000 20000");
	CHECK_STR(get("v2/user.slice/carrel-t/box/pids.max"), "160");
	CHECK_STR(get("v2/user.slice/carrel-t/box/io.max"), "8:16 wbps=100 rbps=400");
	CHECK_STR(cgroup_thaw_text(&cg), "0");
	put("v2/user.slice/carrel-t/box/guest/cgroup.freeze", "");
	put("v2/user.slice/carrel-t/box/guest/cgroup.procs", "");
	put("v2/user.slice/carrel-t/box/keeper/cgroup.procs", "");
	CHECK_INT(cgroup_enter(&cg), 0);
	CHECK_STR(get("v2/user.slice/carrel-t/box/keeper/cgroup.procs"), "0");
	CHECK_INT(cgroup_freeze(&cg, true), 0);
	CHECK_STR(get("v2/user.slice/carrel-t/box/guest/cgroup.freeze"), "1");
	put("v2/user.slice/carrel-t/box/memory.current", "1048576\n");
	put("v2/user.slice/carrel-t/box/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
	struct cgroup_usage usage;
	CHECK_INT(cgroup_usage(&cg, &usage), 0);
	CHECK_INT(usage.memory_bytes, 1048576);
	CHECK_INT(usage.cpu_usec, 1234);
}

static void v2_kill_reaches_every_leaf(void)
{
	struct cgroup cg = { .version = 2 };
	bool empty = true;
	char procs[32];
	pid_t pid = fork();
	int status;

	if (pid == 0)
		for (;;)
			pause();
	snprintf(cg.dirs[0], sizeof(cg.dirs[0]), "%s/v2/user.slice/carrel-t/box", top);
	snprintf(procs, sizeof(procs), "%d\n", pid);
	put("v2/user.slice/carrel-t/box/guest/cgroup.procs", procs);
	put("v2/user.slice/carrel-t/box/keeper/cgroup.procs", "");
	CHECK_INT(cgroup_kill(&cg, &empty), 0);
	CHECK(!empty);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == 9);
	put("v2/user.slice/carrel-t/box/guest/cgroup.procs", "");
	CHECK_INT(cgroup_kill(&cg, &empty), 0);
	CHECK(empty);
	/* One that a sandbox made for itself. */
	dir("v2/user.slice/carrel-t/box/guest/work");
	dir("v2/user.slice/carrel-t/box/guest/work/deep");
	put("v2/user.slice/carrel-t/box/guest/work/deep/cgroup.procs", "2147483646\n");
	CHECK_INT(cgroup_kill(&cg, &empty), 0);
	CHECK(!empty);
}

/* Controllers apart, some mounted together, and an empty version 2 tree beside them. */
static void v1_hierarchies_are_found_by_controller(void)
{
	static const char mounts[] = "26 25 0:22 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
				     "27 25 0:23 / %s/cpuset rw - cgroup cgroup rw,cpuset\n"
				     "28 25 0:24 /outer %s/memory rw - cgroup cgroup rw,memory\n"
				     "29 25 0:25 / %s/freezer rw - cgroup cgroup rw,freezer\n"
				     "30 25 0:26 / %s/pids rw shared:9 - cgroup cgroup rw,pids\n"
				     "31 25 0:27 / %s/unified rw - cgroup2 cgroup2 rw\n";
	static const char own[] =
		"6:freezer:/\n5:pids:/a b\n4:memory:/outer/own\n3:cpuset:/x\n2:cpu,cpuacct:/c\n0::/\n";
	struct cgroup base;
	char message[512], want[512];

	dir("cpu");
	dir("cpu/c");
	dir("cpu/c/carrel-t");
	put("cpu/c/carrel-t/cpu.shares", "");
	dir("memory");
	dir("memory/own");
	dir("freezer");
	dir("pids");
	dir("pids/a b");
	group("unified", "", "", "1\n");
	CHECK_INT(find(&base, mounts, own, message), 0);
	CHECK_INT(base.version, 1);
	struct cgroup with_more = base;
	snprintf(with_more.dirs[CGROUP_IO], sizeof(with_more.dirs[CGROUP_IO]), "%s/blkio/carrel-t", top);
	CHECK(cgroup_same(&base, &with_more));
	with_more.dirs[CGROUP_MEMORY][0] = '?';
	CHECK(!cgroup_same(&base, &with_more));
	snprintf(want, sizeof(want), "%s/memory/own/carrel-t", top);
	CHECK_STR(base.dirs[CGROUP_MEMORY], want);
	snprintf(want, sizeof(want), "%s/cpu/c/carrel-t", top);
	CHECK_STR(base.dirs[CGROUP_CPU], want);
	CHECK_STR(base.dirs[CGROUP_CPUACCT], want);
	snprintf(want, sizeof(want), "%s/pids/a b/carrel-t", top);
	CHECK_STR(base.dirs[CGROUP_PIDS], want);
	CHECK(strtoul(get("cpu/c/carrel-t/cpu.shares"), NULL, 10) >= 1024);
}

static void no_groups_is_a_sentence(void)
{
	struct cgroup base;
	char message[512] = "";

	CHECK_INT(cgroup_base_find(&base, "carrel-t", "", "", message, sizeof(message)), -ENOENT);
	CHECK(strstr(message, "mount cgroup2") != NULL);
}

int main(void)
{
	CHECK(mkdtemp(top) != NULL);
	v2_session_scope_goes_up_to_the_slice();
	v2_own_service_steps_aside();
	v2_nothing_usable_is_a_sentence();
	v2_limits_and_leaves();
	v2_kill_reaches_every_leaf();
	v1_hierarchies_are_found_by_controller();
	no_groups_is_a_sentence();
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1;
}
