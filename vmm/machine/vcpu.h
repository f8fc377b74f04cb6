/* One virtual processor: a KVM descriptor and the thread that runs it.
 *
 * A thread is either running (inside KVM_RUN, or handling an exit under the bus
 * lock) or parked. It parks only where nothing is half done: the answer to a
 * port or memory access is first taken in by one more KVM_RUN that executes
 * nothing. While it is parked, its state is the main thread's to read and write.
 *
 * All calls come from the main thread, without the bus lock: a vCPU may need it
 * to come to rest.
 */
#ifndef CARREL_MACHINE_VCPU_H
#define CARREL_MACHINE_VCPU_H

#include <linux/kvm.h>
#include <pthread.h>
#include <stdbool.h>

#include "boot.h"
#include "bus.h"
#include "cpuid.h"
#include "kvm.h"
#include "problem.h"

/* Why a vCPU can go on no longer. */
enum vcpu_end {
	VCPU_RUNS,
	VCPU_SHUTDOWN,     /* a triple fault: how this guest resets itself */
	VCPU_KVM_ERROR,    /* KVM_RUN failed, or could not emulate an instruction */
	VCPU_UNKNOWN_EXIT, /* one that this machine does not have */
};

struct vcpu {
	int fd;
	unsigned index;
	struct kvm_run *run;
	size_t run_size;
	struct bus *bus;
	/* On the vCPU's thread, once, before it parks for good. */
	void (*ended)(void *arg, struct vcpu *v, enum vcpu_end end);
	void *arg;

	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* what is below */
	pthread_cond_t changed;
	bool wanted; /* to run */
	bool parked;
	bool quit;
	int filter_error; /* it could not enter its filter, and ended */
};

/* Descriptor, mapping, thread (parked). ended and its arg are set by the caller before. */
int vcpu_new(struct vcpu *v, const struct kvm *k, struct bus *bus, unsigned index, struct problem *p);
/* Ends the thread. Legal for one that is zero but for fd -1. */
void vcpu_free(struct vcpu *v);

/* CPUID first of all state, then registers of a processor at reset and a place to begin. */
int vcpu_cpuid(struct vcpu *v, const struct cpuid *supported, const struct cpuid_rules *rules,
	       struct problem *p);
int vcpu_reset(struct vcpu *v, struct problem *p);
/* The first vCPU; the others wait for its wake-up. */
int vcpu_enter(struct vcpu *v, const struct boot_entry *entry, struct problem *p);

/* A parked one goes on; its guest is told that it stood still, or its watchdog would take the time for
 * a hang of its own. */
void vcpu_run(struct vcpu *v);
/* Asks it to park, and waits until it has. */
void vcpu_ask_park(struct vcpu *v);
void vcpu_wait_parked(struct vcpu *v);

/* Once in the process, before the first vCPU: the signal that interrupts KVM_RUN. */
int vcpu_signal_setup(void);

#endif
