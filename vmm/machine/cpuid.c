#include "cpuid.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>

#include "kvm.h"

#define BIT(n) (1u << (n))

/* Leaf 1, ECX */
#define C1_PDCM BIT(15)
#define C1_VMX BIT(5)
#define C1_MONITOR BIT(3)
#define C1_DEADLINE BIT(24)
#define C1_HYPERVISOR BIT(31)
/* FMA, XSAVE, OSXSAVE, AVX, F16C */
#define C1_XSAVE_FAMILY (BIT(12) | BIT(26) | BIT(27) | BIT(28) | BIT(29))
/* Leaf 1, EDX */
#define D1_HTT BIT(28)
/* Leaf 7, subleaf 0 */
#define B7_SGX BIT(2)
#define C7_SGX_LC BIT(30)
#define D7_AMX (BIT(22) | BIT(24) | BIT(25)) /* bf16, tile, int8 */
/* AVX2 and every AVX-512 of EBX; VBMI to VPOPCNTDQ with VAES of ECX; 4VNNIW, 4FMAPS, VP2INTERSECT, FP16 of
 * EDX */
#define B7_AVX (BIT(5) | BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31))
#define C7_AVX (BIT(1) | BIT(3) | BIT(6) | BIT(9) | BIT(10) | BIT(11) | BIT(12) | BIT(14))
#define C7_OSPKE BIT(4)
#define D7_AVX (BIT(2) | BIT(3) | BIT(8) | BIT(23))
/* Leaf 0xd, subleaf 0, EAX: the tiles' states */
#define AD_AMX (BIT(17) | BIT(18))
/* Leaf 0x80000001, ECX: SVM, IBS, SKINIT, LWP, TOPOEXT, three kinds of counters */
#define C81_DROPPED (BIT(2) | BIT(10) | BIT(12) | BIT(15) | BIT(22) | BIT(23) | BIT(24) | BIT(28))
#define C81_AVX (BIT(11) | BIT(16)) /* XOP, FMA4 */

int cpuid_supported(int dev_fd, struct cpuid *ret)
{
	_Static_assert(offsetof(struct cpuid, entries) == sizeof(struct kvm_cpuid2), "KVM's layout");
	int err;

	ret->nent = CPUID_ENTRIES_MAX;
	ret->padding = 0;
	err = kvm_ioctl(dev_fd, KVM_GET_SUPPORTED_CPUID, ret);
	return err < 0 ? err : 0;
}

static const struct kvm_cpuid_entry2 *find(const struct kvm_cpuid_entry2 *e, uint32_t count,
					   uint32_t function)
{
	for (uint32_t i = 0; i < count; i++)
		if (e[i].function == function)
			return &e[i];
	return NULL;
}

bool cpuid_same_model(const struct kvm_cpuid_entry2 *a, uint32_t a_count, const struct kvm_cpuid_entry2 *b,
		      uint32_t b_count)
{
	const struct kvm_cpuid_entry2 *a0 = find(a, a_count, 0), *b0 = find(b, b_count, 0);
	const struct kvm_cpuid_entry2 *a1 = find(a, a_count, 1), *b1 = find(b, b_count, 1);

	return a0 && b0 && a1 && b1 && a0->ebx == b0->ebx && a0->ecx == b0->ecx && a0->edx == b0->edx &&
	       a1->eax == b1->eax;
}

static void leaf_clear(struct kvm_cpuid_entry2 *e)
{
	e->eax = e->ebx = e->ecx = e->edx = 0;
}

static void leaf_1(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	e->ebx = (e->ebx & 0xffff) | r->vcpus << 16 | r->apic_id << 24;
	e->ecx &= ~(C1_PDCM | C1_VMX | C1_MONITOR | C1_DEADLINE);
	e->ecx |= C1_HYPERVISOR | (r->deadline_timer ? C1_DEADLINE : 0);
	e->edx &= ~D1_HTT;
	e->edx |= r->vcpus > 1 ? D1_HTT : 0;
	if (r->no_xsave)
		e->ecx &= ~C1_XSAVE_FAMILY;
}

static void leaf_7(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	if (e->index == 0) {
		e->ebx &= ~B7_SGX;
		e->ecx &= ~C7_SGX_LC;
		e->edx &= ~D7_AMX;
	}
	if (!r->no_xsave)
		return;
	if (e->index > 0) { /* AVX-VNNI, AVX-512 bfloat16 and what is to come of that kind */
		leaf_clear(e);
		return;
	}
	e->ebx &= ~B7_AVX;
	e->ecx &= ~(C7_AVX | C7_OSPKE);
	e->edx &= ~D7_AVX;
}

/* One package of single-threaded cores: bits of the APIC id per level. */
static void leaf_topology(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	uint32_t bits = 0;

	while (r->vcpus > 1u << bits)
		bits++;
	e->eax = e->ebx = 0;
	e->ecx = e->index;
	e->edx = r->apic_id;
	if (e->index == 0) {
		e->ebx = 1;
		e->ecx |= 1u << 8; /* threads */
	} else if (e->index == 1) {
		e->eax = bits;
		e->ebx = r->vcpus;
		e->ecx |= 2u << 8; /* cores */
	}
}

static void leaf_xsave(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	if (r->no_xsave || e->index == 17 || e->index == 18)
		leaf_clear(e);
	else if (e->index == 0)
		e->eax &= ~AD_AMX;
}

static void leaf_amd_cores(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	e->ecx = r->vcpus - 1; /* no bits of the APIC id named: the count says it */
}

static void normalise(struct kvm_cpuid_entry2 *e, const struct cpuid_rules *r)
{
	switch (e->function) {
	case 1:
		leaf_1(e, r);
		break;
	case 7:
		leaf_7(e, r);
		break;
	case 0xb:
	case 0x1f:
		leaf_topology(e, r);
		break;
	case 0xd:
		leaf_xsave(e, r);
		break;
	case 0xa:  /* performance counters */
	case 0x12: /* SGX */
	case 0x14: /* processor trace */
	case 0x1d: /* AMX */
	case 0x1e:
	case 0x8000000a: /* SVM */
	case 0x8000001b: /* IBS */
	case 0x8000001d: /* topology that TOPOEXT announces */
	case 0x8000001e:
	case 0x80000022: /* performance counters */
		leaf_clear(e);
		break;
	case 0x80000001:
		e->ecx &= ~(C81_DROPPED | (r->no_xsave ? C81_AVX : 0));
		break;
	case 0x80000008:
		leaf_amd_cores(e, r);
		break;
	default:
		break;
	}
}

void cpuid_normalise(struct cpuid *c, const struct cpuid_rules *rules)
{
	for (uint32_t i = 0; i < c->nent && i < CPUID_ENTRIES_MAX; i++)
		normalise(&c->entries[i], rules);
}

bool cpuid_host_emulated(void)
{
	unsigned a, b, c, d;
	char name[13] = "";

	__cpuid(1, a, b, c, d);
	if (!(c & C1_HYPERVISOR))
		return false;
	__cpuid(0x40000000, a, b, c, d);
	memcpy(name, &b, 4);
	memcpy(name + 4, &c, 4);
	memcpy(name + 8, &d, 4);
	return strcmp(name, "TCGTCGTCGTCG") == 0;
}
