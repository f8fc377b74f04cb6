/* What `carrel kernel` asks over HTTP, each on libuv's pool: its sandbox's start
 * and end, interrupt, files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridge.h"

static void on_work(uv_work_t *work)
{
	struct bridge_job *job = work->data;

	job->http.multi = curl_multi_init();
	if (!job->http.multi) {
		job->code = EXIT_FAILED;
		snprintf(job->message, sizeof(job->message), "Out of memory.");
		return;
	}
	job->run(job);
	curl_multi_cleanup(job->http.multi);
}

static void on_done(uv_work_t *work, int status)
{
	struct bridge_job *job = work->data;

	(void)status;
	if (job->done)
		job->done(job);
	free(job);
}

bool bridge_job(struct bridge *b, void (*run)(struct bridge_job *job), void (*done)(struct bridge_job *job),
		void *arg)
{
	struct bridge_job *job = calloc(1, sizeof(*job));

	if (!job)
		return false;
	job->work.data = job;
	job->bridge = b;
	job->run = run;
	job->done = done;
	job->arg = arg;
	job->http.where = b->command->http.where;
	/* All that is asked here may be asked twice: a sandbox that was made for nobody is paused when it has been
	 * idle, and expires. */
	job->http.patient = true;
	memcpy(job->kernel_id, b->kernel_id, sizeof(job->kernel_id));
	memcpy(job->sandbox_id, b->sandbox_id, sizeof(job->sandbox_id));
	if (uv_queue_work(&b->loop, &job->work, on_work, on_done) == 0)
		return true;
	free(job);
	return false;
}

static int ask(struct bridge_job *job, const char *method, const char *path, json_t *body, json_t **ret)
{
	struct reply reply;
	int err = http_json(&job->http, method, path, body, ret, &reply);

	job->gone = err && reply.status == 404;
	if (err) {
		job->code = reply.unreachable ? EXIT_UNREACHABLE : EXIT_FAILED;
		snprintf(job->message, sizeof(job->message), "%s", reply.message);
	}
	return err;
}

static int kernel_ask(struct bridge_job *job, const char *method, const char *verb, json_t **ret)
{
	json_t *empty = strcmp(method, "POST") == 0 ? json_object() : NULL;
	char path[160];
	int err;

	snprintf(path, sizeof(path), "/jupyter/api/kernels/%s%s", job->kernel_id, verb);
	err = ask(job, method, path, empty, ret);
	json_decref(empty);
	return err;
}

/* --- which sandbox: kept beside the connection file while a restart is under way --- */

static void state_path(const struct bridge *b, char *ret, size_t size)
{
	snprintf(ret, size, "%s.carrel", b->options->connection_file);
}

void state_forget(const struct bridge *b)
{
	char path[4200];

	state_path(b, path, sizeof(path));
	unlink(path);
}

static void state_keep(const struct bridge *b, const char *kernel_id, const char *sandbox_id)
{
	json_t *state = json_pack("{s:s,s:s,s:s}", "url", b->command->http.where.url, "kernel_id", kernel_id,
				  "sandbox_id", sandbox_id);
	char path[4200];
	int fd;

	state_path(b, path, sizeof(path));
	fd = state ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
	/* Without it a restart makes a new sandbox. */
	if (fd < 0 || json_dumpfd(state, fd, JSON_COMPACT) < 0)
		fprintf(stderr, "carrel kernel: %s cannot be written; a restart will make a new sandbox\n",
			path);
	if (fd >= 0)
		close(fd);
	json_decref(state);
}

static bool state_read(struct bridge_job *job)
{
	const struct bridge *b = job->bridge;
	const char *url, *kernel_id, *sandbox_id;
	char path[4200];
	json_t *state;
	bool ok;

	state_path(b, path, sizeof(path));
	state = json_load_file(path, 0, NULL);
	url = json_string_value(json_object_get(state, "url"));
	kernel_id = json_string_value(json_object_get(state, "kernel_id"));
	sandbox_id = json_string_value(json_object_get(state, "sandbox_id"));
	ok = url && kernel_id && sandbox_id && strcmp(url, b->command->http.where.url) == 0;
	if (ok) {
		snprintf(job->kernel_id, sizeof(job->kernel_id), "%s", kernel_id);
		snprintf(job->sandbox_id, sizeof(job->sandbox_id), "%s", sandbox_id);
	}
	json_decref(state);
	return ok;
}

/* A process that was restarted finds its sandbox with a kernel that begins anew. */
static bool reuse(struct bridge_job *job)
{
	json_t *model = NULL;
	bool ok = state_read(job) && kernel_ask(job, "POST", "/restart", &model) == 0;

	json_decref(model);
	job->code = 0;
	job->reused = ok;
	return ok;
}

static int create(struct bridge_job *job)
{
	const struct bridge_options *o = job->bridge->options;
	json_t *body = json_pack("{s:s,s:i}", "name", o->language, "idle_s", (int)o->idle_s), *model = NULL;
	int err = ask(job, "POST", "/jupyter/api/kernels", body, &model);

	json_decref(body);
	if (err)
		return err;
	snprintf(job->kernel_id, sizeof(job->kernel_id), "%s", text_of(model, "id"));
	snprintf(job->sandbox_id, sizeof(job->sandbox_id), "%s", text_of(model, "sandbox_id"));
	json_decref(model);
	return 0;
}

void job_start(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	if (!reuse(job) && create(job) < 0)
		return;
	state_keep(b, job->kernel_id, job->sandbox_id);
	if (b->files)
		copy_files_in(b->files, &job->http, job->sandbox_id, job->message, sizeof(job->message));
}

void job_check(struct bridge_job *job)
{
	json_t *model = NULL;

	kernel_ask(job, "GET", "", &model);
	json_decref(model);
}

void job_interrupt(struct bridge_job *job)
{
	json_t *none = NULL;

	kernel_ask(job, "POST", "/interrupt", &none);
	json_decref(none);
}

void job_files(struct bridge_job *job)
{
	copy_files_back(job->bridge->files, &job->http, job->sandbox_id, job->message, sizeof(job->message));
}

/* Restart: the kernel's variables go, its sandbox and files stay. End: all of it goes when the client said
 * so; when it just went away, what it had is paused. */
void job_end(struct bridge_job *job)
{
	struct bridge *b = job->bridge;
	json_t *none = NULL, *empty;
	char path[160];

	job->http.wait_s = BRIDGE_END_S;
	if (!job->kernel_id[0])
		return;
	if (b->files)
		job_files(job);
	if (b->restart) {
		kernel_ask(job, "POST", "/restart", &none);
	} else if (b->shutdown || !b->used) {
		kernel_ask(job, "DELETE", "", &none);
	} else {
		snprintf(path, sizeof(path), "/v1/sandboxes/%s/pause", job->sandbox_id);
		empty = json_object();
		ask(job, "POST", path, empty, &none);
		json_decref(empty);
	}
	json_decref(none);
}
