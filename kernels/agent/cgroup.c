#include "cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "agent.h"
#include "util.h"

#define CGROUP "/sys/fs/cgroup"
#define CGROUP_AGENT CGROUP "/carrel"
#define CGROUP_WORK CGROUP "/work"

enum {
	/* A process may have been forked between the limit and the first look. */
	LEAF_KILL_ROUNDS = 3,
	/* Above the agent and its parents, which have 0, by half of all memory. */
	JAIL_OOM_SCORE = 500,
};

struct leaf {
	LIST_ENTRY(leaf) entry; /* of the abandoned ones */
	char *path;             /* NULL without cgroups */
	int procs;
	uint64_t oom_kills;
	uint64_t storm_since, storm_kills; /* kills from that moment on, now_ms() */
};

/* False: CGROUP shows a group of version 1's controller for processes, and no other. */
static bool version_2;

/* Leaves in which something still ran when their owner was done with them. */
static LIST_HEAD(, leaf) abandoned = LIST_HEAD_INITIALIZER(abandoned);

static uint64_t number_after(const char *path, const char *key)
{
	char text[4096];
	const char *at = text;

	if (file_read(path, text, sizeof(text)) < 0)
		return 0;
	if (key) {
		size_t len = strlen(key);

		for (;;) {
			if (strncmp(at, key, len) == 0 && at[len] == ' ')
				break;
			at = strchr(at, '\n');
			if (!at)
				return 0;
			at++;
		}
		at += len + 1;
	}
	return strtoull(at, NULL, 10);
}

