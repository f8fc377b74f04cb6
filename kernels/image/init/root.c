#include "root.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

#define NEWROOT "/newroot"
/* The guest programs, unpacked from the initramfs: they lie over the image. */
#define GUEST "/guest"

void mount_or_fail(const char *type, const char *source, const char *target, unsigned long flags,
		   const char *options)
{
	if (mkdir(target, 0755) != 0 && errno != EEXIST)
		init_fail(errno, "cannot make the directory %s", target);
	if (mount(source, target, type, flags, options) != 0)
		init_fail(errno, "cannot mount %s at %s", source, target);
}

static void directory_make(const char *path)
{
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		init_fail(errno, "cannot make %s on the scratch disk", path);
}

static void overlay_mount(const char *root_disk, const char *scratch_disk)
{
	mount_or_fail("ext4", root_disk, "/lower", MS_RDONLY | MS_NOATIME | MS_NODEV, NULL);
	/* discard: what a sandbox deletes leaves holes in its sparse file. usrquota: the agent may turn it on. */
	mount_or_fail("ext4", scratch_disk, "/scratch", MS_NOATIME | MS_NODEV, "discard,usrquota");
	directory_make("/scratch/upper");
	directory_make("/scratch/work");
	mount_or_fail("overlay", "overlay", NEWROOT, MS_NOATIME | MS_NODEV,
		      "lowerdir=" GUEST
		      ":/lower,upperdir=/scratch/upper,workdir=/scratch/work,redirect_dir=on");
	/* The overlay keeps both; nothing inside shall reach around it. */
	umount2("/lower", MNT_DETACH);
	umount2("/scratch", MNT_DETACH);
}

static void mount_move(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_MOVE, NULL) != 0)
		init_fail(errno, "cannot move %s to %s", from, to);
}

static void api_mount(void)
{
	mount_move("/proc", NEWROOT "/proc");
	mount_move("/sys", NEWROOT "/sys");
	mount_move("/dev", NEWROOT "/dev");
	mount_or_fail("cgroup2", "cgroup2", NEWROOT "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("devpts", "devpts", NEWROOT "/dev/pts", MS_NOSUID | MS_NOEXEC,
		      "mode=620,gid=5,ptmxmode=666");
	mount_or_fail("tmpfs", "shm", NEWROOT "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	/* Sockets and small state only: a tmpfs is memory. */
	mount_or_fail("tmpfs", "run", NEWROOT "/run", MS_NOSUID | MS_NODEV, "mode=755,size=16m");
}

/* Programs look for these four names, which nothing makes without udev. */
static void device_links_make(void)
{
	static const struct {
		const char *target;
		const char *name;
	} links[] = {
		{ "/proc/self/fd", NEWROOT "/dev/fd" },
		{ "/proc/self/fd/0", NEWROOT "/dev/stdin" },
		{ "/proc/self/fd/1", NEWROOT "/dev/stdout" },
		{ "/proc/self/fd/2", NEWROOT "/dev/stderr" },
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (symlink(links[i].target, links[i].name) != 0 && errno != EEXIST)
			init_fail(errno, "cannot make %s", links[i].name);
}

void root_switch(const char *root_disk, const char *scratch_disk)
{
	overlay_mount(root_disk, scratch_disk);
	api_mount();
	device_links_make();
	/* The agent finds the disk under the overlay by it. */
	if (symlink(scratch_disk, NEWROOT "/dev/carrel-scratch") != 0)
		init_fail(errno, "cannot make a name for %s", scratch_disk);
	unlink("/init");
	if (chdir(NEWROOT) != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 ||
	    chdir("/") != 0)
		init_fail(errno, "cannot make the overlay the root");
}
