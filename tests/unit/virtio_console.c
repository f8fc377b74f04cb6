/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Ports and their clients: bytes both ways, clients that come and go, and a
 * driver that does neither well. */
#include <fcntl.h>
#include <linux/virtio_console.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "virtio_driver.h"
#include "vmm/virtio/console.h"

enum { IN, OUT, CONTROL_IN, CONTROL_OUT, IN2, OUT2, PORT_BYTES = 4096, CONTROL_BYTES = 64 };

static struct driver v;
static struct sockaddr_un address[2];
static uint64_t control_gpa; /* of QUEUE_SIZE buffers */

static int listen_at(struct sockaddr_un *a, unsigned i)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* Without a path: an abstract name, gone with its socket. */
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "carrel-console-%d-%u", getpid(), i);
	CHECK_INT(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_INT(listen(fd, 8), 0);
	return fd;
}

static int client_new(unsigned port)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	CHECK_INT(connect(fd, (struct sockaddr *)&address[port], sizeof(address[port])), 0);
	loop_settle();
	return fd;
}

static struct virtio_device *console_make(void)
{
	struct console_port_options ports[2] = { { "carrel.agent", listen_at(&address[0], 0) },
						 { "carrel.host", listen_at(&address[1], 1) } };
	struct virtio_device *d;

	CHECK_INT(console_new(&ram, &the_loop, ports, 2, &d), 0);
	return d;
}

static void control_buffers_give(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = v.ring[CONTROL_IN].added % QUEUE_SIZE;

		chain_add(&v, CONTROL_IN,
			  &(struct piece){ control_gpa + slot * CONTROL_BYTES, CONTROL_BYTES, true }, 1);
	}
	kick(&v, CONTROL_IN);
	loop_settle();
}

static void say(uint32_t id, uint16_t event, uint16_t value)
{
	uint64_t gpa = buffer(sizeof(struct virtio_console_control));

	*(struct virtio_console_control *)at(gpa) = (struct virtio_console_control){ id, event, value };
	request(&v, CONTROL_OUT, &(struct piece){ gpa, 8, false }, 1);
	loop_settle();
}

/* The next control message, "ID EVENT VALUE NAME", or nothing. */
static const char *heard(void)
{
	static char text[96];
	const struct virtio_console_control *c;
	struct vring_used_elem e;

	if (!used_next(&v, CONTROL_IN, &e))
		return "";
	c = at(desc(&v, CONTROL_IN, e.id)->addr);
	snprintf(text, sizeof(text), "%u %u %u%s%.*s", c->id, c->event, c->value, e.len > 8 ? " " : "",
		 (int)(e.len - 8), (const char *)(c + 1));
	return text;
}

static void device_new(struct virtio_device *d)
{
	driver_start(&v, d, 1ull << VIRTIO_CONSOLE_F_MULTIPORT);
	control_gpa = buffer(QUEUE_SIZE * CONTROL_BYTES);
}

/* A driver that knows its ports, the first one open. */
static void begin(void)
{
	stage_start(RAM_BYTES);
	device_new(console_make());
	control_buffers_give(12);
	say(UINT32_MAX, VIRTIO_CONSOLE_DEVICE_READY, 1);
	CHECK_STR(heard(), "0 1 1");
	CHECK_STR(heard(), "1 1 1");
	say(0, VIRTIO_CONSOLE_PORT_READY, 1);
	CHECK_STR(heard(), "0 7 1 carrel.agent");
	say(1, VIRTIO_CONSOLE_PORT_READY, 1);
	CHECK_STR(heard(), "1 7 1 carrel.host");
	say(0, VIRTIO_CONSOLE_PORT_OPEN, 1);
	CHECK_STR(heard(), "");
}

static void end(void)
{
	loop_settle();
	CHECK(!broken(&v));
	virtio_device_free(v.d);
	stage_end();
}

static uint64_t text_make(const char *text)
{
	uint64_t gpa = buffer((uint32_t)strlen(text));

	memcpy(at(gpa), text, strlen(text));
	return gpa;
}

static void guest_writes(unsigned queue, const char *text)
{
	request(&v, queue, &(struct piece){ text_make(text), (uint32_t)strlen(text), false }, 1);
}

static void guest_offers(unsigned queue, uint64_t gpa, uint32_t len)
{
	chain_add(&v, queue, &(struct piece){ gpa, len, true }, 1);
	kick(&v, queue);
	loop_settle();
}

