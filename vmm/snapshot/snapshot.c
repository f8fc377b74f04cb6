#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "memory_save.h"
#include "state.h"
#include "vcpu_save.h"
#include "vm_save.h"
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

static bool same_file(int fd, const struct machine *m)
{
	struct stat st;

	return fstat(fd, &st) == 0 && m->memory_inode != 0 && st.st_ino == m->memory_inode &&
	       st.st_dev == m->memory_device;
}

int snapshot_save(struct machine *m, const struct control_message *message, struct problem *p)
{
	struct state *s;
	int err;

	if (m->state != CONTROL_PAUSED)
		return problem_set(p, -EINVAL, "only a paused machine can be saved");
	if (same_file(message->files[CONTROL_MEMORY], m))
		return problem_set(p, -EBUSY, "the machine runs from this memory file");
	s = state_new(m->vcpu_count);
	if (!s)
		return problem_set(p, -ENOMEM, "the machine's state");
	err = machine_save(m, s, p);
	if (!err) {
		err = memory_save(&m->memory, message->files[CONTROL_MEMORY]);
		if (err)
			problem_set(p, err, "the memory file");
	}
	if (!err) {
		state_seal(s);
		err = state_write(s, message->files[CONTROL_STATE]);
		if (err)
			problem_set(p, err, "the state file");
	}
	free(s);
	return err;
}

static int vcpus_load(struct machine *m, const struct state *s, struct problem *p)
{
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
	int err = files_check(message, s, p);

	if (!err)
		err = machine_assemble(m, message, s->header.memory_size, s->header.vcpus,
				       message->files[CONTROL_MEMORY], p);
	if (err)
		return err;
	if (m->device_count != s->header.devices)
		return problem_set(p, -EINVAL, "the snapshot's machine had %u devices", s->header.devices);
	err = vcpus_load(m, s, p);
	if (!err)
		err = vm_load(m, &s->vm, p);
	if (!err)
		err = devices_load(m, s, p);
	if (err)
		return err;
	err = machine_generation(m, true);
	return err ? problem_set(p, err, "the generation id") : 0;
}

int snapshot_load(struct machine *m, struct control_message *message, struct problem *p)
{
	struct state *s;
	int err;

	if (m->state != CONTROL_EMPTY)
		return problem_set(p, -EINVAL, "this monitor has its machine already");
	err = state_read(message->files[CONTROL_STATE], &s, p);
	if (err)
		return err;
	err = machine_load(m, message, s, p);
	free(s);
	if (err)
		return err;
	m->state = CONTROL_PAUSED;
	return machine_resume(m);
}
