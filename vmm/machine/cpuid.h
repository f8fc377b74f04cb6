/* What the guest is told about its processor: KVM's supported CPUID, made the
 * same for every start on one host and stripped of what a sandbox has no use
 * for: virtualisation of its own above all, performance counters, SGX, AMX.
 */
#ifndef CARREL_MACHINE_CPUID_H
#define CARREL_MACHINE_CPUID_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

enum { CPUID_ENTRIES_MAX = 256 }; /* KVM's own limit */

struct cpuid_rules {
	uint32_t apic_id; /* of this vCPU */
	uint32_t vcpus;
	bool deadline_timer;
	bool no_xsave; /* see cpuid_host_emulated() */
};

struct cpuid {
	uint32_t nent, padding; /* as struct kvm_cpuid2 */
	struct kvm_cpuid_entry2 entries[CPUID_ENTRIES_MAX];
};

/* What KVM offers, from /dev/kvm; 0 or negative errno. */
int cpuid_supported(int dev_fd, struct cpuid *ret);

/* Vendor, family, model and stepping are the same in both. */
bool cpuid_same_model(const struct kvm_cpuid_entry2 *a, uint32_t a_count, const struct kvm_cpuid_entry2 *b,
		      uint32_t b_count);

/* The rules, over any table; needs no KVM. */
void cpuid_normalise(struct cpuid *c, const struct cpuid_rules *rules);

/* The host is QEMU's software emulation, whose SVM does not intercept XSETBV: a
 * guest's XCR0 would be the host's, and KVM would not know it (KVM_GET_XCRS says
 * 1 for ever, Linux warns "XSAVE consistency problem"). There the guest must not
 * see XSAVE, nor what needs it. */
bool cpuid_host_emulated(void);

#endif
