/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Clients of ports that come and go, and drivers that do their part badly. */
#include <fcntl.h>

#include "virtio_ports.h"

static void ports_are_told_by_name(void)
{
	begin();
	CHECK_INT(reg(&v, 0x104), 2);
	end();
}

static void next_client_is_heard_after_a_slow_one_left(void)
{
	static char big[1 << 20];
	uint64_t gpa = 0;
	int slow, next;

	begin();
	slow = client_new(0);
	CHECK_STR(heard(), "0 6 1");
	gpa = buffer(sizeof(big));
	for (unsigned i = 0; i < 4; i++)
		chain_add(&v, OUT, &(struct piece){ gpa, sizeof(big), false }, 1);
	kick(&v, OUT);
	loop_settle();
	CHECK(used(&v, OUT)->idx < 4);
	close(slow);
	loop_settle();
	CHECK_INT(used(&v, OUT)->idx, 4); /* what was for it is gone with it */
	v.ring[OUT].seen = 4;
	CHECK_STR(heard(), "0 6 0");
	next = client_new(0);
	CHECK_STR(heard(), "0 6 1");
	guest_writes(OUT, "hello");
	CHECK_STR(client_reads(next), "hello");
	client_writes(next, "hello");
	guest_offers(IN, gpa, PORT_BYTES);
	CHECK_INT(used(&v, IN)->idx, 1);
	close(next);
	end();
}

static void client_that_waits_is_served_when_the_first_is_gone(void)
{
	int first, second;

	begin();
	first = client_new(0);
	second = client_new(0);
	guest_writes(OUT, "to the first");
	CHECK_STR(client_reads(first), "to the first");
	CHECK_STR(client_reads(second), "(nothing)");
	client_writes(second, "early");
	close(first);
	loop_settle();
	CHECK_STR(heard(), "0 6 1");
	CHECK_STR(heard(), "0 6 0");
	CHECK_STR(heard(), "0 6 1");
	guest_writes(OUT, "to the second");
	CHECK_STR(client_reads(second), "to the second");
	guest_offers(IN, buffer(16), 16);
	CHECK_INT(used(&v, IN)->ring[0].len, 5);
	close(second);
	end();
}

static void ends_are_told_before_beginnings(void)
{
	int client;

	stage_start(RAM_BYTES);
	device_new(console_make());
	control_buffers_give(4);
	say(0, VIRTIO_CONSOLE_DEVICE_READY, 1);
	say(0, VIRTIO_CONSOLE_PORT_READY, 1);
	client = client_new(0);
	CHECK_STR(heard(), "0 1 1");
	CHECK_STR(heard(), "1 1 1");
	CHECK_STR(heard(), "0 7 1 carrel.agent");
	CHECK_STR(heard(), "0 6 1");
	for (unsigned i = 0; i < 5; i++) {
		close(client);
		loop_settle();
		client = client_new(0);
	}
	control_buffers_give(4);
	CHECK_STR(heard(), "0 6 0");
	CHECK_STR(heard(), "0 6 1");
	CHECK_STR(heard(), "");
	close(client);
	loop_settle();
	CHECK_STR(heard(), "0 6 0");
	end();
}

static void client_that_goes_leaves_no_busy_loop(void)
{
	uint64_t gpa;
	int client;

	begin();
	gpa = buffer(PORT_BYTES);
	for (unsigned i = 0; i < 8; i++) {
		client = client_new(0);
		if (i & 1)
			client_writes(client, "left behind");
		if (i & 2)
			guest_writes(OUT, "never read");
		if (i & 4) {
			shutdown(client, SHUT_WR);
			loop_settle();
		}
		close(client);
		loop_settle();
		guest_offers(IN, gpa, PORT_BYTES);
		v.ring[IN].seen = used(&v, IN)->idx;
		control_buffers_give(2);
	}
	end();
}

static void reset_forgets_the_driver_and_keeps_the_client(void)
{
	int client;

	begin();
	client = client_new(0);
	client_writes(client, "kept");
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	loop_settle();
	device_new(v.d);
	control_buffers_give(8);
	say(0, VIRTIO_CONSOLE_DEVICE_READY, 1);
	say(0, VIRTIO_CONSOLE_PORT_READY, 1);
	CHECK_STR(heard(), "0 1 1");
	CHECK_STR(heard(), "1 1 1");
	CHECK_STR(heard(), "0 7 1 carrel.agent");
	CHECK_STR(heard(), "0 6 1");
	say(0, VIRTIO_CONSOLE_PORT_OPEN, 1);
	guest_offers(IN, buffer(16), 16);
	CHECK_INT(used(&v, IN)->ring[0].len, 4);
	close(client);
	end();
}

