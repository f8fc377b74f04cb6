/* An image that sandboxes of a template run: the directory that
 * kernels/image/build made, opened once. Descriptors stay open for the core's
 * life, so that a cache that is cleaned cannot pull files from under a start.
 */
#ifndef CARREL_IMAGE_H
#define CARREL_IMAGE_H

#include <jansson.h>

#include "../fault.h"

struct image {
	char hash[72];
	char template_name[64];
	char built_at[32];
	json_t *recipe;   /* template.json; references on the hub's thread only */
	unsigned disk_mb; /* size of the ready-made scratch disk */
	int rootfs_fd, scratch_fd, kernel_fd, initrd_fd, guest_fd;
	struct image *next; /* images.h */
};

/* On failure nothing is open. */
int image_open(const char *dir, struct image *ret, struct fault *f);
void image_close(struct image *image);

#endif
