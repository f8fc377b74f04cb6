/* A file as a block device, and the ext4 in it as a mount that is attached
 * nowhere. The device ends with its last mount. */
#ifndef CARREL_LOOP_H
#define CARREL_LOOP_H

#include <stdbool.h>

/* The mount's descriptor, or a negative errno. Writable: deletions are passed on as holes. */
int loop_mount(int file_fd, bool writable);

#endif
