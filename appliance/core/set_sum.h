/* The sum that a set's manifest carries of itself: of all its members but "sum", however they are laid out. Also for
 * carrel restore, which gives a paused sandbox's disk its new inode. */
#ifndef CARREL_SET_SUM_H
#define CARREL_SET_SUM_H

#include <jansson.h>
#include <stdbool.h>

#include "disk.h"

/* False: out of memory. */
bool set_manifest_sum(json_t *manifest, char ret[DISK_HASH_SIZE]);

#endif
