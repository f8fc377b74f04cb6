/* FUZZ: kernels/agent/kernel_unsent.c kernels/agent/wire.c kernels/agent/util.c kernels/agent/tail.c LIBS: -ljansson -luv */
/* The memory that a dead kernel left, as its user may have written it: 2 bytes of
 * how far before the ring's end the records begin, 2 of the kept line's length, then what stands there. The
 * topic of its last message is the same bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/kernel.h"
#include "core/unsent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wire_part topic;
static size_t told;

struct wire_part jupyter_topic(const struct jupyter *j)
{
	(void)j;
	return topic;
}

struct wire_part kernel_cell(const struct kernel *k)
{
	(void)k;
	return wire_text("{}");
}

void kernel_channel_stream(struct kernel *k, struct wire_part parent, const char *name, json_t *text)
{
	(void)k;
	for (size_t i = 0; i < parent.len; i++)
		told += parent.bytes[i];
	told += json_string_length(text) + (size_t)name[0];
	json_decref(text);
}

void kernel_channel_message(struct kernel *k, struct wire_message *m)
{
	(void)k;
	for (unsigned i = 0; i < m->n; i++)
		for (size_t at = 0; at < m->part[i].len; at++)
			told += m->part[i].bytes[at];
}

static struct unsent *memory(int *ret_fd)
{
	static struct unsent *u;
	static int fd;

	if (!u) {
		fd = memfd_create(UNSENT_NAME, MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, sizeof(*u)) < 0)
			abort();
		u = mmap(NULL, sizeof(*u), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (u == MAP_FAILED)
			abort();
	}
	*ret_fd = fd;
	return u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel k = { .id = "fuzzed" };
	struct unsent *u = memory(&k.unsent_fd);
	char line[UNSENT_LINE_MAX];
	uint16_t from, n;

	if (size < sizeof(from) + sizeof(n))
		return 0;
	memcpy(&from, data, sizeof(from));
	memcpy(&n, data + sizeof(from), sizeof(n));
	data += sizeof(from) + sizeof(n);
	size -= sizeof(from) + sizeof(n);
	for (size_t i = 0; i < size; i++)
		u->ring[(UNSENT_RING - from + i) % UNSENT_RING] = data[i];
	u->line[0].n = n;
	topic = (struct wire_part){ data, size };
	kernel_unsent_heard(&k);
	/* An end before or far behind what was heard, then one that fits. */
	atomic_store(&u->put, k.heard > UNSENT_RING ? 1 : k.heard + UNSENT_RING + 1);
	kernel_unsent_left(&k);
	atomic_store(&u->put, (uint64_t)UNSENT_RING - from + size);
	k.heard = UNSENT_RING - from;
	kernel_unsent_left(&k);
	if (kernel_unsent_line(&k, 0, line) > sizeof(line))
		abort();
	return 0;
}
