#include "msr.h"

#include <errno.h>
#include <stddef.h>

#include "kvm.h"

#define MSR_TSC 0x10
#define MSR_SYSENTER_CS 0x174
#define MSR_SYSENTER_ESP 0x175
#define MSR_SYSENTER_EIP 0x176
#define MSR_MISC_ENABLE 0x1a0
#define MSR_MTRR_DEF_TYPE 0x2ff
#define MSR_STAR 0xc0000081
#define MSR_LSTAR 0xc0000082
#define MSR_CSTAR 0xc0000083
#define MSR_SYSCALL_MASK 0xc0000084
#define MSR_KERNEL_GS_BASE 0xc0000102

#define MISC_ENABLE_FAST_STRING 1
/* Enabled, write-back where nothing else is said: without it a guest may run uncached. */
#define MTRR_WRITE_BACK ((1u << 11) | 6)

int msr_set(int vcpu_fd, struct msr_chunk *chunk)
{
	_Static_assert(offsetof(struct msr_chunk, entries) == sizeof(struct kvm_msrs), "KVM's layout");
	int n = kvm_ioctl(vcpu_fd, KVM_SET_MSRS, chunk);

	if (n < 0)
		return n;
	return (uint32_t)n == chunk->nmsrs ? 0 : -EIO;
}

int msr_reset(int vcpu_fd)
{
	static const struct kvm_msr_entry reset[] = {
		{ .index = MSR_SYSENTER_CS },
		{ .index = MSR_SYSENTER_ESP },
		{ .index = MSR_SYSENTER_EIP },
		{ .index = MSR_STAR },
		{ .index = MSR_LSTAR },
		{ .index = MSR_CSTAR },
		{ .index = MSR_SYSCALL_MASK },
		{ .index = MSR_KERNEL_GS_BASE },
		{ .index = MSR_TSC },
		{ .index = MSR_MISC_ENABLE, .data = MISC_ENABLE_FAST_STRING },
		{ .index = MSR_MTRR_DEF_TYPE, .data = MTRR_WRITE_BACK },
	};
	struct msr_chunk chunk = { .nmsrs = sizeof(reset) / sizeof(*reset) };

	for (uint32_t i = 0; i < chunk.nmsrs; i++)
		chunk.entries[i] = reset[i];
	return msr_set(vcpu_fd, &chunk);
}
