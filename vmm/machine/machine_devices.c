/* The machine's devices: on the bus, and their interrupts at KVM. */
#include <errno.h>
#include <fcntl.h>
#include <linux/virtio_mmio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "layout.h"
#include "machine_inner.h"
#include "vmm/virtio/balloon.h"
#include "vmm/virtio/blk.h"
#include "vmm/virtio/console.h"
#include "vmm/virtio/device.h"
#include "vmm/virtio/mmio.h"
#include "vmm/virtio/rng.h"

/* ACPI's sleep and reset registers read as zero: a wake-up never happened. */
static void power_read(void *arg, uint64_t offset, void *ret, unsigned len)
{
	uint8_t *bytes = ret;

	(void)arg;
	(void)offset;
	for (unsigned i = 0; i < len; i++)
		bytes[i] = 0;
}

static void power_write(void *arg, uint64_t offset, const void *data, unsigned len)
{
	uint8_t value = *(const uint8_t *)data;

	if (len != 1)
		return;
	if (offset == ACPI_SLEEP_CONTROL && value == ACPI_SLEEP_OFF)
		machine_end(arg, MACHINE_POWERED_OFF);
	else if (offset == ACPI_RESET && value == ACPI_RESET_VALUE)
		machine_end(arg, MACHINE_RESET);
}

static int power_add(struct machine *m)
{
	const struct bus_window window = { .base = LAYOUT_POWER,
					   .size = LAYOUT_POWER_SIZE,
					   .read = power_read,
					   .write = power_write,
					   .arg = m };

	return bus_add(&m->bus.memory, &window);
}

/* An eventfd whose writes raise gsi. */
static int interrupt_new(struct machine *m, unsigned gsi, int *ret)
{
	*ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (*ret < 0)
		return -errno;
	return kvm_irqfd(&m->kvm, *ret, gsi);
}

static int take(struct control_message *message, enum control_file file)
{
	int fd = message->files[file];

	message->files[file] = -1;
	return fd;
}

static int serial_add(struct machine *m, struct control_message *message)
{
	struct bus_window window;
	int err = interrupt_new(m, LAYOUT_GSI_SERIAL, &m->serial_irq_fd);

	if (err)
		return err;
	m->console_fd = take(message, CONTROL_CONSOLE);
	if (m->console_fd >= 0 && fcntl(m->console_fd, F_SETFL, O_NONBLOCK) != 0)
		return -errno;
	serial_init(&m->serial, m->console_fd, m->serial_irq_fd);
	window = serial_window(&m->serial);
	return bus_add(&m->bus.ports, &window);
}

static void window_read(void *arg, uint64_t offset, void *ret, unsigned len)
{
	virtio_mmio_read(arg, offset, ret, len);
}

static void window_write(void *arg, uint64_t offset, const void *data, unsigned len)
{
	virtio_mmio_write(arg, offset, data, len);
}

_Static_assert((int)LAYOUT_VIRTIO_STEP == (int)VIRTIO_MMIO_WINDOW, "windows lie side by side");

/* Into the next window; kicks are counted in the kernel, interrupts go by irqfd. */
static int virtio_attach(struct machine *m, struct virtio_device *d)
{
	unsigned index = m->device_count;
	uint64_t base = LAYOUT_VIRTIO + (uint64_t)index * LAYOUT_VIRTIO_STEP;
	const struct bus_window window = {
		.base = base, .size = LAYOUT_VIRTIO_STEP, .read = window_read, .write = window_write, .arg = d
	};
	int err;

	m->devices[m->device_count++] = d;
	err = bus_add(&m->bus.memory, &window);
	if (!err)
		err = kvm_irqfd(&m->kvm, d->irq_fd, LAYOUT_GSI_VIRTIO + index);
	for (unsigned q = 0; !err && q < d->queues; q++)
		err = kvm_ioeventfd(&m->kvm, d->kick_fd[q], base + VIRTIO_MMIO_QUEUE_NOTIFY, q);
	return err;
}

static int disk_add(struct machine *m, struct control_message *message, enum control_file file,
		    unsigned flags, const char *id)
{
	struct virtio_device *d;
	int fd = take(message, file), err;

	if (fd < 0)
		return 0;
	m->files |= 1u << file;
	err = blk_new(&m->memory, m->loop, fd, flags, id, &d);
	return err ? err : virtio_attach(m, d);
}

static int ports_add(struct machine *m, struct control_message *message)
{
	struct console_port_options port = { .name = "carrel.agent",
					     .listen_fd = take(message, CONTROL_AGENT) };
	struct virtio_device *d;
	int err;

	if (port.listen_fd < 0)
		return 0;
	m->files |= 1u << CONTROL_AGENT;
	if (fcntl(port.listen_fd, F_SETFL, O_NONBLOCK) != 0) {
		err = -errno;
		close(port.listen_fd);
		return err;
	}
	err = console_new(&m->memory, m->loop, &port, 1, &d);
	return err ? err : virtio_attach(m, d);
}

static int entropy_add(struct machine *m)
{
	struct virtio_device *d;
	int err = rng_new(&m->memory, m->loop, &d);

	return err ? err : virtio_attach(m, d);
}

static int balloon_add(struct machine *m)
{
	int err = balloon_new(&m->memory, m->loop, &m->balloon);

	return err ? err : virtio_attach(m, m->balloon);
}

/* The order is a snapshot's: the same files make the same devices at the same places. */
int machine_devices(struct machine *m, struct control_message *message, struct problem *p)
{
	int err = power_add(m);

	if (!err)
		err = interrupt_new(m, LAYOUT_GSI_EVENT, &m->event_fd);
	if (!err)
		err = serial_add(m, message);
	if (err)
		return problem_set(p, err, "the machine's own devices");
	err = disk_add(m, message, CONTROL_ROOTFS, BLK_READ_ONLY, "rootfs");
	if (!err)
		err = disk_add(m, message, CONTROL_SCRATCH, 0, "scratch");
	if (err)
		return problem_set(p, err, "a disk");
	err = ports_add(m, message);
	if (!err)
		err = entropy_add(m);
	if (!err)
		err = balloon_add(m);
	return err ? problem_set(p, err, "a device") : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void machine_devices_free(struct machine *m)
{
	for (unsigned i = 0; i < m->device_count; i++)
		virtio_device_free(m->devices[i]);
	m->device_count = 0;
	m->balloon = NULL;
	close_fd(&m->console_fd);
	close_fd(&m->serial_irq_fd);
	close_fd(&m->event_fd);
}
