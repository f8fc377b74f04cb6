#include "vcpu_save.h"

#include <errno.h>
#include <string.h>

#include "vmm/machine/msr.h"

#define MSR_IA32_TSC 0x10
#define MSR_MCG_CTL 0x17b
#define MSR_TSC_DEADLINE 0x6e0
#define CPUID_1_ECX_XSAVE (1u << 26)

/* KVM lists it where it refuses to set it: it is there only with a capability no guest gets. */
static bool msr_is_skipped(uint32_t index)
{
	return index == MSR_MCG_CTL;
}

/* Which registers there are is /dev/kvm's to say; of KVM's own range too. */
static int msrs_list(int dev_fd, struct msr_chunk *ret)
{
	struct {
		struct kvm_msr_list head;
		uint32_t indices[STATE_MSRS_MAX];
	} list = { .head = { .nmsrs = STATE_MSRS_MAX } };
	int err = kvm_ioctl(dev_fd, KVM_GET_MSR_INDEX_LIST, &list);

	if (err < 0)
		return err;
	ret->nmsrs = 0;
	for (uint32_t i = 0; i < list.head.nmsrs; i++)
		if (!msr_is_skipped(list.indices[i]))
			ret->entries[ret->nmsrs++] = (struct kvm_msr_entry){ .index = list.indices[i] };
	return 0;
}

/* KVM stops at the first register that this vCPU does not have: it is left out. */
static int msrs_get(int vcpu_fd, struct msr_chunk *chunk, struct state_vcpu *ret)
{
	ret->msr_count = 0;
	while (chunk->nmsrs > 0) {
		uint32_t taken;
		int n = kvm_ioctl(vcpu_fd, KVM_GET_MSRS, chunk);

		if (n < 0)
			return n;
		memcpy(ret->msrs + ret->msr_count, chunk->entries, (uint32_t)n * sizeof(*ret->msrs));
		ret->msr_count += (uint32_t)n;
		taken = (uint32_t)n < chunk->nmsrs ? (uint32_t)n + 1 : (uint32_t)n;
		chunk->nmsrs -= taken;
		memmove(chunk->entries, chunk->entries + taken, chunk->nmsrs * sizeof(*chunk->entries));
	}
	return 0;
}

static struct kvm_msr_entry *msr_find(struct state_vcpu *s, uint32_t index)
{
	for (uint32_t i = 0; i < s->msr_count; i++)
		if (s->msrs[i].index == index)
			return &s->msrs[i];
	return NULL;
}

/* A deadline of zero can be a tick that was due while we saved: an early one does no harm, a lost one
 * leaves the guest asleep. Where the timer is not in that mode KVM drops the write. */
static void deadline_fix(struct state_vcpu *s)
{
	struct kvm_msr_entry *deadline = msr_find(s, MSR_TSC_DEADLINE), *tsc = msr_find(s, MSR_IA32_TSC);

	if (deadline && tsc && deadline->data == 0)
		deadline->data = tsc->data;
}

static int msrs_save(const struct vcpu *v, int dev_fd, struct state_vcpu *ret)
{
	_Static_assert((int)STATE_MSRS_MAX <= (int)MSR_CHUNK_MAX, "one chunk takes them");
	struct msr_chunk chunk = { 0 };
	int err = msrs_list(dev_fd, &chunk);

	if (!err)
		err = msrs_get(v->fd, &chunk, ret);
	if (!err)
		deadline_fix(ret);
	return err;
}

static int cpuid_save(const struct vcpu *v, struct state_vcpu *ret)
{
	struct cpuid c = { .nent = CPUID_ENTRIES_MAX };
	int err = kvm_ioctl(v->fd, KVM_GET_CPUID2, &c);

	if (err < 0)
		return err;
	if (c.nent > CPUID_ENTRIES_MAX)
		return -E2BIG;
	memcpy(ret->cpuid, c.entries, c.nent * sizeof(*ret->cpuid));
	ret->cpuid_count = c.nent;
	return 0;
}

/* One KVM call of a list; the first that fails is named. */
struct step {
	unsigned long request;
	const char *name;
	void *arg;
};

static int steps_run(int fd, const struct step *steps, size_t count, struct problem *p)
{
	for (size_t i = 0; i < count; i++) {
		int err = kvm_ioctl(fd, steps[i].request, steps[i].arg);

		if (err < 0)
			return problem_set(p, err, "%s", steps[i].name);
	}
	return 0;
}

#define STEP(name, arg)                       \
	{                                     \
		KVM_##name, "KVM_" #name, arg \
	}
#define STEPS(list) list, sizeof(list) / sizeof(*(list))

