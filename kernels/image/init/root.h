/* The guest's root: the read-only image, over it the guest programs that came
 * with the initramfs, over both the writable scratch disk. */
#ifndef CARREL_INIT_ROOT_H
#define CARREL_INIT_ROOT_H

/* Mounts one file system, making the directory if needed. `options` may be
 * NULL. Does not return on failure. */
void mount_or_fail(const char *type, const char *source, const char *target, unsigned long flags,
		   const char *options);

/* Builds the overlay at /newroot and everything a Linux
 * program expects below it (/proc, /sys with cgroup2, /dev with pts and shm,
 * /run), then makes it the root. Does not return on failure. */
void root_switch(const char *root_disk, const char *scratch_disk);

#endif
