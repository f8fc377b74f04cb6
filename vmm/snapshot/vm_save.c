#include "vm_save.h"

#include <string.h>

/* Chips in KVM's numbers: master and slave PIC, IOAPIC. */
_Static_assert(KVM_IRQCHIP_PIC_MASTER == 0 && KVM_IRQCHIP_PIC_SLAVE == 1 && KVM_IRQCHIP_IOAPIC == 2,
	       "their places in the file");

int vm_save(const struct machine *m, struct state_vm *ret, struct problem *p)
{
	int err = kvm_ioctl(m->kvm.vm_fd, KVM_GET_PIT2, &ret->pit);

	if (err < 0)
		return problem_set(p, err, "KVM_GET_PIT2");
	err = kvm_ioctl(m->kvm.vm_fd, KVM_GET_CLOCK, &ret->clock);
	if (err < 0)
		return problem_set(p, err, "KVM_GET_CLOCK");
	for (uint32_t i = 0; i < STATE_CHIPS; i++) {
		ret->chips[i].chip_id = i;
		err = kvm_ioctl(m->kvm.vm_fd, KVM_GET_IRQCHIP, &ret->chips[i]);
		if (err < 0)
			return problem_set(p, err, "KVM_GET_IRQCHIP %u", i);
	}
	ret->serial = m->serial.state;
	return 0;
}

/* Flags 0: the clock goes on from where it was. With the saved flags a host of 5.16
 * and up would add the time that passed, and CLOCK_MONOTONIC would jump. */
static int clock_load(int vm_fd, const struct kvm_clock_data *saved)
{
	struct kvm_clock_data clock = { .clock = saved->clock };

	return kvm_ioctl(vm_fd, KVM_SET_CLOCK, &clock);
}

int vm_load(struct machine *m, const struct state_vm *s, struct problem *p)
{
	struct kvm_pit_state2 pit = s->pit;
	int err = kvm_ioctl(m->kvm.vm_fd, KVM_SET_PIT2, &pit);

	if (err < 0)
		return problem_set(p, err, "KVM_SET_PIT2");
	err = clock_load(m->kvm.vm_fd, &s->clock);
	if (err < 0)
		return problem_set(p, err, "KVM_SET_CLOCK");
	for (uint32_t i = 0; i < STATE_CHIPS; i++) {
		struct kvm_irqchip chip = s->chips[i];

		chip.chip_id = i;
		err = kvm_ioctl(m->kvm.vm_fd, KVM_SET_IRQCHIP, &chip);
		if (err < 0)
			return problem_set(p, err, "KVM_SET_IRQCHIP %u", i);
	}
	m->serial.state = s->serial;
	return 0;
}
