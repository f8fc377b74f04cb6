/* FUZZ: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* A console's registers, rings and control messages, by any driver, and clients
 * that come, talk, listen and go. */
#include <sys/socket.h>
#include <sys/un.h>

#include "virtio.h"
#include "vmm/virtio/console.h"

enum { PORTS = 2, CLIENTS = 3 };

static int listening[PORTS], client[CLIENTS];
static struct sockaddr_un address[PORTS];
static socklen_t address_len[PORTS];

static int listen_new(unsigned port)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* The kernel names it. */
	CHECK_INT(bind(fd, &(struct sockaddr){ AF_UNIX }, sizeof(sa_family_t)), 0);
	CHECK_INT(listen(fd, CLIENTS), 0);
	address_len[port] = sizeof(address[port]);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&address[port], &address_len[port]), 0);
	return fd;
}

static struct virtio_device *make(void)
{
	struct console_port_options ports[PORTS] = { { "carrel.agent", dup(listening[0]) },
						     { "carrel.host", dup(listening[1]) } };
	struct virtio_device *d;

	CHECK_INT(console_new(&ram, &the_loop, ports, PORTS, &d), 0);
	return d;
}

static void client_end(unsigned i)
{
	if (client[i] >= 0)
		close(client[i]);
	client[i] = -1;
}

static void client_begin(unsigned i, unsigned port)
{
	client_end(i);
	client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (connect(client[i], (struct sockaddr *)&address[port], address_len[port]) != 0)
		client_end(i); /* the backlog is full */
}

static void own(struct driver *v, uint8_t a, uint8_t b)
{
	static char bytes[70000];
	unsigned i = a / 8 % CLIENTS;

	(void)v;
	switch (a % 6) {
	case 0:
		client_begin(i, b % PORTS);
		break;
	case 1:
		client_end(i);
		break;
	case 2:
	case 3:
		if (client[i] >= 0)
			send(client[i], bytes, b * (a % 6 == 2 ? 1u : 256u), MSG_NOSIGNAL);
		break;
	case 4:
		if (client[i] >= 0)
			shutdown(client[i], b % 3);
		break;
	default:
		if (client[i] >= 0 && read(client[i], bytes, b * 256u) < 0)
			CHECK(errno == EAGAIN || errno == ECONNRESET);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (unsigned i = 0; i < PORTS; i++)
		listening[i] = listen_new(i);
	for (unsigned i = 0; i < CLIENTS; i++)
		client[i] = -1;
	virtio_fuzz(data, size, make, own);
	for (unsigned i = 0; i < CLIENTS; i++)
		client_end(i);
	for (unsigned i = 0; i < PORTS; i++)
		close(listening[i]);
	return 0;
}
