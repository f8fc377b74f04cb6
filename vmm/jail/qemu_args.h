/* The argument list of QEMU, from a struct: one flat list.
 *
 * A snapshot can be resumed only by the same list (devices, memory, CPU), so
 * every change to it that a guest could see raises QEMU_ARGS_REVISION in
 * vmm/qemu_revision.h. Descriptors are those of keeper_proto.h. Strings are
 * owned by struct qemu_args; nothing is allocated.
 */
#ifndef CARREL_QEMU_ARGS_H
#define CARREL_QEMU_ARGS_H

#include <stddef.h>

#include "keeper_proto.h"

enum { QEMU_ARGS_MAX = 96, QEMU_TEXT_MAX = 8192 };

struct qemu_args {
	char *argv[QEMU_ARGS_MAX + 1];
	int argc;
	char text[QEMU_TEXT_MAX];
	size_t used;
	int error; /* -E2BIG once something did not fit */
};

/* One more argument; too much shows in error. */
void qemu_args_add(struct qemu_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 0, or -E2BIG. config has been checked. */
int qemu_args_build(struct qemu_args *ret, const struct keeper_config *config);

#endif
