#include "kvm.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"

enum {
	/* KVM_CREATE_VM is interrupted on loaded hosts; each try waits twice as long,
	 * 1 ms at first. */
	CREATE_TRIES = 6,
	SLOT_LOW = 0,
	SLOT_HIGH,
};

#define CAP(name)                     \
	{                             \
		KVM_CAP_##name, #name \
	}
static const struct {
	unsigned cap;
	const char *name;
} needed[] = {
	CAP(USER_MEMORY), CAP(SET_TSS_ADDR),   CAP(SET_IDENTITY_MAP_ADDR),
	CAP(IRQCHIP),     CAP(PIT2),           CAP(PIT_STATE2),
	CAP(EXT_CPUID),   CAP(MP_STATE),       CAP(IRQFD),
	CAP(IOEVENTFD),   CAP(VCPU_EVENTS),    CAP(DEBUGREGS),
	CAP(XSAVE),       CAP(XCRS),           CAP(ADJUST_CLOCK),
	CAP(GET_TSC_KHZ), CAP(IMMEDIATE_EXIT),
};

int kvm_ioctl(int fd, unsigned long request, void *arg)
{
	int n;

	do
		n = ioctl(fd, request, arg);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int capability(int fd, unsigned long cap)
{
	return kvm_ioctl(fd, KVM_CHECK_EXTENSION, (void *)cap);
}

static int capabilities_check(int dev_fd, struct problem *p)
{
	int version = kvm_ioctl(dev_fd, KVM_GET_API_VERSION, NULL);

	if (version != KVM_API_VERSION)
		return problem_set(p, version < 0 ? version : -ENOTSUP, "this is not KVM as we know it");
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (capability(dev_fd, needed[i].cap) <= 0)
			return problem_set(p, -ENOTSUP, "KVM lacks the capability %s", needed[i].name);
	return 0;
}

static int create(int dev_fd)
{
	struct timespec pause = { .tv_nsec = 1000 * 1000 };
	int fd = -1;

	for (int i = 0; i < CREATE_TRIES; i++) {
		fd = ioctl(dev_fd, KVM_CREATE_VM, 0);
		if (fd >= 0 || errno != EINTR)
			break;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
	return fd < 0 ? -errno : fd;
}

/* Before any vCPU: they are born with the interrupt chip or without one. */
static int chips_create(const struct kvm *k, struct problem *p)
{
	/* The dummy speaker keeps port 0x61, on which Linux times the PIT, in the kernel. */
	struct kvm_pit_config pit = { .flags = KVM_PIT_SPEAKER_DUMMY };
	uint64_t identity_map = LAYOUT_IDENTITY_MAP;
	int err;

	err = kvm_ioctl(k->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity_map);
	if (err < 0)
		return problem_set(p, err, "KVM_SET_IDENTITY_MAP_ADDR");
	err = kvm_ioctl(k->vm_fd, KVM_SET_TSS_ADDR, (void *)(unsigned long)LAYOUT_TSS);
	if (err < 0)
		return problem_set(p, err, "KVM_SET_TSS_ADDR");
	err = kvm_ioctl(k->vm_fd, KVM_CREATE_IRQCHIP, NULL);
	if (err < 0)
		return problem_set(p, err, "KVM_CREATE_IRQCHIP");
	err = kvm_ioctl(k->vm_fd, KVM_CREATE_PIT2, &pit);
	return err < 0 ? problem_set(p, err, "KVM_CREATE_PIT2") : 0;
}

int kvm_new(struct kvm *ret, int dev_fd, struct problem *p)
{
	struct kvm k = { .dev_fd = dev_fd, .vm_fd = -1 };
	int err, size;

	err = capabilities_check(dev_fd, p);
	if (err)
		return err;
	size = kvm_ioctl(dev_fd, KVM_GET_VCPU_MMAP_SIZE, NULL);
	if (size <= 0)
		return problem_set(p, size ? size : -ENOTSUP, "KVM_GET_VCPU_MMAP_SIZE");
	k.run_size = (size_t)size;
	k.vm_fd = create(dev_fd);
	if (k.vm_fd < 0)
		return problem_set(p, k.vm_fd, "KVM_CREATE_VM");
	k.deadline_timer = capability(k.vm_fd, KVM_CAP_TSC_DEADLINE_TIMER) > 0;
	err = chips_create(&k, p);
	if (err) {
		kvm_free(&k);
		return err;
	}
	*ret = k;
	return 0;
}

void kvm_free(struct kvm *k)
{
	if (k->vm_fd >= 0)
		close(k->vm_fd);
	k->vm_fd = -1;
}

static int slot_set(const struct kvm *k, struct kvm_userspace_memory_region *slot, bool log,
		    struct problem *p)
{
	int err;

	if (slot->memory_size == 0)
		return 0;
	slot->flags = log ? KVM_MEM_LOG_DIRTY_PAGES : 0;
	err = kvm_ioctl(k->vm_fd, KVM_SET_USER_MEMORY_REGION, slot);
	return err < 0 ? problem_set(p, err, "KVM_SET_USER_MEMORY_REGION, slot %u", slot->slot) : 0;
}

int kvm_memory(const struct kvm *k, const struct guest_memory *m, struct problem *p)
{
	struct kvm_userspace_memory_region low = { .slot = SLOT_LOW,
						   .memory_size = memory_low(m),
						   .userspace_addr = (uintptr_t)m->base };
	struct kvm_userspace_memory_region high = { .slot = SLOT_HIGH,
						    .guest_phys_addr = MEMORY_HOLE_END,
						    .memory_size = memory_high(m),
						    .userspace_addr = (uintptr_t)m->base + MEMORY_HOLE };
	int err = slot_set(k, &low, m->dirty, p);

	return err ? err : slot_set(k, &high, m->dirty, p);
}

static int slot_collect(const struct kvm *k, const struct guest_memory *m, uint32_t slot, uint64_t first,
			uint64_t count)
{
	uint64_t *log = calloc((count + 63) / 64 + 1, sizeof(*log));
	struct kvm_dirty_log request = { .slot = slot, .dirty_bitmap = log };
	int err;

	if (!log)
		return -ENOMEM;
	err = count ? kvm_ioctl(k->vm_fd, KVM_GET_DIRTY_LOG, &request) : 0;
	if (err >= 0)
		memory_mark_log(m, first, log, count);
	free(log);
	return err < 0 ? err : 0;
}

int kvm_dirty_collect(const struct kvm *k, const struct guest_memory *m)
{
	int err = slot_collect(k, m, SLOT_LOW, 0, memory_low(m) / MEMORY_PAGE);

	return err ? err
		   : slot_collect(k, m, SLOT_HIGH, MEMORY_HOLE / MEMORY_PAGE, memory_high(m) / MEMORY_PAGE);
}

int kvm_irqfd(const struct kvm *k, int fd, unsigned gsi)
{
	struct kvm_irqfd irq = { .fd = (uint32_t)fd, .gsi = gsi };

	return kvm_ioctl(k->vm_fd, KVM_IRQFD, &irq);
}

int kvm_ioeventfd(const struct kvm *k, int fd, uint64_t address, uint32_t value)
{
	struct kvm_ioeventfd io = { .datamatch = value,
				    .addr = address,
				    .len = sizeof(value),
				    .fd = fd,
				    .flags = KVM_IOEVENTFD_FLAG_DATAMATCH };

	return kvm_ioctl(k->vm_fd, KVM_IOEVENTFD, &io);
}