static uint64_t memory_total(void)
{
	char text[4096];
	const char *at;

	if (file_read("/proc/meminfo", text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "MemTotal:");
	return at ? strtoull(at + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

/* Nobody may go below what it was given by the host; there the work goes above. */
static int oom_score(const struct agent *a)
{
	return file_write("/proc/self/oom_score_adj", a->opt.own_kernel ? "-1000" : "0");
}

int cgroup_oom_score(const struct agent *a)
{
	return a->opt.own_kernel ? 0 : JAIL_OOM_SCORE;
}

static int groups_make(void)
{
	int err;

	if (mkdir(CGROUP_AGENT, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (mkdir(CGROUP_WORK, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (!version_2)
		return 0;
	err = file_write(CGROUP_AGENT "/cgroup.procs", "0");
	if (!err)
		err = file_write(CGROUP "/cgroup.subtree_control", "+cpu +memory +pids");
	if (!err)
		err = file_write(CGROUP_WORK "/cgroup.subtree_control", "+cpu +memory +pids");
	if (!err)
		err = file_write(CGROUP_AGENT "/cpu.weight", "1000");
	return err;
}

int cgroup_start(struct agent *a)
{
	int err;

	if (!a->opt.system)
		return 0;
	version_2 = access(CGROUP "/cgroup.controllers", F_OK) == 0;
	err = groups_make();
	if (!err)
		err = oom_score(a);
	return err ? err : cgroup_limit(a, 0, 0);
}

static int number_write(const char *path, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return file_write(path, text);
}

/* What the agent and the parents hold for good: the work has the rest. */
static uint64_t memory_taken(void)
{
	static const char stat[] = CGROUP_AGENT "/memory.stat";

	return number_after(stat, "anon") + number_after(stat, "kernel") + number_after(stat, "file_mapped");
}

static int memory_limit(uint64_t memory_mb)
{
	const uint64_t least = (uint64_t)WORK_MIN_MB << 20, reserve = (uint64_t)RESERVE_MB << 20;
	uint64_t memory = memory_total(), taken, work;
	int err;

	taken = memory_taken();
	/* Shared libraries that the parents map stay, whatever the work reads:
	 * else its end would come in minutes of reading them again and again. */
	err = number_write(CGROUP_AGENT "/memory.min", taken < memory / 2 ? taken : memory / 2);
	if (memory_mb && memory_mb < memory >> 20)
		memory = memory_mb << 20;
	work = memory > taken + reserve + least ? memory - taken - reserve : least;
	return err ? err : number_write(CGROUP_WORK "/memory.max", work);
}

int cgroup_limit(struct agent *a, uint64_t memory_mb, uint64_t pids)
{
	int err;

	if (!a->opt.system)
		return 0;
	err = version_2 ? memory_limit(memory_mb) : 0;
	return err ? err : number_write(CGROUP_WORK "/pids.max", pids ? pids : PIDS_DEFAULT);
}

static char *leaf_file(const struct leaf *leaf, const char *file)
{
	return xasprintf("%s/%s", leaf->path, file);
}

/* Version 1 counts the sandbox's as a whole. */
static uint64_t leaf_oom_kills(const struct leaf *leaf)
{
	cleanup_free char *path = version_2 ? leaf_file(leaf, "memory.events") : xstrdup(CGROUP_V1_MEMORY);

	return number_after(path, "oom_kill");
}

static void leaf_destroy(struct leaf *leaf)
{
	if (leaf->procs >= 0)
		close(leaf->procs);
	free(leaf->path);
	free(leaf);
}

static void abandoned_sweep(void)
{
	struct leaf *leaf, *next;

	for (leaf = LIST_FIRST(&abandoned); leaf; leaf = next) {
		next = LIST_NEXT(leaf, entry);
		if (rmdir(leaf->path) < 0 && errno == EBUSY)
			continue;
		LIST_REMOVE(leaf, entry);
		leaf_destroy(leaf);
	}
}

static int leaf_make(struct leaf *leaf, const char *name)
{
	static unsigned serial;
	cleanup_free char *procs = NULL;

	/* Numbered: the leaf of an earlier owner of the name may still be busy. */
	leaf->path = xasprintf(CGROUP_WORK "/%s.%u", name, ++serial);
	if (mkdir(leaf->path, 0755) < 0)
		return -errno;
	procs = leaf_file(leaf, "cgroup.procs");
	leaf->procs = open(procs, O_WRONLY | O_CLOEXEC);
	leaf->oom_kills = leaf_oom_kills(leaf);
	return leaf->procs < 0 ? -errno : 0;
}

int leaf_new(struct agent *a, const char *name, struct leaf **ret)
{
	struct leaf *leaf = xcalloc(1, sizeof(*leaf));
	int err = 0;

	abandoned_sweep();
	if (a->opt.system) {
		leaf->procs = -1;
		err = leaf_make(leaf, name);
	} else {
		leaf->procs = open("/dev/null", O_WRONLY | O_CLOEXEC);
		err = leaf->procs < 0 ? -errno : 0;
	}
	if (err) {
		leaf_destroy(leaf);
		return err;
	}
	*ret = leaf;
	return 0;
}

void leaf_free(struct leaf *leaf)
{
	if (!leaf)
		return;
	if (leaf->path && rmdir(leaf->path) < 0 && errno == EBUSY) {
		LIST_INSERT_HEAD(&abandoned, leaf, entry);
		return;
	}
	leaf_destroy(leaf);
}

int leaf_procs(const struct leaf *leaf)
{
	return leaf->procs;
}

/* Nothing new comes to be in it meanwhile, so that a few rounds find all; what its owner starts next may fork again. */
static int leaf_kill_each(const struct leaf *leaf)
{
	cleanup_free char *procs = leaf_file(leaf, "cgroup.procs"), *max = leaf_file(leaf, "pids.max");
	int err = file_write(max, "0"), pid, round;

	for (round = 0; !err && round < LEAF_KILL_ROUNDS; round++) {
		FILE *f = fopen(procs, "re");

		while (f && fscanf(f, "%d", &pid) == 1)
			kill(pid, SIGKILL);
		if (f)
			fclose(f);
	}
	return err ? err : file_write(max, "max");
}

void leaf_kill(const struct leaf *leaf)
{
	cleanup_free char *path = NULL;
	int err;

	if (!leaf->path)
		return;
	path = leaf_file(leaf, "cgroup.kill");
	err = version_2 ? file_write(path, "1") : leaf_kill_each(leaf);
	if (err)
		log_line("cannot kill what runs in %s: %s", leaf->path, strerror(-err));
}

/* Version 1 does not say where the killer struck: then it is the leaf that most of the work's processes are in. */
static bool leaf_is_it(const struct leaf *leaf)
{
	cleanup_free char *pids = version_2 ? NULL : leaf_file(leaf, "pids.current");

	return version_2 || number_after(pids, NULL) * 2 > number_after(CGROUP_WORK "/pids.current", NULL);
}

/* What forks faster than the killer kills keeps that busy for good, and in a jail the host's other processes wait
 * for the same lock. */
static void storm_end(struct leaf *leaf, uint64_t kills)
{
	uint64_t now = now_ms();

	if (now - leaf->storm_since > OOM_STORM_MS) {
		leaf->storm_since = now;
		leaf->storm_kills = 0;
	}
	leaf->storm_kills += kills;
	if (leaf->storm_kills < OOM_STORM_KILLS || !leaf_is_it(leaf))
		return;
	log_line("memory ran out %llu times in %s: all of it is ended", (unsigned long long)leaf->storm_kills, leaf->path);
	leaf->storm_kills = 0;
	leaf_kill(leaf);
}

bool leaf_oom(struct leaf *leaf)
{
	uint64_t kills, before;

	if (!leaf->path)
		return false;
	before = leaf->oom_kills;
	kills = leaf->oom_kills = leaf_oom_kills(leaf);
	if (kills > before)
		storm_end(leaf, kills - before);
	return kills > before;
}

int cgroup_open_memory_events(void)
{
	int fd = version_2 ? open(CGROUP_WORK "/memory.events", O_RDONLY | O_CLOEXEC) : -1;

	return fd >= 0 ? fd : version_2 ? -errno : -ENOENT;
}

static int leaf_each(const char *name, int (*each)(pid_t pid, void *arg), void *arg)
{
	cleanup_free char *procs = xasprintf(CGROUP_WORK "/%s/cgroup.procs", name);
	FILE *f = fopen(procs, "re");
	int err = 0, pid;

	if (!f)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (!err && fscanf(f, "%d", &pid) == 1)
		err = each(pid, arg);
	fclose(f);
	return err;
}

int cgroup_work_each(const struct agent *a, int (*each)(pid_t pid, void *arg), void *arg)
{
	struct dirent *entry;
	DIR *dir;
	int err = 0;

	if (!a->opt.system)
		return 0;
	dir = opendir(CGROUP_WORK);
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			err = leaf_each(entry->d_name, each, arg);
	closedir(dir);
	return err;
}

uint64_t cgroup_work_number(const struct agent *a, const char *file, const char *key)
{
	cleanup_free char *path = NULL;

	if (!a->opt.system)
		return 0;
	path = xasprintf(CGROUP_WORK "/%s", file);
	return number_after(path, key);
}
