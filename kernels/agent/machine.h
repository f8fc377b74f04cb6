/* What makes this guest another machine than the snapshot it came from: clock,
 * randomness, names. Each returns 0 or a negative errno; none is called unless
 * opt.system. */
#ifndef CARREL_AGENT_MACHINE_H
#define CARREL_AGENT_MACHINE_H

#include <stddef.h>
#include <stdint.h>

int machine_set_clock(int64_t unix_ns);
/* Mixes bytes into the guest kernel's pool, credits them, and reseeds its generator. */
int machine_add_entropy(const uint8_t *bytes, size_t len);
int machine_set_hostname(const char *name);
/* Both by a file of run bound over what the system shows. */
int machine_set_id(const char *run, const char *machine_id);
int machine_set_boot_id(const char *run, const char *boot_id);

/* Process 1: file systems that are not yet mounted, and the loopback device. */
int machine_prepare(void);

#endif
