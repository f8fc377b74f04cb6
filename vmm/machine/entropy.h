/* Random bytes of the host's kernel, by the call itself: newer C libraries keep a pool of their own behind getrandom(),
 * and what they ask of the kernel for it the filters forbid. */
#ifndef CARREL_MACHINE_ENTROPY_H
#define CARREL_MACHINE_ENTROPY_H

#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* As getrandom() without flags. */
static inline ssize_t entropy_get(void *ret, size_t size)
{
	return syscall(SYS_getrandom, ret, size, 0);
}

#endif
