/* UNIT: vmm/virtio vmm/machine/memory.c LIBS: -luring */
/* Bytes through a port: both ways, all of them, in order, at the pace of the
 * slower side. */
#include "virtio_ports.h"

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

int main(void)
{
	bytes_go_both_ways();
	ports_are_apart();
	every_piece_of_a_chain_is_sent();
	slow_client_holds_the_guest_back();
	slow_guest_holds_the_client_back();
	port_without_buffers_goes_on_when_there_are_some();
	what_nobody_hears_is_discarded();
	last_words_arrive_where_there_is_room();
	closed_port_takes_nothing();
	return 0;
}
