/* UNIT: appliance/spawn/rundir.c vmm/jail LIBS: -lseccomp */
/* What is noted of a sandbox for the next carrel-spawn: read back, also as an earlier version wrote it, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "appliance/spawn/rundir.h"
#include "check.h"

static char top[] = "/tmp/carrel-rundir-XXXXXX";

static void shorten(int dir, const char *name, off_t size)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, size), 0);
	close(fd);
}

static void record(int dir)
{
	struct rundir_record written = { .slot = 7, .engine = SPAWN_ENGINE_JAIL, .cgroup.version = 1 }, read;

	for (int i = 0; i < CGROUP_DIRS; i++)
		snprintf(written.cgroup.dirs[i], CGROUP_PATH_MAX, "/group/%d", i);
	CHECK_INT(rundir_record_write(dir, &written), 0);
	CHECK_INT(rundir_record_read(dir, &read), 0);
	CHECK_INT(read.slot, 7);
	CHECK(cgroup_same(&read.cgroup, &written.cgroup));
	CHECK_STR(read.cgroup.dirs[CGROUP_IO], written.cgroup.dirs[CGROUP_IO]);
	shorten(dir, "record", offsetof(struct rundir_record, cgroup.dirs[CGROUP_IO]));
	CHECK_INT(rundir_record_read(dir, &read), 0);
	CHECK_STR(read.cgroup.dirs[CGROUP_FREEZER], written.cgroup.dirs[CGROUP_FREEZER]);
	CHECK_STR(read.cgroup.dirs[CGROUP_IO], "");
	shorten(dir, "record", offsetof(struct rundir_record, cgroup.dirs[CGROUP_FREEZER]));
	CHECK_INT(rundir_record_read(dir, &read), -EBADMSG);
	shorten(dir, "record", 0);
	CHECK_INT(rundir_record_read(dir, &read), -EBADMSG);
}

static void group(int dir)
{
	struct cgroup written = { .version = 2 }, read;

	CHECK_INT(rundir_group_read(dir, &read), -ENOENT);
	strcpy(written.dirs[0], "/group");
	CHECK_INT(rundir_group_write(dir, &written), 0);
	CHECK_INT(rundir_group_read(dir, &read), 0);
	CHECK_STR(read.dirs[0], "/group");
	shorten(dir, ".group", offsetof(struct cgroup, dirs[CGROUP_IO]));
	CHECK_INT(rundir_group_read(dir, &read), 0);
	shorten(dir, ".group", 3);
	CHECK_INT(rundir_group_read(dir, &read), -EBADMSG);
}

int main(void)
{
	int dir;

	if (geteuid() != 0) {
		puts("these files are root's");
		return 77;
	}
	CHECK(mkdtemp(top) != NULL);
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	record(dir);
	group(dir);
	CHECK_INT(unlinkat(dir, "record", 0), 0);
	CHECK_INT(unlinkat(dir, ".group", 0), 0);
	close(dir);
	return rmdir(top);
}
