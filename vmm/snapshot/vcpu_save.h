/* A vCPU's state out of KVM and into it again; the vCPU is parked. */
#ifndef CARREL_SNAPSHOT_VCPU_SAVE_H
#define CARREL_SNAPSHOT_VCPU_SAVE_H

#include "state.h"

int vcpu_save(const struct vcpu *v, int dev_fd, struct state_vcpu *ret, struct problem *p);

/* rules: applied to the saved CPUID again, so that no file gives a guest what boot does not. */
int vcpu_load(struct vcpu *v, const struct state_vcpu *s, const struct cpuid_rules *rules, struct problem *p);

#endif
