/* What set.c (making) and set_open.c (checking) share. */
#ifndef CARREL_SET_INNER_H
#define CARREL_SET_INNER_H

#include "disk.h"
#include "set.h"

/* 507 for a full disk, else 500: "WHAT (PATH): errno". */
int set_fault(struct fault *f, int err, const char *what, const char *path);
/* The sum of a manifest's members but the sum itself. False: out of memory. */
bool set_manifest_sum(json_t *manifest, char ret[DISK_HASH_SIZE]);
int set_file(const struct set *s, const char *name, int flags, int *ret, struct fault *f);

#endif