static const char *client_reads(int fd)
{
	static char text[64];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return errno == EAGAIN ? "(nothing)" : strerror(errno);
	text[n] = '\0';
	return n ? text : "(end)";
}

static void client_writes(int fd, const char *text)
{
	CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	loop_settle();
}

static void ports_are_told_by_name(void)
{
	begin();
	CHECK_INT(reg(&v, 0x104), 2);
	end();
}

static void bytes_go_both_ways(void)
{
	struct vring_used_elem e;
	uint64_t gpa;
	int client;

	begin();
	client = client_new(0);
	CHECK_STR(heard(), "0 6 1");
	guest_writes(OUT, "from the guest");
	CHECK_STR(client_reads(client), "from the guest");
	client_writes(client, "from outside");
	gpa = buffer(PORT_BYTES);
	guest_offers(IN, gpa, PORT_BYTES);
	CHECK(used_next(&v, IN, &e));
	CHECK_INT(e.len, 12);
	CHECK(memcmp(at(gpa), "from outside", 12) == 0);
	close(client);
	loop_settle();
	CHECK_STR(heard(), "0 6 0");
	end();
}

static void ports_are_apart(void)
{
	int first, second;

	begin();
	say(1, VIRTIO_CONSOLE_PORT_OPEN, 1);
	first = client_new(0);
	second = client_new(1);
	CHECK_STR(heard(), "0 6 1");
	CHECK_STR(heard(), "1 6 1");
	guest_writes(OUT2, "second");
	guest_writes(OUT, "first");
	CHECK_STR(client_reads(first), "first");
	CHECK_STR(client_reads(second), "second");
	close(first);
	close(second);
	end();
}

/* Pieces of a chain, each of them, in order. */
static void every_piece_of_a_chain_is_sent(void)
{
	struct piece three[3];
	int client;

	begin();
	client = client_new(0);
	three[0] = (struct piece){ text_make("one "), 4, false };
	three[1] = (struct piece){ text_make("two "), 4, false };
	three[2] = (struct piece){ text_make("three"), 5, false };
	request(&v, OUT, three, 3);
	CHECK_STR(client_reads(client), "one two three");
	close(client);
	end();
}

/* A byte of what the guest sent, by its place. */
static uint8_t pattern(uint64_t i)
{
	return (uint8_t)(i * 31 + i / 251);
}

static uint64_t client_drains(int fd, uint64_t done)
{
	static uint8_t bytes[PORT_BYTES];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++, done++)
			CHECK_INT(bytes[i], pattern(done));
	return done;
}

/* The client does not read: the guest's buffers stay out, and not a byte is lost. */
static void slow_client_holds_the_guest_back(void)
{
	enum { CHUNK = 50000, CHUNKS = 100 };
	struct vring_used_elem e;
	uint64_t gpa, sent = 0, got = 0;
	unsigned out = 0, stalls = 0;
	int client;

	begin();
	client = client_new(0);
	gpa = buffer(QUEUE_SIZE * CHUNK);
	for (unsigned i = 0; i < CHUNKS; i++) {
		uint64_t to = gpa + i % QUEUE_SIZE * CHUNK;

		for (unsigned k = 0; k < CHUNK; k++, sent++)
			((uint8_t *)at(to))[k] = pattern(sent);
		chain_add(&v, OUT, &(struct piece){ to, CHUNK, false }, 1);
		kick(&v, OUT);
		loop_settle();
		for (out++; used_next(&v, OUT, &e); out--)
			;
		for (; out == QUEUE_SIZE; stalls++) {
			got = client_drains(client, got);
			for (loop_settle(); used_next(&v, OUT, &e); out--)
				;
		}
	}
	for (; out > 0; loop_settle()) {
		got = client_drains(client, got);
		for (loop_settle(); used_next(&v, OUT, &e); out--)
			;
	}
	CHECK_INT(client_drains(client, got), CHUNK * CHUNKS);
	CHECK(stalls > 0);
	close(client);
	end();
}

/* The guest does not read: the client is held back by its socket, nothing
 * piles up here (FC #2177), and the loop sleeps (FC #6031). */
