#include "usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vmm/host/spawn_link.h"
#include "../store/usage.h"
#include "sandbox.h"
#include "times.h"

struct usage {
	struct core *core;
	/* Of its own: an engine's connection is the engine's. */
	struct spawn_link *link;
	struct hub_timer *timer;
};

static void on_connected(void *arg)
{
	(void)arg;
}

/* When it could have used the rest at the earliest. */
static void limit_wait(struct sandbox *sb)
{
	double left_us = sb->limits.cpu_s * 1e6 - (double)sb->used.life_us;
	double ms = left_us / 1000 / sb->limits.cpus;

	hub_timer_set(sb->used.limit, ms > USAGE_LIMIT_MS ? (uint64_t)ms : USAGE_LIMIT_MS);
}

/* What its start took is no part of it: how long that is, is not the sandbox's to say. */
static void life_begin(struct sandbox *sb)
{
	struct store_txn *t = store_txn_new(sb->core->store);

	sb->used.life_us = 0;
	usage_account(sb, t);
	store_txn_submit(t, NULL, NULL);
}

static void limit_check(struct sandbox *sb)
{
	char message[128];

	if (!sb->limits.cpu_s || sb->state != SANDBOX_RUNNING)
		return;
	if (sb->used.life_us < 0)
		life_begin(sb);
	if (sb->used.life_us < (int64_t)sb->limits.cpu_s * 1000000) {
		limit_wait(sb);
		return;
	}
	snprintf(message, sizeof(message), "It has used the %u CPU seconds that its limit cpu_s allows.", sb->limits.cpu_s);
	sandbox_end(sb, REASON_CPU_LIMIT, message);
}

/* Read again soon where the answer does not come: carrel-spawn is away. */
static void on_limit(void *arg)
{
	struct sandbox *sb = arg;

	if (sb->state != SANDBOX_RUNNING)
		return;
	usage_read(sb);
	hub_timer_set(sb->used.limit, 4 * USAGE_LIMIT_MS);
}

int usage_begin(struct sandbox *sb)
{
	sb->used.life_us = -1;
	sb->used.limit = hub_timer_new(sb->core->hub, on_limit, sb);
	return sb->used.limit ? 0 : -ENOMEM;
}

void usage_watch(struct sandbox *sb)
{
	if (sb->limits.cpu_s)
		on_limit(sb);
}

void usage_forget(struct sandbox *sb)
{
	hub_timer_free(sb->used.limit);
	sb->used.limit = NULL;
}

static void on_reply(const struct spawn_reply *reply, void *arg)
{
	struct usage *u = arg;
	struct sandbox *sb = sandbox_find(u->core, NULL, reply->id);

	if (reply->verb != SPAWN_STAT || reply->error || !reply->running || !sb)
		return;
	if (reply->cpu_usec > sb->used.read_us) {
		if (sb->used.life_us >= 0)
			sb->used.life_us += (int64_t)(reply->cpu_usec - sb->used.read_us);
		sb->used.read_us = reply->cpu_usec;
	}
	limit_check(sb);
}

void usage_read(struct sandbox *sb)
{
	struct spawn_request request = { .verb = SPAWN_STAT };

	memcpy(request.id, sb->id, sizeof(request.id));
	/* While carrel-spawn is away there is nothing to read; the counter waits for it. */
	if (sb->vm && sb->core->usage)
		(void)spawn_link_send(sb->core->usage->link, &request, NULL, 0);
}

static bool counts(const struct sandbox *sb)
{
	return sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_ENDING;
}

static uint64_t unaccounted(const struct sandbox *sb)
{
	return sb->used.left_us + sb->used.read_us - sb->used.counter_us;
}

static void account(struct sandbox *sb, struct store_txn *t, const char *ended)
{
	int64_t now = unix_ms(), ran = sb->used.at_ms && now > sb->used.at_ms ? now - sb->used.at_ms : 0;
	struct usage_row row = { .sandbox_id = sb->id,
				 .owner_id = sb->owner,
				 .metadata = sb->metadata,
				 .at_ms = !ended && counts(sb) ? now : 0,
				 .counter_us = (int64_t)sb->used.read_us,
				 .life_us = sb->used.life_us,
				 .cpu_us = (int64_t)unaccounted(sb),
				 .mib_ms = ran * sb->limits.memory_mb,
				 .ended = ended };

	store_txn_usage(t, &row);
	sb->used.at_ms = row.at_ms;
	sb->used.counter_us = sb->used.read_us;
	sb->used.left_us = 0;
}

void usage_account(struct sandbox *sb, struct store_txn *t)
{
	account(sb, t, NULL);
}

void usage_end(struct sandbox *sb, struct store_txn *t)
{
	account(sb, t, sb->reason);
}

void usage_machine(struct sandbox *sb)
{
	sb->used.left_us = unaccounted(sb);
	sb->used.counter_us = sb->used.read_us = 0;
}

void usage_recover(struct sandbox *sb)
{
	int64_t counter = 0;

	if (store_usage_reading(sb->core->store, sb->id, &sb->used.at_ms, &counter, &sb->used.life_us) < 0)
		core_log("sandbox %s: how far it was accounted for cannot be read", sb->id);
	sb->used.counter_us = sb->used.read_us = (uint64_t)counter;
}

/* What was read since the last turn is accounted for, and the next reading is asked for. */
static void on_timer(void *arg)
{
	struct usage *u = arg;
	struct store_txn *t;
	struct sandbox *sb;

	hub_timer_set(u->timer, USAGE_EVERY_MS);
	if (!u->core->sandboxes)
		return;
	t = store_txn_new(u->core->store);
	store_txn_soft(t);
	for (sb = u->core->sandboxes; sb; sb = sb->next) {
		if (sb->used.at_ms || counts(sb) || unaccounted(sb) > 0)
			account(sb, t, NULL);
		usage_read(sb);
	}
	store_txn_submit(t, NULL, NULL);
}

int usage_new(struct core *c, struct usage **ret)
{
	static const struct spawn_link_ops ops = { .connected = on_connected, .reply = on_reply };
	struct usage *u = calloc(1, sizeof(*u));
	int err = u ? 0 : -ENOMEM;

	if (!err) {
		u->core = c;
		err = spawn_link_new(hub_loop(c->hub), c->spawn_path, &ops, u, &u->link);
	}
	if (!err) {
		u->timer = hub_timer_new(c->hub, on_timer, u);
		err = u->timer ? 0 : -ENOMEM;
	}
	if (err) {
		usage_free(u);
		return err;
	}
	hub_timer_set(u->timer, USAGE_EVERY_MS);
	*ret = u;
	return 0;
}

void usage_free(struct usage *u)
{
	if (!u)
		return;
	spawn_link_free(u->link);
	hub_timer_free(u->timer);
	free(u);
}
