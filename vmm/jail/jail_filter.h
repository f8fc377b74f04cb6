/* The keeper's own system call filter: what its event loop needs, nothing
 * more. Any other call fails with EPERM. QEMU brings its own (-sandbox). */
#ifndef CARREL_JAIL_FILTER_H
#define CARREL_JAIL_FILTER_H

/* 0 or a negative errno. Cannot be undone. */
int jail_filter_keeper(void);

#endif
