/* Model-specific registers of a vCPU: what a processor has at reset as far as
 * Linux relies on it. Saving and restoring them is vmm/snapshot's.
 */
#ifndef CARREL_MACHINE_MSR_H
#define CARREL_MACHINE_MSR_H

#include <linux/kvm.h>
#include <stdint.h>

enum {
	/* KVM takes no more in one call. */
	MSR_CHUNK_MAX = 256,
};

struct msr_chunk {
	uint32_t nmsrs, padding; /* as struct kvm_msrs */
	struct kvm_msr_entry entries[MSR_CHUNK_MAX];
};

/* After KVM_SET_CPUID2: since Linux 6.13 registers that CPUID does not announce read as zero. */
int msr_reset(int vcpu_fd);

/* All of the chunk; -EIO where KVM stops at one of them. */
int msr_set(int vcpu_fd, struct msr_chunk *chunk);

#endif
