/* A member's way up: disk, machine, link, identity, warm-up, pause; and its end. */
#include "pool_member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../store/ids.h"
#include "identity.h"
#include "images.h"
#include "instant.h"
#include "kernel.h"
#include "template.h"
#include "times.h"
#include "warmup.h"

/* --- the end --- */

void pool_member_free(struct pool_member *m)
{
	identity_free(m->identity);
	warmup_free(m->warmup);
	guest_free(m->machine.guest);
	json_decref(m->machine.kernels);
	if (m->machine.vm)
		engine_ops_of(m->template->engine)->free(m->machine.vm);
	hub_timer_free(m->timer);
	if (m->scratch_path[0])
		unlink(m->scratch_path);
	free(m);
}

static void member_finish(void *arg)
{
	struct pool_member *m = arg;

	if (m->working || (m->machine.vm && !m->vm_ended))
		return;
	pool_member_gone(m);
	pool_member_free(m);
}

void pool_member_end(struct pool_member *m, const char *why)
{
	if (m->step == POOL_OVER)
		return;
	if (why) {
		core_log("machine %s of the pool is given up: %s", m->id, why);
		pool_member_lost(m);
	}
	/* A snapshot whose clones do not come up is suspect, whoever cloned it. */
	if (why && !m->loaded && m->machine.vm)
		template_clone_result(m->template, false);
	m->step = POOL_OVER;
	hub_timer_stop(m->timer);
	if (m->machine.vm && !m->vm_ended)
		engine_ops_of(m->template->engine)->stop(m->machine.vm, REASON_ASKED);
	/* Not from inside a callback of the engine or the link. */
	hub_post(m->core->hub, &m->finish, member_finish, m);
}

static void on_timer(void *arg)
{
	pool_member_end(arg, "it did not come up in time.");
}

/* --- pause --- */

static void member_pause(struct pool_member *m)
{
	m->step = POOL_PAUSING;
	guest_paused(m->machine.guest, true);
	if (engine_ops_of(m->template->engine)->pause(m->machine.vm) < 0)
		pool_member_end(m, "the engine refused to pause it.");
}

static void on_vm_done(struct vm *vm, int err, const char *message, void *arg)
{
	struct pool_member *m = arg;

	(void)vm;
	if (m->step != POOL_PAUSING)
		return;
	if (err < 0) {
		pool_member_end(m, message);
		return;
	}
	hub_timer_stop(m->timer);
	m->step = POOL_READY;
	instant(INSTANT_POOL_READY);
	m->ready_ms = mono_ms();
	pool_member_filled(m);
}

/* --- warm-up and identity --- */

static void member_identify(struct pool_member *m, enum pool_step step);

static void on_warm(const char *message, void *arg)
{
	struct pool_member *m = arg;

	if (m->step != POOL_WARMUP)
		return;
	if (message) {
		pool_member_end(m, message);
		return;
	}
	instant(INSTANT_POOL_WARM);
	m->machine.received = warmup_received(m->warmup);
	m->machine.sent = warmup_sent(m->warmup);
	warmup_free(m->warmup);
	m->warmup = NULL;
	member_identify(m, POOL_SETTLING);
}

static void member_warm(struct pool_member *m)
{
	static const struct warmup_ops ops = { .over = on_warm };
	const struct snapshot *s = &m->template->snapshot;
	const struct warmup_kernel kernel = { .language = kernel_language(m->template->image, NULL),
					      .agent_id = KERNEL_DEFAULT_ID };

	m->step = POOL_WARMUP;
	m->warmup = warmup_new(WARMUP_CLONE, &kernel, s->received, s->sent, &ops, m);
	if (!m->warmup || warmup_attach(m->warmup, guest_link(m->machine.guest)) < 0)
		pool_member_end(m, "its kernel could not be asked to warm up.");
}

/* --- kernels --- */

static void member_kernel(struct pool_member *m);

static void on_kernel(int err, int status, json_t *reply, void *arg)
{
	struct pool_member *m = arg;
	struct fault f;

	if (m->step != POOL_KERNELS)
		return;
	if (err < 0 || status != 201) {
		guest_fault(&f, err, status, reply);
		pool_member_end(m, f.message);
		return;
	}
	m->language++;
	member_kernel(m);
}

/* One of each language, as in a warm snapshot. */
static void member_kernel(struct pool_member *m)
{
	const char *language = kernel_language_at(m->template->image, m->language);
	char id[STORE_ID_MAX];
	json_t *body;

	m->step = POOL_KERNELS;
	if (!language) {
		member_warm(m);
		return;
	}
	kernel_default_agent_id(m->template->image, language, id);
	body = json_pack("{s:s,s:s}", "id", id, "language", language);
	if (guest_call(m->machine.guest, "POST", "/kernels", body, POOL_FILL_MS, on_kernel, m) < 0)
		pool_member_end(m, "its agent could not be asked for a kernel.");
	json_decref(body);
}

static void on_identified(int err, const struct fault *f, json_t *kernels, void *arg)
{
	struct pool_member *m = arg;

	if (m->step != POOL_IDENTITY && m->step != POOL_SETTLING)
		return;
	if (err < 0) {
		pool_member_end(m, f->message);
	} else if (m->step == POOL_SETTLING) {
		json_decref(m->machine.kernels);
		m->machine.kernels = json_deep_copy(kernels);
		member_pause(m);
	} else {
		instant(INSTANT_POOL_IDENTIFIED);
		m->loaded = true;
		template_clone_result(m->template, true);
		if (m->template->fresh)
			member_kernel(m);
		else
			member_warm(m);
	}
}

