#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"
#include "template_inner.h"

enum {
	/* One that imports its libraries only now, on a badly loaded host; as template_build.c watches over it. */
	KERNEL_MS = 400 * 1000,
};

/* --- warm-up --- */

static void on_warm_began(void *arg)
{
	build_step(arg, STEP_WARMUP);
}

static void channel_note(struct template_build *b)
{
	struct snapshot *s = &b->snapshot;
	struct snapshot_channel *c = &s->warm[s->warm_count];

	if (b->language == 0) {
		s->received = warmup_received(b->warmup);
		s->sent = warmup_sent(b->warmup);
		return;
	}
	snprintf(c->language, sizeof(c->language), "%s", kernel_language_at(b->template->image, b->language));
	c->received = warmup_received(b->warmup);
	c->sent = warmup_sent(b->warmup);
	s->warm_count++;
}

void template_warm_attach(struct template_build *b)
{
	/* A failure is the link's loss: on_up() comes again. */
	warmup_attach(b->warmup, guest_link(b->guest));
}

static const char *warm_code(const struct template_build *b, const char *language)
{
	return json_string_value(json_object_get(json_object_get(b->template->image->recipe, "warm"), language));
}

static void on_warm(const char *message, void *arg);

/* False: no further kernel has something to do. */
static bool build_warm(struct template_build *b)
{
	static const struct warmup_ops ops = { .began = on_warm_began, .over = on_warm };
	const struct image *image = b->template->image;
	struct warmup_kernel kernel = { .language = kernel_language_at(image, b->language) };
	char agent_id[STORE_ID_MAX];

	while (b->language > 0 && kernel.language && !warm_code(b, kernel.language))
		kernel.language = kernel_language_at(image, ++b->language);
	if (!kernel.language || b->snapshot.warm_count == SNAPSHOT_WARM_MAX)
		return false;
	kernel_default_agent_id(image, kernel.language, agent_id);
	kernel.agent_id = agent_id;
	kernel.code = warm_code(b, kernel.language);
	warmup_free(b->warmup);
	b->warmup = warmup_new(WARMUP_TEMPLATE, &kernel, 0, 0, &ops, b);
	if (b->warmup)
		template_warm_attach(b);
	else
		build_fail(b, "Out of memory.");
	return true;
}

static void warm_next(void *arg)
{
	struct template_build *b = arg;

	b->next_waits = false;
	if (b->failed) {
		build_finish(b);
		return;
	}
	channel_note(b);
	b->language++;
	if (!build_warm(b))
		build_freeze(b);
}

static void on_warm(const char *message, void *arg)
{
	struct template_build *b = arg;

	if (b->failed)
		return;
	if (message) {
		if (strncmp(message, "WARM", 4) == 0)
			fault_set(&b->fault, EIO, 500, TEMPLATE_WARM_FAILED, "%s", message);
		build_fail(b, message);
		return;
	}
	/* Not from inside the channel's callback, which goes. */
	b->next_waits = true;
	hub_post(b->core->hub, &b->next, warm_next, b);
}

/* --- kernels --- */

static void build_kernel(struct template_build *b);

static void on_kernel(int err, int status, json_t *reply, void *arg)
{
	struct template_build *b = arg;
	struct fault f;

	if (b->failed)
		return;
	if (err < 0 || (status != 201 && status != 409)) {
		guest_fault(&f, err, status, reply);
		build_fail(b, f.message);
		return;
	}
	b->language++;
	b->kernel_made = !kernel_language_at(b->template->image, b->language);
	if (!b->kernel_made) {
		build_kernel(b);
		return;
	}
	b->language = 0;
	build_warm(b);
}

/* One of each language: the first cell of any is a warm one. */
static void build_kernel(struct template_build *b)
{
	const char *language = kernel_language_at(b->template->image, b->language);
	char id[STORE_ID_MAX];
	json_t *body;

	build_step(b, STEP_KERNEL);
	kernel_default_agent_id(b->template->image, language, id);
	body = json_pack("{s:s,s:s}", "id", id, "language", language);
	if (guest_call(b->guest, "POST", "/kernels", body, KERNEL_MS, on_kernel, b) < 0)
		build_fail(b, "The link to the template's machine was lost.");
	json_decref(body);
}

void template_warm_begin(struct template_build *b)
{
	b->language = 0;
	build_kernel(b);
}
