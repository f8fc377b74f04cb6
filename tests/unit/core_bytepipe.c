/* UNIT: appliance appliance/core appliance/store vmm/host kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The pipe between a blocking worker and the hub: every byte once, in order, with
 * bounded memory; each side's end and fault reach the other. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/core/bytepipe.h"
#include "appliance/core/hub.h"
#include "check.h"

enum { TOTAL = 8 * 1024 * 1024 };

struct side {
	struct hub *hub;
	struct bytepipe *pipe;
	struct hub_item item;
	size_t at;
	bool done;
	uv_sem_t over;
};

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 31 + i / 251);
}

static void nothing(struct hub_call *call)
{
	hub_call_end(call, 0);
}

/* What was posted before has run: the side on the stack may go. */
static void barrier(struct hub *hub)
{
	struct hub_call call;

	CHECK_INT(hub_call(hub, &call, nothing), 0);
}

/* --- hub to worker --- */

static void feed(void *arg)
{
	struct side *h = arg;
	unsigned char chunk[10007];
	size_t n, i;

	while (!h->done) {
		size_t want = TOTAL - h->at < sizeof(chunk) ? TOTAL - h->at : sizeof(chunk);

		for (i = 0; i < want; i++)
			chunk[i] = byte_at(h->at + i);
		n = bytepipe_hub_write(h->pipe, chunk, want);
		h->at += n;
		if (h->at == TOTAL) {
			struct fault f = { .code = "late" };

			h->done = true;
			bytepipe_hub_close(h->pipe, &f);
		} else if (n < want) {
			return;
		}
	}
}

static void feed_changed(void *arg)
{
	struct side *h = arg;

	hub_post(h->hub, &h->item, feed, h);
}

static void to_worker(struct hub *hub)
{
	struct side h = { .hub = hub, .pipe = bytepipe_new() };
	unsigned char buf[30011];
	struct fault f;
	size_t got = 0, i;
	ssize_t n;

	bytepipe_on_change(h.pipe, feed_changed, &h);
	hub_post(hub, &h.item, feed, &h);
	while ((n = bytepipe_read(h.pipe, buf, sizeof(buf), -1, 5000)) > 0) {
		for (i = 0; i < (size_t)n; i++)
			CHECK(buf[i] == byte_at(got + i));
		got += (size_t)n;
	}
	CHECK_INT(n, 0);
	CHECK_INT(got, TOTAL);
	CHECK(bytepipe_fault(h.pipe, &f));
	CHECK_STR(f.code, "late");
	bytepipe_worker_close(h.pipe, NULL);
	barrier(hub);
}

/* --- worker to hub --- */

static void drain(void *arg)
{
	struct side *h = arg;
	unsigned char buf[9973];
	ssize_t n;
	size_t i;

	if (h->done)
		return;
	while ((n = bytepipe_hub_read(h->pipe, buf, sizeof(buf))) > 0) {
		for (i = 0; i < (size_t)n; i++)
			CHECK(buf[i] == byte_at(h->at + i));
		h->at += (size_t)n;
	}
	if (n == 0)
		return;
	CHECK_INT(n, -ENODATA);
	h->done = true;
	bytepipe_hub_close(h->pipe, NULL);
	uv_sem_post(&h->over);
}

static void drain_changed(void *arg)
{
	struct side *h = arg;

	hub_post(h->hub, &h->item, drain, h);
}

static void to_hub(struct hub *hub)
{
	struct side h = { .hub = hub, .pipe = bytepipe_new() };
	unsigned char chunk[65537];
	size_t at = 0, i;

	uv_sem_init(&h.over, 0);
	bytepipe_on_change(h.pipe, drain_changed, &h);
	while (at < TOTAL) {
		size_t want = TOTAL - at < sizeof(chunk) ? TOTAL - at : sizeof(chunk);

		for (i = 0; i < want; i++)
			chunk[i] = byte_at(at + i);
		CHECK_INT(bytepipe_write(h.pipe, chunk, want, -1, 5000), 0);
		at += want;
	}
	bytepipe_worker_close(h.pipe, NULL);
	uv_sem_wait(&h.over);
	barrier(hub);
	CHECK_INT(h.at, TOTAL);
	uv_sem_destroy(&h.over);
}

/* --- ends --- */

static void hub_gave_up(void)
{
	struct bytepipe *p = bytepipe_new();
	struct fault f = { .status = 507, .code = "disk_full" }, got;

	bytepipe_hub_close(p, &f);
	CHECK_INT(bytepipe_write(p, "x", 1, -1, 1000), -EPIPE);
	CHECK(bytepipe_fault(p, &got));
	CHECK_STR(got.code, "disk_full");
	bytepipe_worker_close(p, NULL);
}

static void worker_gave_up(void)
{
	struct bytepipe *p = bytepipe_new();
	struct fault f = { .code = "body" };
	char c;

	CHECK_INT(bytepipe_write(p, "x", 1, -1, 1000), 0);
	bytepipe_worker_close(p, &f);
	CHECK_INT(bytepipe_hub_read(p, &c, 1), 1);
	CHECK_INT(bytepipe_hub_read(p, &c, 1), -EPIPE);
	CHECK(bytepipe_worker_gone(p));
	bytepipe_hub_close(p, NULL);
}

static void waits_are_bounded(void)
{
	struct bytepipe *p = bytepipe_new();
	char *big = calloc(1, BYTEPIPE_MAX + 1), c;
	int ends[2];

	CHECK_INT(bytepipe_read(p, &c, 1, -1, 20), -ETIMEDOUT);
	CHECK_INT(bytepipe_write(p, big, BYTEPIPE_MAX + 1, -1, 20), -ETIMEDOUT);
	CHECK_INT(bytepipe_hub_write(p, "x", 1), 0);
	/* A client that hangs up ends the wait. */
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	close(ends[1]);
	CHECK_INT(bytepipe_write(p, "x", 1, ends[0], 5000), -EPIPE);
	close(ends[0]);
	bytepipe_hub_close(p, NULL);
	CHECK_INT(bytepipe_read(p, big, BYTEPIPE_MAX, -1, 1000), BYTEPIPE_MAX);
	CHECK_INT(bytepipe_read(p, big, BYTEPIPE_MAX, -1, 1000), 0);
	bytepipe_worker_close(p, NULL);
	free(big);
}

int main(void)
{
	struct hub *hub;

	CHECK_INT(hub_new(&hub), 0);
	CHECK_INT(hub_start(hub), 0);
	to_worker(hub);
	to_hub(hub);
	hub_free(hub);
	hub_gave_up();
	worker_gave_up();
	waits_are_bounded();
	return 0;
}
