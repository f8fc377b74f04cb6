/* The virtual machine as KVM sees it, set up in the one order that works:
 *   1. the capabilities we need, each by name   2. the machine
 *   3. addresses of KVM's own pages             4. interrupt chips and timer
 *   5. memory                                   then vCPUs (vcpu.h)
 */
#ifndef CARREL_MACHINE_KVM_H
#define CARREL_MACHINE_KVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "problem.h"

struct kvm {
	int dev_fd; /* the caller's */
	int vm_fd;
	size_t run_size;     /* of struct kvm_run's mapping */
	bool deadline_timer; /* the in-kernel APIC has TSC-deadline mode */
};

/* Steps 1 to 4. dev_fd: an open /dev/kvm. */
int kvm_new(struct kvm *ret, int dev_fd, struct problem *p);
/* Legal for one that is not open: vm_fd -1. */
void kvm_free(struct kvm *k);

/* Step 5. Where memory is tracked KVM keeps a log of the pages that vCPUs write. */
int kvm_memory(const struct kvm *k, const struct guest_memory *m, struct problem *p);
/* That log, as marks of the memory; KVM's own begins anew. */
int kvm_dirty_collect(const struct kvm *k, const struct guest_memory *m);

/* Writing to fd, an eventfd, raises the interrupt gsi. */
int kvm_irqfd(const struct kvm *k, int fd, unsigned gsi);
/* A guest's 4-byte write of value to address counts on fd and does not leave the kernel. */
int kvm_ioeventfd(const struct kvm *k, int fd, uint64_t address, uint32_t value);

/* ioctl() that is repeated after a signal. 0 or what it returned, or negative errno. */
int kvm_ioctl(int fd, unsigned long request, void *arg);

#endif
