/* A console of two ports, its driver and its clients. Included once by a test. */
#ifndef CARREL_TESTS_VIRTIO_PORTS_H
#define CARREL_TESTS_VIRTIO_PORTS_H

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

static inline int listen_at(struct sockaddr_un *a, unsigned i)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* Without a path: an abstract name, gone with its socket. */
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "carrel-console-%d-%u", getpid(), i);
	CHECK_INT(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_INT(listen(fd, 8), 0);
	return fd;
}

static inline int client_new(unsigned port)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	CHECK_INT(connect(fd, (struct sockaddr *)&address[port], sizeof(address[port])), 0);
	loop_settle();
	return fd;
}

static inline struct virtio_device *console_make(void)
{
	struct console_port_options ports[2] = { { "carrel.agent", listen_at(&address[0], 0) },
						 { "carrel.host", listen_at(&address[1], 1) } };
	struct virtio_device *d;

	CHECK_INT(console_new(&ram, &the_loop, ports, 2, &d), 0);
	return d;
}

static inline void control_buffers_give(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = v.ring[CONTROL_IN].added % QUEUE_SIZE;

		chain_add(&v, CONTROL_IN,
			  &(struct piece){ control_gpa + slot * CONTROL_BYTES, CONTROL_BYTES, true }, 1);
	}
	kick(&v, CONTROL_IN);
	loop_settle();
}

static inline void say(uint32_t id, uint16_t event, uint16_t value)
{
	uint64_t gpa = buffer(sizeof(struct virtio_console_control));

	*(struct virtio_console_control *)at(gpa) = (struct virtio_console_control){ id, event, value };
	request(&v, CONTROL_OUT, &(struct piece){ gpa, 8, false }, 1);
	loop_settle();
}

/* The next control message, "ID EVENT VALUE NAME", or nothing. */
static inline const char *heard(void)
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

static inline void device_new(struct virtio_device *d)
{
	driver_start(&v, d, 1ull << VIRTIO_CONSOLE_F_MULTIPORT);
	control_gpa = buffer(QUEUE_SIZE * CONTROL_BYTES);
}

/* A driver that knows its ports, the first one open. */
static inline void begin(void)
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

static inline void end(void)
{
	loop_settle();
	CHECK(!broken(&v));
	virtio_device_free(v.d);
	stage_end();
}

static inline uint64_t text_make(const char *text)
{
	uint64_t gpa = buffer((uint32_t)strlen(text));

	memcpy(at(gpa), text, strlen(text));
	return gpa;
}

static inline void guest_writes(unsigned queue, const char *text)
{
	request(&v, queue, &(struct piece){ text_make(text), (uint32_t)strlen(text), false }, 1);
}

static inline void guest_offers(unsigned queue, uint64_t gpa, uint32_t len)
{
	chain_add(&v, queue, &(struct piece){ gpa, len, true }, 1);
	kick(&v, queue);
	loop_settle();
}

static inline const char *client_reads(int fd)
{
	static char text[64];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return errno == EAGAIN ? "(nothing)" : strerror(errno);
	text[n] = '\0';
	return n ? text : "(end)";
}

static inline void client_writes(int fd, const char *text)
{
	CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	loop_settle();
}

#endif
