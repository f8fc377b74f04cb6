#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "entropy.h"
#include "layout.h"
#include "machine_inner.h"
#include "trace.h"

enum { GENERATION_SIZE = 16 };

const char *machine_end_text(enum machine_end end)
{
	static const char *const texts[] = {
		[MACHINE_GOES_ON] = "the guest goes on",
		[MACHINE_POWERED_OFF] = "the guest powered itself off",
		[MACHINE_RESET] = "the guest reset itself",
		[MACHINE_FAILED] = "the virtual processor cannot go on",
	};

	return texts[end];
}

void machine_end(struct machine *m, enum machine_end end)
{
	const uint64_t one = 1;
	ssize_t n;

	if (m->end != MACHINE_GOES_ON)
		return;
	m->end = end;
	n = write(m->end_fd, &one, sizeof(one));
	(void)n; /* the first and only write: there is room */
}

static void on_end(void *arg, uint32_t events)
{
	struct machine *m = arg;

	(void)events;
	loop_unwatch(m->loop, m->end_fd);
	machine_pause(m);
	serial_flush(&m->serial);
	m->state = CONTROL_OVER;
	m->ended(m->ended_arg, m->end);
}

static void on_vcpu_end(void *arg, struct vcpu *v, enum vcpu_end end)
{
	struct machine *m = arg;

	if (end != VCPU_SHUTDOWN)
		fprintf(stderr, "carrel-vmm: vCPU %u: exit %u, %u\n", v->index, v->run->exit_reason,
			v->run->internal.suberror);
	pthread_mutex_lock(&m->bus.lock);
	machine_end(m, end == VCPU_SHUTDOWN ? MACHINE_RESET : MACHINE_FAILED);
	pthread_mutex_unlock(&m->bus.lock);
}

int machine_new(struct machine *m, int kvm_fd, void (*ended)(void *arg, enum machine_end end), void *arg,
		struct problem *p)
{
	int err;

	*m = (struct machine){ .kvm = { .dev_fd = kvm_fd, .vm_fd = -1 },
			       .memory_fd = -1,
			       .console_fd = -1,
			       .serial_irq_fd = -1,
			       .event_fd = -1,
			       .end_fd = -1,
			       .ended = ended,
			       .ended_arg = arg };
	pthread_mutex_init(&m->bus.lock, NULL);
	err = vcpu_signal_setup();
	if (!err)
		err = loop_new(&m->bus.lock, &m->loop);
	if (err)
		return problem_set(p, err, "the event loop");
	m->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->end_fd < 0)
		return problem_set(p, -errno, "an event descriptor");
	err = loop_watch(m->loop, m->end_fd, EPOLLIN, on_end, m);
	if (err)
		return problem_set(p, err, "the event loop");
	err = kvm_new(&m->kvm, kvm_fd, p);
	if (err)
		return err;
	err = cpuid_supported(kvm_fd, &m->cpuid);
	return err ? problem_set(p, err, "KVM_GET_SUPPORTED_CPUID") : 0;
}

/* vCPUs first: nothing else touches what follows. */
void machine_free(struct machine *m)
{
	pthread_mutex_unlock(&m->bus.lock);
	for (unsigned i = 0; i < m->vcpu_count; i++)
		vcpu_free(&m->vcpus[i]);
	pthread_mutex_lock(&m->bus.lock);
	m->vcpu_count = 0;
	machine_devices_free(m);
	kvm_free(&m->kvm);
	memory_free(&m->memory);
	if (m->memory_fd >= 0)
		close(m->memory_fd);
	m->memory_fd = -1;
	if (m->end_fd >= 0)
		loop_unwatch(m->loop, m->end_fd);
	if (m->end_fd >= 0)
		close(m->end_fd);
	m->end_fd = -1;
	loop_free(m->loop);
	m->loop = NULL;
}

struct cpuid_rules machine_cpuid_rules(const struct machine *m, unsigned vcpu)
{
	return (struct cpuid_rules){ .apic_id = vcpu,
				     .vcpus = m->vcpu_count,
				     .deadline_timer = m->kvm.deadline_timer,
				     .no_xsave = cpuid_host_emulated() };
}

static int vcpus_new(struct machine *m, unsigned count, struct problem *p)
{
	for (unsigned i = 0; i < count; i++) {
		int err;

		m->vcpus[i] = (struct vcpu){ .fd = -1, .ended = on_vcpu_end, .arg = m };
		m->vcpu_count++;
		err = vcpu_new(&m->vcpus[i], &m->kvm, &m->bus, i, p);
		if (err)
			return err;
	}
	return 0;
}

