#include "front.h"

#include <errno.h>
#include <fcgiapp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "request.h"
#include "respond.h"

enum {
	/* Connections that may wait for a thread; past it nginx answers 502. */
	FRONT_BACKLOG = 1024,
	/* Sandboxes being started at one time: more than any host can do at once. */
	FRONT_STARTS_MAX = 32,
	/* Deletes, interrupts and the like at one time; apart from starts, so that these cannot lock them
	   out. */
	FRONT_VERBS_MAX = 32,
	/* Streams past the bound, for owners who have few: however many one owner
	 * holds, the others find room. */
	FRONT_STREAM_SPARE = 16,
	FRONT_STREAM_FEW = 2,
	/* Threads past all streams that only tell clients so. */
	FRONT_REFUSERS = 4,
	/* At stop: time for requests under way to be answered. */
	FRONT_STOP_MS = 5000,
	/* Between accepts that fail for want of descriptors or memory. */
	FRONT_ACCEPT_PAUSE_MS = 100,
};

struct worker {
	pthread_t thread;
	struct lane *lane;
	pthread_mutex_t lock;
	int fd; /* connection being served, or -1; under lock, so that a stop never cuts a reused number */
	char owner[STORE_ID_MAX]; /* of the stream being served, or ""; under lock */
};

struct lane {
	struct front *front;
	bool stream;
	int fd;
	char path[108]; /* sun_path */
	struct worker *workers;
	unsigned count;
};

struct front {
	const struct settings *settings;
	struct store *store;
	struct core *core;
	struct hatches *hatches;
	struct lane quick, stream;
	unsigned limit[GATE_COUNT];
	atomic_uint inside[GATE_COUNT];
	int stop_event; /* readable once stopping */
	int idle_event; /* readable once the last worker returned */
	atomic_bool stopping;
	atomic_uint running; /* workers not yet returned */
};

bool front_gate_enter(struct front *f, enum gate gate)
{
	if (atomic_fetch_add(&f->inside[gate], 1) < f->limit[gate])
		return true;
	atomic_fetch_sub(&f->inside[gate], 1);
	return false;
}

void front_gate_leave(struct front *f, enum gate gate)
{
	atomic_fetch_sub(&f->inside[gate], 1);
}

unsigned front_gate_load(struct front *f, enum gate gate, unsigned *ret_limit)
{
	*ret_limit = gate == GATE_STREAM ? f->settings->stream_threads : f->limit[gate];
	return atomic_load(&f->inside[gate]);
}

bool front_stream_seat(struct front *f, struct worker *w, const char *owner)
{
	unsigned i, mine = 0;

	pthread_mutex_lock(&w->lock);
	snprintf(w->owner, sizeof(w->owner), "%s", owner);
	pthread_mutex_unlock(&w->lock);
	for (i = 0; i < f->stream.count; i++) {
		pthread_mutex_lock(&f->stream.workers[i].lock);
		mine += !strcmp(f->stream.workers[i].owner, owner);
		pthread_mutex_unlock(&f->stream.workers[i].lock);
	}
	return atomic_load(&f->inside[GATE_STREAM]) <= f->settings->stream_threads ||
	       mine <= FRONT_STREAM_FEW;
}

static void worker_hold(struct worker *w, int fd)
{
	pthread_mutex_lock(&w->lock);
	w->fd = fd;
	w->owner[0] = '\0';
	/* A connection accepted while the stop went through the workers. */
	if (fd >= 0 && w->lane->stream && atomic_load(&w->lane->front->stopping))
		connection_cut(fd);
	pthread_mutex_unlock(&w->lock);
}

static void worker_cut(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	if (w->fd >= 0)
		connection_cut(w->fd);
	pthread_mutex_unlock(&w->lock);
}

static void worker_serve(struct worker *w, FCGX_Request *fcgi)
{
	struct front *f = w->lane->front;
	struct request r = {
		.fcgi = fcgi,
		.settings = f->settings,
		.store = f->store,
		.core = f->core,
		.hatches = f->hatches,
		.front = f,
		.worker = w,
		.stream_socket = w->lane->stream,
	};

	worker_hold(w, fcgi->ipcFd);
	request_serve(&r);
	worker_hold(w, -1);
	FCGX_Finish_r(fcgi);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct front *f = w->lane->front;
	FCGX_Request fcgi;

	FCGX_InitRequest(&fcgi, w->lane->fd, 0);
	while (!atomic_load(&f->stopping)) {
		int err = FCGX_Accept_r(&fcgi);

		if (err == 0)
			worker_serve(w, &fcgi);
		else if (!atomic_load(&f->stopping))
			poll(&(struct pollfd){ f->stop_event, POLLIN, 0 }, 1, FRONT_ACCEPT_PAUSE_MS);
	}
	FCGX_Free(&fcgi, 1);
	if (atomic_fetch_sub(&f->running, 1) == 1)
		eventfd_write(f->idle_event, 1);
	return NULL;
}

