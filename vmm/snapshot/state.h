/* The state file of a snapshot: everything of a machine but its memory, as one
 * struct of fixed size and a vCPU's record for each vCPU behind it.
 *
 * Whoever wrote it, it is read as hostile input: what state_check() lets pass has
 * counts that hold, and nothing more is believed. Values go to KVM and to the
 * devices, which check what is theirs.
 */
#ifndef CARREL_SNAPSHOT_STATE_H
#define CARREL_SNAPSHOT_STATE_H

#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/machine/machine.h"
#include "vmm/machine/problem.h"
#include "vmm/machine/serial.h"
#include "vmm/virtio/state.h"

enum {
	STATE_VERSION = 1, /* any change of the structs below makes it the next */
	STATE_MSRS_MAX = 256,
	STATE_CHIPS = 3, /* both old interrupt controllers, the IOAPIC */
};

struct state_vcpu {
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	uint8_t xsave[4096]; /* struct kvm_xsave, whose end newer headers leave open */
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
	struct kvm_vcpu_events events;
	struct kvm_mp_state mp;
	uint32_t tsc_khz;
	uint32_t cpuid_count, msr_count;
	struct kvm_cpuid_entry2 cpuid[CPUID_ENTRIES_MAX];
	struct kvm_msr_entry msrs[STATE_MSRS_MAX];
};
_Static_assert(sizeof(struct state_vcpu) == 144 + 312 + 4096 + 392 + 128 + 1024 + 64 + 16 +
						    CPUID_ENTRIES_MAX * 40 + STATE_MSRS_MAX * 16,
	       "saved in files");

struct state_vm {
	struct kvm_pit_state2 pit;
	struct kvm_clock_data clock;
	struct kvm_irqchip chips[STATE_CHIPS];
	struct serial_state serial;
};
_Static_assert(sizeof(struct state_vm) == 112 + 48 + 3 * 520 + 8, "saved in files");

struct state_header {
	char magic[8];
	uint32_t version;
	uint32_t vcpus;
	uint64_t size; /* of the whole file */
	uint64_t sum;  /* CRC-64 of the file with this field zero */
	uint64_t memory_size;
	uint32_t files; /* of the START request, those that devices are made of */
	uint32_t devices;
};
_Static_assert(sizeof(struct state_header) == 48, "saved in files");

struct state {
	struct state_header header;
	struct state_vm vm;
	struct virtio_device_state devices[MACHINE_DEVICES_MAX];
	struct state_vcpu vcpu[];
};
_Static_assert(offsetof(struct state, vcpu) % 8 == 0, "records are aligned");

/* Zeroed, for that many vCPUs; NULL: no memory. free() it. */
struct state *state_new(unsigned vcpus);
size_t state_size(unsigned vcpus);

/* Fills in magic, version, size and sum, when all else is there. */
void state_seal(struct state *s);

/* 0, or -EINVAL: bytes are no state file of this version, whole and with counts that hold. */
int state_check(const struct state *s, size_t size, struct problem *p);

/* Write and read of a whole file, from its start. The header is written last: a file
 * that a killed monitor left behind is none. */
int state_write(const struct state *s, int fd);
int state_read(int fd, struct state **ret, struct problem *p);

#endif