static void broken_device_leaves_no_busy_loop(void)
{
	int client;

	begin();
	client = client_new(0);
	head_add(&v, OUT, 0x7fff);
	kick(&v, OUT);
	loop_settle();
	CHECK(broken(&v));
	CHECK_INT(write(client, "anyone?", 7), 7);
	loop_settle();
	close(client);
	loop_settle();
	client = client_new(0);
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	close(client);
	end();
}

static bool breaks(unsigned queue, struct piece p)
{
	bool is;

	begin();
	chain_add(&v, queue, &p, 1);
	kick(&v, queue);
	loop_settle();
	is = broken(&v);
	virtio_device_free(v.d);
	stage_end();
	return is;
}

static void wrong_direction_breaks(void)
{
	CHECK(breaks(OUT, (struct piece){ MEMORY_PAGE, 8, true }));
	CHECK(breaks(CONTROL_OUT, (struct piece){ MEMORY_PAGE, 8, true }));
	CHECK(breaks(CONTROL_OUT, (struct piece){ MEMORY_PAGE, 7, false }));
	CHECK(!breaks(CONTROL_OUT, (struct piece){ MEMORY_PAGE, 9, false }));
}

static void input_of_the_wrong_direction_breaks(void)
{
	int client;

	begin();
	client = client_new(0);
	chain_add(&v, IN, &(struct piece){ MEMORY_PAGE, 8, false }, 1);
	kick(&v, IN);
	loop_settle();
	CHECK(broken(&v));
	close(client);
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	end();
}

static void control_buffer_too_small_breaks(void)
{
	uint64_t gpa;

	stage_start(RAM_BYTES);
	device_new(console_make());
	gpa = buffer(8);
	*(struct virtio_console_control *)at(gpa) =
		(struct virtio_console_control){ 0, VIRTIO_CONSOLE_DEVICE_READY, 1 };
	chain_add(&v, CONTROL_IN, &(struct piece){ MEMORY_PAGE, 7, true }, 1);
	chain_add(&v, CONTROL_OUT, &(struct piece){ gpa, 8, false }, 1);
	kick(&v, CONTROL_OUT);
	loop_settle();
	CHECK(broken(&v));
	reg_set(&v, VIRTIO_MMIO_STATUS, 0);
	end();
}

static void messages_of_ports_that_are_not_there_do_nothing(void)
{
	begin();
	say(2, VIRTIO_CONSOLE_PORT_READY, 1);
	say(UINT32_MAX, VIRTIO_CONSOLE_PORT_OPEN, 1);
	say(0, UINT16_MAX, 1);
	say(0, VIRTIO_CONSOLE_RESIZE, 1);
	CHECK_STR(heard(), "");
	end();
}

static void names_and_counts_are_bounded(void)
{
	struct console_port_options port = { "a name that is longer than a port's name can be", -1 };
	struct virtio_device *d;

	stage_start(RAM_BYTES);
	port.listen_fd = listen_at(&address[0], 0);
	CHECK_INT(console_new(&ram, &the_loop, &port, 1, &d), -EINVAL);
	CHECK_INT(fcntl(port.listen_fd, F_GETFD), -1);
	CHECK_INT(console_new(&ram, &the_loop, &port, 0, &d), -EINVAL);
	stage_end();
}

int main(void)
{
	ports_are_told_by_name();
	next_client_is_heard_after_a_slow_one_left();
	client_that_waits_is_served_when_the_first_is_gone();
	ends_are_told_before_beginnings();
	client_that_goes_leaves_no_busy_loop();
	reset_forgets_the_driver_and_keeps_the_client();
	broken_device_leaves_no_busy_loop();
	wrong_direction_breaks();
	input_of_the_wrong_direction_breaks();
	control_buffer_too_small_breaks();
	messages_of_ports_that_are_not_there_do_nothing();
	names_and_counts_are_bounded();
	return 0;
}