static int memory_make(struct machine *m, struct control_message *message, uint64_t size)
{
	int err;

	m->memory_fd = message->files[CONTROL_MEMORY];
	message->files[CONTROL_MEMORY] = -1;
	if (m->memory_fd < 0)
		return memory_new(&m->memory, size);
	err = memory_map(&m->memory, m->memory_fd, size);
	return err ? err : memory_track(&m->memory);
}

int machine_assemble(struct machine *m, struct control_message *message, uint64_t memory_size, unsigned vcpus,
		     struct problem *p)
{
	int err;

	if (m->state != CONTROL_EMPTY)
		return problem_set(p, -EINVAL, "this monitor has its machine already");
	if (vcpus < 1 || vcpus > ACPI_VCPUS_MAX)
		return problem_set(p, -EINVAL, "%u vCPUs", vcpus);
	err = memory_make(m, message, memory_size);
	if (err)
		return problem_set(p, err, "%llu MiB of guest memory", (unsigned long long)memory_size >> 20);
	err = kvm_memory(&m->kvm, &m->memory, p);
	trace_step("memory");
	if (!err)
		err = machine_devices(m, message, p);
	trace_step("devices");
	if (!err)
		err = vcpus_new(m, vcpus, p);
	trace_step("vCPUs");
	return err;
}

int machine_generation(struct machine *m, bool tell)
{
	uint8_t *id = memory_at(&m->memory, LAYOUT_VMGENID, GENERATION_SIZE);
	const uint64_t one = 1;

	if (entropy_get(id, GENERATION_SIZE) != GENERATION_SIZE)
		return -EIO;
	memory_mark_dirty(&m->memory, LAYOUT_VMGENID, GENERATION_SIZE);
	return !tell || write(m->event_fd, &one, sizeof(one)) == sizeof(one) ? 0 : -errno;
}

static int tables_write(struct machine *m, struct problem *p)
{
	const struct acpi_config config = { .vcpus = m->vcpu_count, .virtio = m->device_count };
	int err = acpi_build(&config, memory_at(&m->memory, LAYOUT_ACPI, LAYOUT_ACPI_SIZE), LAYOUT_ACPI_SIZE,
			     LAYOUT_ACPI);

	if (!err)
		err = machine_generation(m, false);
	return err ? problem_set(p, err, "ACPI tables") : 0;
}

static int vcpus_reset(struct machine *m, const struct boot_entry *entry, struct problem *p)
{
	for (unsigned i = 0; i < m->vcpu_count; i++) {
		struct cpuid_rules rules = machine_cpuid_rules(m, i);
		int err = vcpu_cpuid(&m->vcpus[i], &m->cpuid, &rules, p);

		if (!err)
			err = vcpu_reset(&m->vcpus[i], p);
		if (err)
			return err;
	}
	return vcpu_enter(&m->vcpus[0], entry, p);
}

int machine_boot(struct machine *m, struct control_message *message, struct problem *p)
{
	const struct control_request *r = &message->request;
	const struct boot_files files = { .kernel_fd = message->files[CONTROL_KERNEL],
					  .initrd_fd = message->files[CONTROL_INITRD],
					  .cmdline = r->cmdline,
					  .pvh = r->flags & CONTROL_PVH };
	struct boot_entry entry;
	int err = machine_assemble(m, message, (uint64_t)r->memory_mb << 20, r->vcpus, p);

	if (!err)
		err = boot_load(&m->memory, &files, &entry, p);
	trace_step("kernel and initramfs");
	if (!err)
		err = tables_write(m, p);
	if (!err)
		err = vcpus_reset(m, &entry, p);
	trace_step("tables and registers");
	if (err)
		return err;
	m->state = CONTROL_PAUSED;
	return 0;
}

int machine_pause(struct machine *m)
{
	if (m->state != CONTROL_RUNNING && m->state != CONTROL_PAUSED)
		return -EINVAL;
	pthread_mutex_unlock(&m->bus.lock);
	for (unsigned i = 0; i < m->vcpu_count; i++)
		vcpu_ask_park(&m->vcpus[i]);
	for (unsigned i = 0; i < m->vcpu_count; i++)
		vcpu_wait_parked(&m->vcpus[i]);
	pthread_mutex_lock(&m->bus.lock);
	m->state = CONTROL_PAUSED;
	return 0;
}

int machine_resume(struct machine *m)
{
	if (m->end != MACHINE_GOES_ON || (m->state != CONTROL_RUNNING && m->state != CONTROL_PAUSED))
		return -EINVAL;
	if (m->state == CONTROL_PAUSED)
		for (unsigned i = 0; i < m->vcpu_count; i++)
			vcpu_run(&m->vcpus[i]);
	m->state = CONTROL_RUNNING;
	return 0;
}
