/* The machine's devices: on the bus, and their interrupts at KVM. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "layout.h"
#include "machine_inner.h"

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
	const struct bus_window window = {
		.base = LAYOUT_POWER, .size = LAYOUT_POWER_SIZE, .read = power_read, .write = power_write, .arg = m
	};

	return bus_add(&m->bus.memory, &window);
}

static int serial_add(struct machine *m, struct control_message *message)
{
	struct bus_window window;
	int err;

	m->serial_irq_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->serial_irq_fd < 0)
		return -errno;
	err = kvm_irqfd(&m->kvm, m->serial_irq_fd, LAYOUT_GSI_SERIAL);
	if (err < 0)
		return err;
	m->console_fd = message->files[CONTROL_CONSOLE];
	message->files[CONTROL_CONSOLE] = -1;
	serial_init(&m->serial, m->console_fd, m->serial_irq_fd);
	window = serial_window(&m->serial);
	return bus_add(&m->bus.ports, &window);
}

int machine_devices(struct machine *m, struct control_message *message, struct problem *p)
{
	int err = power_add(m);

	if (!err)
		err = serial_add(m, message);
	return err ? problem_set(p, err, "the machine's devices") : 0;
}
