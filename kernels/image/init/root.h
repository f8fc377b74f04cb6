/* The guest's root: read-only image below, writable scratch disk above. */
#ifndef CARREL_INIT_ROOT_H
#define CARREL_INIT_ROOT_H

/* Mounts one file system, making the directory if needed. `options` may be
 * NULL. Does not return on failure. */
void mount_or_fail(const char *type, const char *source, const char *target, unsigned long flags,
		   const char *options);

/* Builds the overlay of the two disks at /newroot and everything a Linux
 * program expects below it (/proc, /sys with cgroup2, /dev with pts and shm,
 * /run), then makes it the root. Does not return on failure. */
void root_switch(const char *root_disk, const char *scratch_disk);

#endif
