/* What cgroup.c asks of the two versions, and the file access they share.
 * Not for others: see cgroup.h. */
#ifndef CARREL_CGROUP_OPS_H
#define CARREL_CGROUP_OPS_H

#include "cgroup.h"

struct cgroup_ops {
	const char *thaw_text;
	/* -ENOENT: this version is not mounted with the controllers needed. */
	int (*base_find)(struct cgroup *ret, const char *name, const char *mountinfo, const char *self_cgroup,
			 char *ret_message, size_t size);
	int (*make)(const struct cgroup *cg, const struct cgroup_limits *limits);
	int (*delegate)(const struct cgroup *cg, uid_t uid, uint64_t work_bytes);
	int (*enter)(const struct cgroup *cg);
	void (*path_guest)(const struct cgroup *cg, char *ret, size_t size);
	void (*path_thaw)(const struct cgroup *cg, char *ret, size_t size);
	void (*path_memory_events)(const struct cgroup *cg, char *ret, size_t size);
	const char *freeze_text;
	int (*frozen)(const struct cgroup *cg, bool *ret);
	int (*usage)(const struct cgroup *cg, struct cgroup_usage *ret);
	int (*kill)(const struct cgroup *cg, bool *ret_empty);
	int (*remove)(const struct cgroup *cg);
};

extern const struct cgroup_ops cgroup_v1, cgroup_v2;

/* A mount of /proc/self/mountinfo. */
struct cgroup_mount {
	char root[CGROUP_PATH_MAX];
	char point[CGROUP_PATH_MAX];
};

/* controller NULL: the cgroup2 mount. -ENOENT when there is none. */
int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, const char *controller);
/* This process's directory below a mount; controller NULL: version 2. */
int cgroup_own_dir(char *ret, size_t size, const struct cgroup_mount *mount, const char *self_cgroup,
		   const char *controller);

int cgroup_path(char *ret, size_t size, const char *dir, const char *name);
int cgroup_write(const char *dir, const char *file, const char *text);
int cgroup_write_u64(const char *dir, const char *file, uint64_t value);
/* At most size - 1 bytes, ended by NUL. */
int cgroup_read(const char *dir, const char *file, char *ret, size_t size);
/* The CPU weight of all sandboxes together, given that of one ordinary process. */
uint64_t cgroup_base_weight(unsigned one);
int cgroup_mkdir(const char *dir);
/* The directory, and those of its files that are named; what this kernel lacks is passed over. */
int cgroup_give(const char *dir, const char *const *files, uid_t uid);
/* Removes the groups below dir, not dir itself. */
void cgroup_rmdir_below(const char *dir);
int cgroup_rmdir(const char *dir);
/* SIGKILL to every process of dir/cgroup.procs; counts them. */
int cgroup_kill_procs(const char *dir, unsigned *ret_count);
/* The same for those below it, too; adds to *count. */
int cgroup_kill_tree(const char *dir, unsigned *count);

#endif
