/* virtio-console with named ports, each behind a listening unix socket.
 *
 * A port serves one client at a time; a further one waits in the socket's
 * backlog and is served at once when the first is gone. The guest is told by
 * PORT_OPEN when a client comes and when it goes. While a client is there
 * nothing is lost in either direction and nothing is buffered here: bytes wait
 * in the socket or in the guest's ring. What the guest writes while no client is
 * there is discarded, the rest of a half-written buffer too, and so is what a
 * client left behind that the guest had no room for: the link above starts each
 * connection anew and asks again for what it did not get, so kept bytes would
 * only stand in the next client's way.
 */
#ifndef CARREL_VMM_VIRTIO_CONSOLE_H
#define CARREL_VMM_VIRTIO_CONSOLE_H

struct guest_memory;
struct loop;
struct virtio_device;

enum { CONSOLE_PORTS_MAX = 2, CONSOLE_NAME_MAX = 32 };

struct console_port_options {
	const char *name; /* the guest finds the port by it; shorter than CONSOLE_NAME_MAX */
	int listen_fd;    /* a listening unix stream socket, nonblocking */
};

/* The sockets become the device's, also on failure, and are closed with it.
 * -EINVAL: none or too many ports, or a name too long. */
int console_new(const struct guest_memory *m, struct loop *l, const struct console_port_options *ports,
		unsigned count, struct virtio_device **ret);

#endif
