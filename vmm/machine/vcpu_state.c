/* A vCPU's registers before its first instruction, in the order KVM wants. */
#include <errno.h>
#include <string.h>

#include "layout.h"
#include "msr.h"
#include "vcpu.h"

#define CR0_PE 0x1u
#define CR0_ET 0x10u
#define CR0_PG 0x80000000u
#define CR4_PAE 0x20u
#define EFER_LME 0x100u
#define EFER_LMA 0x400u
#define RFLAGS_FIXED 0x2u

#define APIC_LVT_LINT0 0x350
#define APIC_LVT_LINT1 0x360
#define APIC_MODE_NMI (4u << 8)
#define APIC_MODE_EXTINT (7u << 8)

int vcpu_cpuid(struct vcpu *v, const struct cpuid *supported, const struct cpuid_rules *rules,
	       struct problem *p)
{
	struct cpuid own = *supported;
	int err;

	cpuid_normalise(&own, rules);
	err = kvm_ioctl(v->fd, KVM_SET_CPUID2, &own);
	return err < 0 ? problem_set(p, err, "KVM_SET_CPUID2") : 0;
}

/* As a BIOS leaves them: LINT0 for the old interrupt controller, LINT1 for NMI. */
static int apic_reset(struct vcpu *v)
{
	struct kvm_lapic_state apic;
	uint32_t lint0 = APIC_MODE_EXTINT, lint1 = APIC_MODE_NMI;
	int err = kvm_ioctl(v->fd, KVM_GET_LAPIC, &apic);

	if (err < 0)
		return err;
	memcpy(apic.regs + APIC_LVT_LINT0, &lint0, sizeof(lint0));
	memcpy(apic.regs + APIC_LVT_LINT1, &lint1, sizeof(lint1));
	return kvm_ioctl(v->fd, KVM_SET_LAPIC, &apic);
}

int vcpu_reset(struct vcpu *v, struct problem *p)
{
	struct kvm_fpu fpu = { .fcw = 0x37f, .mxcsr = 0x1f80 };
	int err = msr_reset(v->fd);

	if (err)
		return problem_set(p, err, "KVM_SET_MSRS");
	err = kvm_ioctl(v->fd, KVM_SET_FPU, &fpu);
	if (err < 0)
		return problem_set(p, err, "KVM_SET_FPU");
	err = apic_reset(v);
	return err < 0 ? problem_set(p, err, "the local APIC of vCPU %u", v->index) : 0;
}

static void segments_64(struct kvm_sregs *s)
{
	const struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 0x10, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1
	};
	const struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 0x18, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1
	};

	s->cs = code;
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	s->tr = (struct kvm_segment){ .limit = 0xffff, .selector = 0, .type = 11, .present = 1 };
	s->gdt = (struct kvm_dtable){ .base = LAYOUT_GDT, .limit = 4 * 8 - 1 };
	s->idt = (struct kvm_dtable){ .base = LAYOUT_IDT, .limit = 7 };
	s->cr0 = CR0_PE | CR0_ET | CR0_PG;
	s->cr3 = LAYOUT_PML4;
	s->cr4 = CR4_PAE;
	s->efer = EFER_LME | EFER_LMA;
}

static void segments_pvh(struct kvm_sregs *s)
{
	const struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 0x10, .type = 11, .present = 1, .s = 1, .db = 1, .g = 1
	};
	const struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 0x18, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1
	};

	s->cs = code;
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	s->tr = (struct kvm_segment){ .limit = 0x67, .selector = 0, .type = 11, .present = 1 };
	s->cr0 = CR0_PE | CR0_ET;
	s->cr4 = 0;
}

int vcpu_enter(struct vcpu *v, const struct boot_entry *entry, struct problem *p)
{
	struct kvm_regs regs = { .rip = entry->address, .rflags = RFLAGS_FIXED };
	struct kvm_sregs sregs;
	int err;

	if (entry->pvh) {
		regs.rbx = LAYOUT_PVH_START;
	} else {
		regs.rsi = LAYOUT_ZERO_PAGE;
		regs.rsp = regs.rbp = LAYOUT_BOOT_STACK;
	}
	err = kvm_ioctl(v->fd, KVM_SET_REGS, &regs);
	if (err < 0)
		return problem_set(p, err, "KVM_SET_REGS");
	err = kvm_ioctl(v->fd, KVM_GET_SREGS, &sregs);
	if (err < 0)
		return problem_set(p, err, "KVM_GET_SREGS");
	if (entry->pvh)
		segments_pvh(&sregs);
	else
		segments_64(&sregs);
	err = kvm_ioctl(v->fd, KVM_SET_SREGS, &sregs);
	return err < 0 ? problem_set(p, err, "KVM_SET_SREGS") : 0;
}
