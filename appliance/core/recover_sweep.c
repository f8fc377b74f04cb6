/* The other way round: what is there and no row speaks of. Machines, disks, files of
 * what was saved. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "life.h"

/* A machine that no row speaks of: adopted only to be stopped. */
struct orphan {
	struct orphan *next;
	struct core *core;
	struct vm *vm;
	struct hub_item free;
};

static void orphan_free(void *arg)
{
	struct orphan *o = arg, **at = &o->core->orphans;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	engine_ops_of(o->core->engine)->free(o->vm);
	free(o);
}

/* It is being stopped already. */
static void on_orphan_started(struct vm *vm, const char *agent_path, void *arg)
{
	(void)vm;
	(void)agent_path;
	(void)arg;
}

static void on_orphan_ended(struct vm *vm, const char *reason, const char *message, void *arg)
{
	struct orphan *o = arg;

	(void)vm;
	(void)reason;
	(void)message;
	hub_post(o->core->hub, &o->free, orphan_free, o);
}

/* Of what engine it is nobody knows; to end it any will do. */
static void orphan_stop(struct core *c, const char *id)
{
	static const struct vm_ops ops = { .started = on_orphan_started, .ended = on_orphan_ended };
	struct orphan *o = calloc(1, sizeof(*o));

	if (!o)
		return;
	o->core = c;
	if (engine_ops_of(c->engine)->adopt(c->engine, id, &ops, o, &o->vm) < 0) {
		free(o);
		return;
	}
	core_log("machine %s has no row: it is stopped", id);
	engine_ops_of(c->engine)->stop(o->vm, REASON_HOST_RESTART);
	o->next = c->orphans;
	c->orphans = o;
}

static void machines_sweep(struct core *c)
{
	DIR *dir = opendir(c->run_dir);
	struct dirent *entry;
	struct stat st;

	if (!dir)
		return;
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.' && !sandbox_find(c, NULL, entry->d_name) &&
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
			orphan_stop(c, entry->d_name);
	}
	closedir(dir);
}

/* The files of a paused sandbox, or of a snapshot, that there is. */
static bool set_is_known(struct core *c, const char *name, bool snapshot)
{
	json_t *row;
	int err;

	if (!snapshot)
		return sandbox_find(c, NULL, name) != NULL;
	err = store_snapshot_get(c->store, NULL, name, &row);
	if (!err)
		json_decref(row);
	return err != -ENOENT;
}

/* Half-made and nobody's sets go; the pins of the others are renewed. */
static int sets_sweep(struct core *c, const char *folder, bool snapshots, struct fault *f)
{
	char path[SET_PATH_MAX - 64], set[SET_PATH_MAX], cache[BASE_PATH_MAX];
	struct dirent *entry;
	struct base base;
	struct fault why;
	DIR *dir;

	snprintf(path, sizeof(path), "%.400s/%s", c->settings->state, folder);
	life_snapshots_dir(c, cache);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return fault_set(f, errno, 500, "state", "%s cannot be made: %s.", path, strerror(errno));
	dir = opendir(path);
	if (!dir)
		return fault_set(f, errno, 500, "state", "%s cannot be read: %s.", path, strerror(errno));
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(set, sizeof(set), "%s/%.60s", path, entry->d_name);
		if (entry->d_name[0] == '.')
			disk_remove_dir(set);
		else if (!set_is_known(c, entry->d_name, snapshots))
			set_remove(set, cache, entry->d_name);
		else if (set_base(set, &base) && base_pin(cache, &base, entry->d_name, &why) < 0)
			core_log("%s: %s", entry->d_name, why.message);
	}
	closedir(dir);
	return 0;
}

static int scratch_sweep(struct core *c, struct fault *f)
{
	char path[300], id[STORE_ID_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/scratch", c->settings->state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return fault_set(f, errno, 500, "state", "%s cannot be made: %s.", path, strerror(errno));
	dir = opendir(path);
	if (!dir)
		return fault_set(f, errno, 500, "state", "%s cannot be read: %s.", path, strerror(errno));
	while ((entry = readdir(dir)) != NULL) {
		size_t len = strcspn(entry->d_name, ".");

		snprintf(id, sizeof(id), "%.*s", (int)len, entry->d_name);
		if (len > 0 && !sandbox_find(c, NULL, id))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
	return 0;
}

int recover_sweep(struct core *c, struct fault *f)
{
	int err = scratch_sweep(c, f);

	if (!err)
		err = sets_sweep(c, "sets", false, f);
	if (!err)
		err = sets_sweep(c, "snapshots", true, f);
	if (!err)
		machines_sweep(c);
	return err;
}
