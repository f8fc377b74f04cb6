#include "health.h"

#include <unistd.h>

#include "agent.h"
#include "util.h"
#include "worker.h"

void health_get(struct request *rq)
{
	struct agent *a = rq->agent;

	request_answer(rq, 200,
		       json_pack("{s:i, s:b, s:I, s:s}", "version", 1, "identified", a->identified, "unix_ns",
				 (json_int_t)now_unix_ns(), "boot_id", a->boot_id));
}

struct freeze {
	struct request *rq;
	bool drop_caches;
	int err;
};

static void freeze_work(void *arg)
{
	struct freeze *f = arg;

	sync();
	/* Pages of files that nothing has mapped would only make the snapshot larger. */
	if (f->drop_caches)
		f->err = file_write("/proc/sys/vm/drop_caches", "1");
}

static void freeze_done(void *arg)
{
	struct freeze *f = arg;

	if (f->err)
		request_fail(f->rq, 500, "freeze", "Caches cannot be dropped: %s.", strerror(-f->err));
	else
		request_answer(f->rq, 200, json_object());
	free(f);
}

void health_freeze(struct request *rq)
{
	struct freeze *f = xcalloc(1, sizeof(*f));

	f->rq = rq;
	f->drop_caches = rq->agent->opt.own_kernel;
	worker_run(rq->agent, false, freeze_work, freeze_done, f);
}