static int lane_listen(struct lane *l, const char *run, const char *name, struct fault *f)
{
	int len = snprintf(l->path, sizeof(l->path), "%s/%s", run, name);

	if (len < 0 || (size_t)len >= sizeof(l->path))
		return fault_set(
			f, ENAMETOOLONG, 500, "bad_setting",
			"The run directory %s is too long for a socket's path; choose a shorter one.", run);
	l->fd = FCGX_OpenSocket(l->path, FRONT_BACKLOG);
	/* The run directory is the guard: only nginx and carreld may enter it. */
	if (l->fd < 0 || chmod(l->path, 0666))
		return fault_set(f, errno, 500, "socket", "The socket %s cannot be made: %s.", l->path,
				 strerror(errno));
	return 0;
}

static int lane_start(struct lane *l, unsigned threads, struct fault *f)
{
	l->workers = calloc(threads, sizeof(*l->workers));
	if (!l->workers)
		return fault_set(f, ENOMEM, 500, "out_of_memory", "There is no memory for %u workers.",
				 threads);
	for (; l->count < threads; l->count++) {
		struct worker *w = &l->workers[l->count];
		int err;

		*w = (struct worker){ .lane = l, .fd = -1 };
		pthread_mutex_init(&w->lock, NULL);
		atomic_fetch_add(&l->front->running, 1);
		err = pthread_create(&w->thread, NULL, worker_main, w);
		if (err) {
			atomic_fetch_sub(&l->front->running, 1);
			return fault_set(f, err, 500, "threads",
					 "Worker thread %u of %u cannot be started: %s.", l->count + 1,
					 threads, strerror(err));
		}
	}
	return 0;
}

static int front_open(struct front *f, struct fault *fault)
{
	const struct settings *s = f->settings;
	int err = FCGX_Init();

	if (err)
		return fault_set(fault, EIO, 500, "fcgi", "libfcgi cannot be initialised (%d).", err);
	f->stop_event = eventfd(0, EFD_CLOEXEC);
	f->idle_event = eventfd(0, EFD_CLOEXEC);
	if (f->stop_event < 0 || f->idle_event < 0)
		return fault_set(fault, errno, 500, "socket", "No descriptor is left: %s.", strerror(errno));
	err = lane_listen(&f->quick, s->run, "fcgi.sock", fault);
	if (!err)
		err = lane_listen(&f->stream, s->run, "stream.sock", fault);
	if (!err)
		err = lane_start(&f->quick, f->limit[GATE_QUICK], fault);
	if (!err)
		err = lane_start(&f->stream, f->limit[GATE_STREAM] + FRONT_REFUSERS, fault);
	return err;
}

int front_start(const struct settings *s, struct store *store, struct core *core, struct hatches *hatches,
		struct front **ret, struct fault *fault)
{
	struct front *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return fault_set(fault, ENOMEM, 500, "out_of_memory", "There is no memory for the front.");
	f->settings = s;
	f->store = store;
	f->core = core;
	f->hatches = hatches;
	f->quick = (struct lane){ .front = f, .fd = -1 };
	f->stream = (struct lane){ .front = f, .stream = true, .fd = -1 };
	f->stop_event = f->idle_event = -1;
	/* short_threads are left to quick requests when everything else is at its bound. */
	f->limit[GATE_QUICK] = s->short_threads + FRONT_STARTS_MAX + FRONT_VERBS_MAX;
	f->limit[GATE_START] = FRONT_STARTS_MAX;
	f->limit[GATE_VERB] = FRONT_VERBS_MAX;
	f->limit[GATE_STREAM] = s->stream_threads + FRONT_STREAM_SPARE;
	err = front_open(f, fault);
	if (err) {
		front_stop(f);
		return err;
	}
	*ret = f;
	return 0;
}

static void lane_cut(struct lane *l)
{
	for (unsigned i = 0; i < l->count; i++)
		worker_cut(&l->workers[i]);
}

static void lane_free(struct lane *l)
{
	for (unsigned i = 0; i < l->count; i++) {
		pthread_join(l->workers[i].thread, NULL);
		pthread_mutex_destroy(&l->workers[i].lock);
	}
	free(l->workers);
	if (l->fd < 0)
		return;
	close(l->fd);
	unlink(l->path);
}

static void close_event(int fd)
{
	if (fd >= 0)
		close(fd);
}

unsigned front_stop(struct front *f)
{
	atomic_store(&f->stopping, true);
	if (f->stop_event >= 0)
		eventfd_write(f->stop_event, 1);
	/* Wakes every thread out of accept(). */
	shutdown(f->quick.fd, SHUT_RDWR);
	shutdown(f->stream.fd, SHUT_RDWR);
	lane_cut(&f->stream);
	if (atomic_load(&f->running) > 0)
		poll(&(struct pollfd){ f->idle_event, POLLIN, 0 }, 1, FRONT_STOP_MS);
	if (atomic_load(&f->running) > 0)
		return atomic_load(&f->running);
	lane_free(&f->quick);
	lane_free(&f->stream);
	close_event(f->stop_event);
	close_event(f->idle_event);
	free(f);
	return 0;
}
