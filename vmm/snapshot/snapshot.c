#include "snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory_save.h"
#include "pages_file.h"
#include "state.h"
#include "vcpu_save.h"
#include "vm_save.h"
#include "vmm/machine/trace.h"
#include "vmm/virtio/device.h"
#include "vmm/virtio/state.h"

/* Devices first: what a drained request still raises is in an interrupt chip by the time that is read,
 * or, where KVM has not delivered it yet, in the device's interrupt status, which is raised again. */
static int devices_save(struct machine *m, struct state *s, struct problem *p)
{
	s->header.files = m->files;
	s->header.devices = m->device_count;
	for (unsigned i = 0; i < m->device_count; i++) {
		int err = virtio_device_drain(m->devices[i]);

		if (err)
			return problem_set(p, err, "device %u does not come to rest", i);
		virtio_device_save(m->devices[i], &s->devices[i]);
	}
	return 0;
}

static int machine_save(struct machine *m, struct state *s, struct problem *p)
{
	int err = devices_save(m, s, p);

	for (unsigned i = 0; !err && i < m->vcpu_count; i++)
		err = vcpu_save(&m->vcpus[i], m->kvm.dev_fd, &s->vcpu[i], p);
	if (!err)
		err = vm_save(m, &s->vm, p);
	s->header.memory_size = m->memory.size;
	return err;
}

static bool same_file(int a, int b)
{
	struct stat sa, sb;

	return a >= 0 && b >= 0 && fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino &&
	       sa.st_dev == sb.st_dev;
}

static int files_refused(const struct machine *m, const struct control_message *message, struct problem *p)
{
	if (m->state != CONTROL_PAUSED)
		return problem_set(p, -EINVAL, "only a paused machine can be saved");
	if (same_file(message->files[CONTROL_MEMORY], m->memory_fd))
		return problem_set(p, -EBUSY, "the machine runs from this memory file");
	if (message->files[CONTROL_PAGES] >= 0 && m->memory_fd < 0)
		return problem_set(p, -EINVAL,
				   "the machine runs from no memory file that pages could differ from");
	return 0;
}

static int files_write(struct machine *m, const struct control_message *message, struct state *s,
		       struct problem *p)
{
	int err;

	state_seal(s);
	if (message->files[CONTROL_PAGES] >= 0) {
		err = kvm_dirty_collect(&m->kvm, &m->memory);
		if (err)
			return problem_set(p, err, "KVM_GET_DIRTY_LOG");
		err = pages_file_save(&m->memory, m->memory_fd, s, message->files[CONTROL_PAGES], p);
	} else {
		err = memory_save(&m->memory, message->files[CONTROL_MEMORY]);
		if (err)
			problem_set(p, err, "the memory file");
	}
	if (err)
		return err;
	err = state_write(s, message->files[CONTROL_STATE]);
	return err ? problem_set(p, err, "the state file") : 0;
}

/* Half a file would be taken for one by its size. */
static void files_empty(const struct control_message *message)
{
	static const enum control_file written[] = { CONTROL_MEMORY, CONTROL_PAGES, CONTROL_STATE };

	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
		if (message->files[written[i]] >= 0 && ftruncate(message->files[written[i]], 0) != 0)
			fprintf(stderr, "carrel-vmm: a file that was not saved whole cannot be emptied\n");
}

int snapshot_save(struct machine *m, const struct control_message *message, struct problem *p)
{
	struct state *s;
	int err = files_refused(m, message, p);

	if (err)
		return err;
	s = state_new(m->vcpu_count);
	if (!s)
		return problem_set(p, -ENOMEM, "the machine's state");
	err = machine_save(m, s, p);
	if (!err)
		err = files_write(m, message, s, p);
	if (err)
		files_empty(message);
	free(s);
	return err;
}

static int vcpus_load(struct machine *m, const struct state *s, struct problem *p)
{
	if (!cpuid_same_model(s->vcpu[0].cpuid, s->vcpu[0].cpuid_count, m->cpuid.entries, m->cpuid.nent))
		return problem_set(p, -EINVAL, "the snapshot is of another kind of processor");
	for (unsigned i = 0; i < m->vcpu_count; i++) {
		struct cpuid_rules rules = machine_cpuid_rules(m, i);
		int err = vcpu_load(&m->vcpus[i], &s->vcpu[i], &rules, p);

		if (err)
			return err;
	}
	return 0;
}

static int devices_load(struct machine *m, const struct state *s, struct problem *p)
{
	for (unsigned i = 0; i < m->device_count; i++) {
		int err = virtio_device_load(m->devices[i], &s->devices[i]);

		if (err)
			return problem_set(p, err, "the state of device %u", i);
	}
	serial_kick(&m->serial);
	return 0;
}

static int files_check(const struct control_message *message, const struct state *s, struct problem *p)
{
	if ((message->request.files & MACHINE_DEVICE_FILES) != s->header.files)
		return problem_set(p, -EINVAL, "the snapshot's machine had other devices");
	return 0;
}

/* The generation's interrupt comes after the chips are what they were, or it would be lost; its id
 * before the guest runs. */
static int machine_load(struct machine *m, struct control_message *message, const struct state *s,
			struct problem *p)
{
	int pages = message->files[CONTROL_PAGES];
	int err = files_check(message, s, p);

	if (!err)
		err = machine_assemble(m, message, s->header.memory_size, s->header.vcpus, p);
	if (err)
		return err;
	if (m->device_count != s->header.devices)
		return problem_set(p, -EINVAL, "the snapshot's machine had %u devices", s->header.devices);
	err = pages >= 0 ? pages_file_load(&m->memory, m->memory_fd, s, pages, p) : 0;
	trace_step("pages that had changed");
	if (!err)
		err = vcpus_load(m, s, p);
	trace_step("the vCPUs' registers");
	if (!err)
		err = vm_load(m, &s->vm, p);
	trace_step("interrupt chips and clock");
	if (!err)
		err = devices_load(m, s, p);
	trace_step("the devices' state");
	if (err)
		return err;
	err = machine_generation(m, true);
	return err ? problem_set(p, err, "the generation id") : 0;
}

int snapshot_load(struct machine *m, struct control_message *message, struct problem *p)
{
	struct state *s;
	int err;

	err = state_read(message->files[CONTROL_STATE], &s, p);
	if (err)
		return err;
	trace_step("state file");
	err = machine_load(m, message, s, p);
	free(s);
	if (err)
		return err;
	m->state = CONTROL_PAUSED;
	return 0;
}
