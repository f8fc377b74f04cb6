/* The machine: memory, vCPUs, devices and their wiring, put together once.
 *
 * Everything here is the main thread's, with the bus lock held; machine_pause()
 * and machine_free() give the lock up while they wait for vCPUs, which may need
 * it to come to rest.
 */
#ifndef CARREL_MACHINE_MACHINE_H
#define CARREL_MACHINE_MACHINE_H

#include <stdbool.h>

#include "acpi.h"
#include "bus.h"
#include "control.h"
#include "kvm.h"
#include "loop.h"
#include "memory.h"
#include "problem.h"
#include "serial.h"
#include "vcpu.h"

struct virtio_device;

enum {
	/* Two disks, the link's ports, entropy, the balloon. */
	MACHINE_DEVICES_MAX = 5,
};

/* Files of a START request that are devices: a snapshot's machine wants the same. */
#define MACHINE_DEVICE_FILES (1u << CONTROL_ROOTFS | 1u << CONTROL_SCRATCH | 1u << CONTROL_AGENT)

enum machine_end {
	MACHINE_GOES_ON,
	MACHINE_POWERED_OFF,
	MACHINE_RESET, /* asked for by ACPI or by a triple fault: there is no second boot */
	MACHINE_FAILED,
};

struct machine {
	struct bus bus;
	struct loop *loop;
	struct kvm kvm;
	struct guest_memory memory;
	int memory_fd;      /* the file it is mapped from; -1: none */
	struct cpuid cpuid; /* what KVM offers */
	struct vcpu vcpus[ACPI_VCPUS_MAX];
	unsigned vcpu_count;
	struct serial serial;
	int console_fd, serial_irq_fd;
	struct virtio_device *devices[MACHINE_DEVICES_MAX];
	unsigned device_count;
	struct virtio_device *balloon; /* one of them */
	uint32_t files;                /* that devices were made of */
	int event_fd;                  /* raises the interrupt that says: the generation id changed */
	enum control_state state;

	/* Set by a vCPU, under the bus lock; end_fd wakes the loop. */
	enum machine_end end;
	int end_fd;
	void (*ended)(void *arg, enum machine_end end);
	void *ended_arg;
};

/* A machine at KVM, and nothing in it. kvm_fd stays the caller's; ended is called on the loop, once. */
int machine_new(struct machine *m, int kvm_fd, void (*ended)(void *arg, enum machine_end end), void *arg,
		struct problem *p);
void machine_free(struct machine *m);

/* Loads the files of a START request, and is paused; takes those of them that it needs
 * longer. -EINVAL: not an empty machine, or sizes it cannot have. After another error it is fit for
 * machine_free() only. */
int machine_boot(struct machine *m, struct control_message *message, struct problem *p);

/* For a snapshot's loader: all of the machine but the content of registers. Memory is the
 * message's file MEMORY, tracked; or empty where there is none. */
int machine_assemble(struct machine *m, struct control_message *message, uint64_t memory_size, unsigned vcpus,
		     struct problem *p);
/* A new generation id in guest memory; tell: and an interrupt that says so. */
int machine_generation(struct machine *m, bool tell);
/* Of one vCPU of this machine. */
struct cpuid_rules machine_cpuid_rules(const struct machine *m, unsigned vcpu);

/* Both are harmless for a machine that is that already; -EINVAL for an empty or ended one. */
int machine_pause(struct machine *m);
int machine_resume(struct machine *m);

const char *machine_end_text(enum machine_end end);

#endif
