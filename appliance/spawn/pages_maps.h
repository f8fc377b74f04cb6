/* Where guest memory lies in QEMU, from /proc/PID: the mapping of the snapshot's
 * memory file, and what the preload mapped over parts of it at a resume. */
#ifndef CARREL_SPAWN_PAGES_MAPS_H
#define CARREL_SPAWN_PAGES_MAPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum pages_kind {
	PAGES_OF_SNAPSHOT, /* private once it was written to */
	PAGES_OF_FILE,     /* of an earlier pause: private as a whole */
	PAGES_OF_NOTHING,  /* zeros of an earlier pause, private as a whole */
};

struct pages_part {
	uint64_t start, end; /* addresses */
	enum pages_kind kind;
};

struct pages_maps {
	struct pages_part *parts; /* ascending, without a gap; allocated */
	size_t count;
	uint64_t base, bytes; /* of guest memory */
	int ram_fd;           /* the snapshot's file, for reading */
};

/* proc: /proc/PID, open. The file's own size is the memory's. 0, -EBADMSG: not
 * mapped as the preload does it, or another negative errno. */
int pages_maps_read(int proc, dev_t ram_dev, ino_t ram_ino, struct pages_maps *ret);
void pages_maps_free(struct pages_maps *m);

#endif
