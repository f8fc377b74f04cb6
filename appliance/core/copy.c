/* Fork and snapshot: the set that both are made of, taken from a running sandbox
 * while it is halted or from the files of a paused one; and the snapshot's own end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../store/audit.h"
#include "../store/ids.h"
#include "instant.h"
#include "life.h"
#include "template.h"
#include "times.h"

static bool forks(const struct sandbox *sb)
{
	return sb->life->op->verb == LIFE_FORK;
}

void copy_cancel(struct sandbox *sb)
{
	fork_cancel(sb);
}

void copy_made(struct sandbox *sb, int err, const struct fault *f)
{
	struct life *l = sb->life;

	if (err < 0 && !l->err) {
		l->err = err;
		l->fault = *f;
		life_set_drop(sb);
	}
	l->making = false;
	l->made = true;
	if (l->back)
		life_end(sb, l->err);
}

/* --- snapshot --- */

static void snapshot_committed(struct sandbox *sb, int err, const char *message)
{
	struct fault f;

	if (!sb->life->op || sb->life->op->verb != LIFE_SNAPSHOT)
		return;
	if (err < 0) {
		fault_set(&f, -err, err == -ENOSPC ? 507 : 500, err == -ENOSPC ? "disk_full" : "store",
			  "The snapshot could not be stored: %.200s", message);
	} else {
		instant(INSTANT_SNAPSHOT_COMMITTED);
		tally_add(&sb->core->lives, "kept");
		/* From now on the files belong to the row. */
		sb->life->making = false;
	}
	copy_made(sb, err, &f);
}

static void snapshot_commit(struct sandbox *sb)
{
	struct life *l = sb->life;
	struct snapshot_row row = { .name = l->op->name,
				    .engine = engine_ops_of(sb->engine)->name,
				    .template_name = sb->template_name,
				    .image = sb->image,
				    .limits = limits_json(&sb->limits),
				    .env = sb->env,
				    .bytes = l->set.file_bytes,
				    .created_ms = unix_ms() };
	struct store_txn *t = store_txn_new(sb->core->store);
	char created_at[TIME_SIZE];
	json_t *detail = json_pack("{s:s}", "snapshot_id", l->made_id);

	memcpy(row.id, l->made_id, sizeof(row.id));
	memcpy(row.owner_id, sb->owner, sizeof(row.owner_id));
	memcpy(row.sandbox_id, sb->id, sizeof(row.sandbox_id));
	store_txn_snapshot(t, &row);
	store_txn_audit_by(t, life_asker(sb), sb->owner, sb->id, "snapshot_create", "ok", detail);
	json_decref(detail);
	time_format(row.created_ms, created_at);
	l->op->result = json_pack("{s:s,s:s*,s:s,s:s,s:s,s:s,s:o,s:I,s:s}", "id", row.id, "name", row.name,
				  "sandbox_id", sb->id, "engine", row.engine, "template", row.template_name,
				  "image", row.image, "limits", row.limits, "bytes", (json_int_t)row.bytes,
				  "created_at", created_at);
	sandbox_submit(sb, t, snapshot_committed);
}

static void seal_work(struct life_job *job)
{
	job->err = base_pin(job->snapshots, &job->set.base, job->pin, &job->fault);
	if (!job->err)
		job->err = set_seal(&job->set, job->path, NULL, job->extra, &job->fault);
}

static void seal_done(struct sandbox *sb, struct life_job *job)
{
	if (job->err < 0) {
		copy_made(sb, job->err, &job->fault);
		return;
	}
	instant(INSTANT_SNAPSHOT_SEALED);
	snapshot_commit(sb);
}

static void snapshot_seal_begin(struct sandbox *sb)
{
	struct life_job *job = life_job_new(sb);

	if (!job)
		return;
	life_snapshot_path(sb->core, sb->life->made_id, job->path);
	job->extra = json_pack("{s:s,s:s,s:s*}", "snapshot_id", sb->life->made_id, "sandbox_id", sb->id, "name",
			       sb->life->op->name);
	life_job_run(job, seal_work, seal_done);
}

/* --- from a running sandbox --- */

static void disk_work(struct life_job *job)
{
	int fd = open(job->disk, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		job->err = fault_set(&job->fault, errno, 500, "disk", "The sandbox's disk cannot be opened: %s.",
				     strerror(errno));
		return;
	}
	job->err = set_add_disk(&job->set, fd, &job->fault);
	close(fd);
	/* A snapshot is opened by who starts something from it. */
	if (!job->err && job->host.rootfs_fd >= 0)
		job->err = set_equip(&job->set, &job->host, &job->fault);
}

static void disk_done(struct sandbox *sb, struct life_job *job)
{
	if (job->err < 0) {
		life_fail(sb, job->err, &job->fault);
		return;
	}
	instant(INSTANT_COPY_COPIED);
	resume_continue(sb);
	if (forks(sb))
		fork_launch(sb);
	else
		snapshot_seal_begin(sb);
}

void copy_saved(struct sandbox *sb)
{
	struct life_job *job;

	life_step(sb, LIFE_COPY);
	job = life_job_new(sb);
	if (!job)
		return;
	snprintf(job->disk, sizeof(job->disk), "%s", sb->scratch_path);
	if (forks(sb))
		template_set_host(sb->core, sb->engine, &sb->base, &job->host);
	life_job_run(job, disk_work, disk_done);
}

/* --- from a paused one --- */

static void paused_work(struct life_job *job)
{
	struct set paused = SET_NONE, copy;

	job->err = set_open(job->from, job->disk, &job->host, &paused, &job->fault);
	if (job->err < 0)
		return;
	if (!job->making) { /* a fork: its copies start from the files that are there */
		job->set = paused;
		return;
	}
	job->err = set_begin(job->path, &copy, &job->fault);
	if (!job->err) {
		copy.cls = paused.cls;
		copy.base = paused.base;
		memcpy(copy.image, paused.image, sizeof(copy.image));
		memcpy(copy.fingerprint, paused.fingerprint, sizeof(copy.fingerprint));
		copy.inside = json_incref(paused.inside);
		job->set = copy;
		job->err = set_copy(&job->set, &paused, &job->fault);
	}
	set_close(&paused);
}

static void paused_done(struct sandbox *sb, struct life_job *job)
{
	if (job->err < 0) {
		life_fail(sb, job->err, &job->fault);
		return;
	}
	sb->life->back = true;
	life_step(sb, LIFE_COPIES);
	if (forks(sb))
		fork_launch(sb);
	else
		snapshot_seal_begin(sb);
}

static void paused_begin(struct sandbox *sb)
{
	struct life_job *job;

	life_step(sb, LIFE_COPY);
	sb->life->making = !forks(sb);
	job = life_job_new(sb);
	if (!job)
		return;
	life_snapshot_path(sb->core, sb->life->made_id, job->path);
	snprintf(job->disk, sizeof(job->disk), "%s", sb->scratch_path);
	life_set_path(sb, job->from);
	template_set_host(sb->core, sb->engine, &sb->base, &job->host);
	life_job_run(job, paused_work, paused_done);
}

void copy_begin(struct sandbox *sb)
{
	id_new(forks(sb) ? "frk" : "snap", sb->life->made_id);
	if (sb->state == SANDBOX_PAUSED && engine_ops_of(sb->engine)->saves)
		paused_begin(sb);
	else
		pause_begin(sb);
}