static void slow_guest_holds_the_client_back(void)
{
	enum { CHUNK = 4096 };
	static uint8_t bytes[CHUNK];
	struct vring_used_elem e;
	uint64_t sent = 0, got = 0, gpa;
	int client;

	begin();
	client = client_new(0);
	gpa = buffer(PORT_BYTES);
	for (unsigned round = 0; round < 2000; round++) {
		ssize_t n = 1;

		for (unsigned i = 0; i < CHUNK; i++)
			bytes[i] = pattern(sent + i);
		while (n > 0 && got < sent + 1) {
			n = write(client, bytes, CHUNK - (size_t)(sent % CHUNK));
			if (n > 0)
				sent += (uint64_t)n;
			for (unsigned i = 0; i < CHUNK; i++)
				bytes[i] = pattern(sent + i);
		}
		loop_settle();
		guest_offers(IN, gpa, PORT_BYTES);
		CHECK(used_next(&v, IN, &e) && e.len > 0);
		for (uint32_t i = 0; i < e.len; i++, got++)
			CHECK_INT(((uint8_t *)at(gpa))[i], pattern(got));
		CHECK(sent - got < 4 << 20);
	}
	CHECK(got >= 2000);
	close(client);
	end();
}

/* CVE-2020-16843's class: out of buffers once is not for good. */
static void port_without_buffers_goes_on_when_there_are_some(void)
{
	struct vring_used_elem e;
	uint64_t gpa;
	int client;

	begin();
	gpa = buffer(8);
	client = client_new(0);
	guest_offers(IN, gpa, 2);
	client_writes(client, "abcdef");
	for (unsigned i = 0; i < 3; i++) {
		CHECK(used_next(&v, IN, &e));
		CHECK_INT(e.len, 2);
		CHECK(memcmp(at(gpa), "abcdef" + 2 * i, 2) == 0);
		guest_offers(IN, gpa, 2);
	}
	CHECK(!used_next(&v, IN, &e));
	client_writes(client, "g");
	CHECK(used_next(&v, IN, &e));
	close(client);
	end();
}

/* QEMU's port stays throttled after its client left, and is deaf to the next. */
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

/* The driver gives no buffer for messages for a while: it hears of the end of
 * one client before it hears of the next. */
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

static void what_nobody_hears_is_discarded(void)
{
	int client;

	begin();
	guest_writes(OUT, "into the void");
	client = client_new(0);
	CHECK_STR(client_reads(client), "(nothing)");
	guest_writes(OUT, "heard");
	CHECK_STR(client_reads(client), "heard");
	close(client);
	end();
}

/* FC #6041, #6077: an end of file, an end of both, an end with bytes unread. */
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

/* What a client sent before it left arrives where there is room for it. */
static void last_words_arrive_where_there_is_room(void)
{
	struct vring_used_elem e;
	uint64_t gpa;
	int client;

	begin();
	gpa = buffer(PORT_BYTES);
	guest_offers(IN, gpa, PORT_BYTES);
	client = client_new(0);
	CHECK_INT(write(client, "last words", 10), 10);
	close(client);
	loop_settle();
	CHECK(used_next(&v, IN, &e));
	CHECK_INT(e.len, 10);
	end();
}

/* Nothing goes into a port that no program of the guest has open. */
static void closed_port_takes_nothing(void)
{
	uint64_t gpa;
	int client;

	begin();
	gpa = buffer(PORT_BYTES);
	client = client_new(1);
	client_writes(client, "patience");
	guest_offers(IN2, gpa, PORT_BYTES);
	CHECK_INT(used(&v, IN2)->idx, 0);
	say(1, VIRTIO_CONSOLE_PORT_OPEN, 1);
	CHECK_INT(used(&v, IN2)->idx, 1);
	say(1, VIRTIO_CONSOLE_PORT_OPEN, 0);
	guest_offers(IN2, gpa, PORT_BYTES);
	client_writes(client, "again");
	CHECK_INT(used(&v, IN2)->idx, 1);
	close(client);
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
	bytes_go_both_ways();
	ports_are_apart();
	every_piece_of_a_chain_is_sent();
	slow_client_holds_the_guest_back();
	slow_guest_holds_the_client_back();
	port_without_buffers_goes_on_when_there_are_some();
	next_client_is_heard_after_a_slow_one_left();
	client_that_waits_is_served_when_the_first_is_gone();
	ends_are_told_before_beginnings();
	what_nobody_hears_is_discarded();
	client_that_goes_leaves_no_busy_loop();
	last_words_arrive_where_there_is_room();
	closed_port_takes_nothing();
	reset_forgets_the_driver_and_keeps_the_client();
	broken_device_leaves_no_busy_loop();
	wrong_direction_breaks();
	input_of_the_wrong_direction_breaks();
	control_buffer_too_small_breaks();
	messages_of_ports_that_are_not_there_do_nothing();
	names_and_counts_are_bounded();
	return 0;
}
