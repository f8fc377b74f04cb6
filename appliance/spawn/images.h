/* The images of the engine jail's sandboxes: each mounted once, read-only, in a
 * mount namespace that is carrel-spawn's alone, so that all its sandboxes share what
 * the host has read of it. They are gone with carrel-spawn; sandboxes that run keep
 * what they use.
 */
#ifndef CARREL_SPAWN_IMAGES_H
#define CARREL_SPAWN_IMAGES_H

#include <sys/types.h>

enum {
	/* Images in use at once: two for each build of each template that still runs. */
	IMAGES_MAX = 32,
};

struct images {
	int dir_fd; /* where they are mounted; -1: nothing was yet */
	struct image_mount {
		dev_t dev; /* of the file */
		ino_t ino;
		int fd; /* of the mount; 0: free */
		unsigned long used;
	} mounts[IMAGES_MAX];
	unsigned long uses;
};

/* A mount of the image in file_fd for one sandbox, attached nowhere: a descriptor, or a negative errno.
 * run_dir: the runtime directory, root's. */
int images_mount(struct images *i, const char *run_dir, int file_fd);

#endif
