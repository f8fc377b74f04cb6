/* System call filters. QEMU and carrel-vmm bring their own. */
#ifndef CARREL_JAIL_FILTER_H
#define CARREL_JAIL_FILTER_H

/* The keeper's: what its event loop needs, nothing more. Any other call fails
 * with EPERM. 0 or a negative errno. Cannot be undone. */
int jail_filter_keeper(void);
/* Of all that runs in a sandbox of the engine jail: what programs need (jail_filter_space.c). The same. */
int jail_filter_space(void);

#endif