static void member_identify(struct pool_member *m, enum pool_step step)
{
	struct limits *limits = &m->machine.limits;
	struct identity_spec spec = { .hostname = m->id,
				      .env = json_object_get(m->template->image->recipe, "env"),
				      .limits = limits };

	*limits = (struct limits){ .memory_mb = m->cls.memory_mb, .disk_mb = m->cls.disk_mb };
	image_limits(m->template->image, limits);
	m->step = step;
	identity_free(m->identity);
	m->identity = NULL;
	if (identity_send(m->machine.guest, &spec, on_identified, m, &m->identity) < 0)
		pool_member_end(m, "its agent could not be asked.");
}

/* --- link and machine --- */

static void on_link_up(struct guest *g, void *arg)
{
	struct pool_member *m = arg;

	(void)g;
	if (m->step == POOL_STARTING)
		member_identify(m, POOL_IDENTITY);
	else
		pool_member_end(m, "its link was cut.");
}

static void on_link_broken(struct guest *g, const char *reason, const char *message, void *arg)
{
	(void)g;
	(void)reason;
	pool_member_end(arg, message);
}

static void on_vm_started(struct vm *vm, const char *agent_path, void *arg)
{
	static const struct guest_ops ops = { .up = on_link_up, .broken = on_link_broken };
	struct pool_member *m = arg;

	(void)vm;
	if (m->step != POOL_STARTING)
		return;
	instant(INSTANT_POOL_STARTED);
	snprintf(m->machine.agent_path, sizeof(m->machine.agent_path), "%s", agent_path);
	m->machine.guest = guest_new(m->core->hub, agent_path, &ops, m);
	if (!m->machine.guest)
		pool_member_end(m, "out of memory.");
}

static void on_vm_ended(struct vm *vm, const char *reason, const char *message, void *arg)
{
	struct pool_member *m = arg;
	char text[400];

	(void)vm;
	m->vm_ended = true;
	snprintf(text, sizeof(text), "it ended (%s). %s", reason, message ? message : "");
	pool_member_end(m, text);
	hub_post(m->core->hub, &m->finish, member_finish, m);
}

static void member_launch(struct pool_member *m)
{
	static const struct vm_ops ops = { .started = on_vm_started,
					   .ended = on_vm_ended,
					   .done = on_vm_done };
	struct template *t = m->template;
	const struct vm_config config = { .id = m->id,
					  .mode = t->fresh ? VM_BOOT : VM_CLONE,
					  .cls = m->cls,
					  .ram_fd = t->snapshot.ram_fd,
					  .state_fd = t->snapshot.state_fd,
					  .pages_fd = -1,
					  .rootfs_fd = m->template->image->rootfs_fd,
					  .scratch_fd = m->scratch_fd,
					  .kernel_fd = -1,
					  .initrd_fd = -1,
					  .guest_fd = t->fresh ? m->template->image->guest_fd : -1,
					  .cpu_milli = m->cls.vcpus * 1000,
					  .deadline_boottime_ns =
						  boottime_of_unix_ms(unix_ms() + POOL_LIFE_MS) };

	m->step = POOL_STARTING;
	if (engine_ops_of(m->template->engine)->start(m->template->engine, &config, &ops, m, &m->machine.vm) < 0) {
		m->machine.vm = NULL;
		pool_member_end(m, "its machine could not be started.");
	}
}

/* --- disk --- */

static void scratch_work(void *arg)
{
	struct pool_member *m = arg;
	const struct image *image = m->template->image;
	struct limits limits = { 0 };
	int from = m->template->snapshot.scratch_fd;

	if (m->template->fresh) {
		image_limits(image, &limits);
		from = image->disk_mb == m->cls.disk_mb && !limits.inodes ? image->scratch_fd : -1;
	}
	m->scratch_err = scratch_make(m->scratch_path, from, m->cls.disk_mb, limits.inodes, &m->scratch_fd, &m->fault);
}

static void scratch_done(void *arg)
{
	struct pool_member *m = arg;

	m->working = false;
	m->template->users--;
	if (m->step == POOL_FILES && m->scratch_err < 0)
		pool_member_end(m, m->fault.message);
	else if (m->step == POOL_FILES) {
		instant(INSTANT_POOL_DISK);
		member_launch(m);
	}
	if (m->scratch_fd >= 0)
		close(m->scratch_fd);
	m->scratch_fd = -1;
	/* Its end waited for this. */
	if (m->step == POOL_OVER)
		hub_post(m->core->hub, &m->finish, member_finish, m);
}

struct pool_member *pool_member_new(struct core *c, struct template *t)
{
	struct pool_member *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct pool_member){ .core = c,
				   .template = t,
				   .generation = t->generation,
				   .cls = t->cls,
				   .began_ms = mono_ms(),
				   .scratch_fd = -1 };
	id_new("sbx", m->id);
	snprintf(m->scratch_path, sizeof(m->scratch_path), "%s/scratch/%s.ext4", c->settings->state, m->id);
	m->timer = hub_timer_new(c->hub, on_timer, m);
	if (!m->timer || hub_work(c->hub, scratch_work, scratch_done, m) < 0) {
		hub_timer_free(m->timer);
		free(m);
		return NULL;
	}
	m->working = true;
	t->users++;
	hub_timer_set(m->timer, POOL_FILL_MS);
	return m;
}

/* --- handed out --- */

bool pool_member_usable(const struct pool_member *m)
{
	return m->step == POOL_READY && m->generation == m->template->generation &&
	       m->template->state == TEMPLATE_READY && guest_is_up(m->machine.guest);
}

void pool_member_give(struct pool_member *m, struct sandbox *sb)
{
	instant(INSTANT_POOL_TAKEN);
	sandbox_machine_take(sb, &m->machine);
	m->machine = (struct ready_machine){ .vm = NULL };
	m->scratch_path[0] = '\0';
	pool_member_free(m);
}