/* The order matters: MP_STATE first, it may change APIC and registers; events last, the others may. */
int vcpu_save(const struct vcpu *v, int dev_fd, struct state_vcpu *ret, struct problem *p)
{
	const struct step before[] = { STEP(GET_MP_STATE, &ret->mp), STEP(GET_REGS, &ret->regs),
				       STEP(GET_SREGS, &ret->sregs), STEP(GET_XSAVE, ret->xsave),
				       STEP(GET_XCRS, &ret->xcrs),   STEP(GET_DEBUGREGS, &ret->debugregs),
				       STEP(GET_LAPIC, &ret->lapic) };
	const struct step after[] = { STEP(GET_VCPU_EVENTS, &ret->events) };
	int err = steps_run(v->fd, STEPS(before), p), khz;

	if (err)
		return err;
	khz = kvm_ioctl(v->fd, KVM_GET_TSC_KHZ, NULL);
	if (khz < 0)
		return problem_set(p, khz, "KVM_GET_TSC_KHZ");
	ret->tsc_khz = (uint32_t)khz;
	err = cpuid_save(v, ret);
	if (err)
		return problem_set(p, err, "KVM_GET_CPUID2");
	err = msrs_save(v, dev_fd, ret);
	if (err)
		return problem_set(p, err, "KVM_GET_MSRS");
	return steps_run(v->fd, STEPS(after), p);
}

static bool guest_has_xsave(const struct state_vcpu *s)
{
	for (uint32_t i = 0; i < s->cpuid_count; i++)
		if (s->cpuid[i].function == 1)
			return s->cpuid[i].ecx & CPUID_1_ECX_XSAVE;
	return false;
}

/* KVM drops a deadline unless the APIC's timer is in that mode and the TSC is what it will be: so
 * deadlines come after everything else, in a call of their own. */
static int msrs_load(struct vcpu *v, const struct state_vcpu *s)
{
	struct msr_chunk first = { 0 }, deadlines = { 0 };
	int err;

	for (uint32_t i = 0; i < s->msr_count; i++) {
		struct msr_chunk *chunk = s->msrs[i].index == MSR_TSC_DEADLINE ? &deadlines : &first;

		chunk->entries[chunk->nmsrs++] = s->msrs[i];
	}
	err = msr_set(v->fd, &first);
	return err ? err : msr_set(v->fd, &deadlines);
}

/* Parts per million two clocks may differ without a guest's noticing. */
enum { TSC_TOLERANCE_PPM = 250 };

static int tsc_load(struct vcpu *v, uint32_t khz)
{
	int now = kvm_ioctl(v->fd, KVM_GET_TSC_KHZ, NULL);
	uint64_t apart;
	int err;

	if (now < 0)
		return now;
	apart = khz > (uint32_t)now ? khz - (uint32_t)now : (uint32_t)now - khz;
	if (apart * 1000000 <= (uint64_t)now * TSC_TOLERANCE_PPM)
		return 0;
	err = kvm_ioctl(v->fd, KVM_SET_TSC_KHZ, (void *)(unsigned long)khz);
	return err < 0 ? err : 0;
}

static int cpuid_load(struct vcpu *v, const struct state_vcpu *s, const struct cpuid_rules *rules,
		      struct problem *p)
{
	struct cpuid c = { .nent = s->cpuid_count };

	memcpy(c.entries, s->cpuid, s->cpuid_count * sizeof(*s->cpuid));
	return vcpu_cpuid(v, &c, rules, p);
}

/* CPUID before all that depends on it; SREGS before LAPIC, it carries the APIC's base; LAPIC before
 * MSRs, see there; registers before events, setting them clears pending ones. */
int vcpu_load(struct vcpu *v, const struct state_vcpu *s, const struct cpuid_rules *rules, struct problem *p)
{
	struct state_vcpu c = *s; /* KVM takes pointers to what it does not change as if it did */
	const struct step registers[] = { STEP(SET_MP_STATE, &c.mp), STEP(SET_REGS, &c.regs),
					  STEP(SET_SREGS, &c.sregs), STEP(SET_XSAVE, c.xsave) };
	const struct step xcrs[] = { STEP(SET_XCRS, &c.xcrs) };
	const struct step apic[] = { STEP(SET_DEBUGREGS, &c.debugregs), STEP(SET_LAPIC, &c.lapic) };
	const struct step events[] = { STEP(SET_VCPU_EVENTS, &c.events) };
	int err = tsc_load(v, s->tsc_khz);

	if (err)
		return problem_set(p, err, "this host cannot run a TSC of %u kHz", s->tsc_khz);
	err = cpuid_load(v, s, rules, p);
	if (!err)
		err = steps_run(v->fd, STEPS(registers), p);
	if (!err && guest_has_xsave(s))
		err = steps_run(v->fd, STEPS(xcrs), p);
	if (!err)
		err = steps_run(v->fd, STEPS(apic), p);
	if (err)
		return err;
	err = msrs_load(v, s);
	if (err)
		return problem_set(p, err, "KVM_SET_MSRS");
	return steps_run(v->fd, STEPS(events), p);
}
