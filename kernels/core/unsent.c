#include "core/unsent.h"
#include "core/wire.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

struct unsent *unsent_new(void)
{
	int fd = memfd_create(UNSENT_NAME, MFD_CLOEXEC);
	void *at;

	if (fd < 0)
		return NULL;
	at = ftruncate(fd, sizeof(struct unsent)) < 0 ?
		     MAP_FAILED :
		     mmap(NULL, sizeof(struct unsent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* The descriptor stays open: it is where the agent finds the memory. */
	if (at == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	return at;
}

struct writer {
	struct unsent *u;
	uint64_t at;
};

static void put(struct writer *w, const void *data, size_t len)
{
	size_t from = w->at % UNSENT_RING, first = len < UNSENT_RING - from ? len : UNSENT_RING - from;

	if (len == 0)
		return;
	memcpy(w->u->ring + from, data, first);
	memcpy(w->u->ring, (const char *)data + first, len - first);
	w->at += len;
}

static void put_u32(struct writer *w, size_t value)
{
	uint32_t v = htole32((uint32_t)value);

	put(w, &v, sizeof(v));
}

static struct writer begin(struct unsent *u, uint8_t kind, size_t len)
{
	struct writer w = { u, atomic_load_explicit(&u->put, memory_order_relaxed) };

	put_u32(&w, len);
	put(&w, &kind, sizeof(kind));
	return w;
}

/* Only now does the record count: a process that ends before leaves none, or a whole one. */
static uint64_t end(struct writer *w)
{
	atomic_store_explicit(&w->u->put, w->at, memory_order_release);
	return w->at;
}

uint64_t unsent_text(struct unsent *u, int stream, struct slice parent, const char *text, size_t len)
{
	struct writer w;

	if (!u)
		return 0;
	w = begin(u, stream ? UNSENT_STDERR : UNSENT_STDOUT, sizeof(uint32_t) + parent.len + len);
	put_u32(&w, parent.len);
	put(&w, parent.data, parent.len);
	put(&w, text, len);
	return end(&w);
}

uint64_t unsent_message(struct unsent *u, const struct slice *part, size_t n)
{
	const uint8_t channel = UNSENT_CHANNEL;
	size_t size = sizeof(channel) + sizeof(uint32_t), i;
	struct writer w;

	if (!u)
		return 0;
	for (i = 0; i < n; i++)
		size += sizeof(uint32_t) + part[i].len;
	if (size > UNSENT_RECORD_MAX)
		size = n = 0;
	w = begin(u, UNSENT_MESSAGE, size);
	if (size) {
		put(&w, &channel, sizeof(channel));
		put_u32(&w, n);
	}
	for (i = 0; i < n; i++) {
		put_u32(&w, part[i].len);
		put(&w, part[i].data, part[i].len);
	}
	return end(&w);
}
