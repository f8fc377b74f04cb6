/* What set.c (making) and set_open.c (checking) share. */
#ifndef CARREL_SET_INNER_H
#define CARREL_SET_INNER_H

#include "set.h"
#include "set_sum.h"

/* 507 for a full disk, else 500: "WHAT (PATH): errno". */
int set_fault(struct fault *f, int err, const char *what, const char *path);
int set_file(const struct set *s, const char *name, int flags, int *ret, struct fault *f);

#endif
