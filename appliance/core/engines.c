#include "engines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one engine that can be allowed beside another. */
static const char jail[] = "jail";

/* Which monitor is a question of the engine kvm alone. */
static bool monitor_wanted(const struct engine_ops *ops, const char *monitor)
{
	return strcmp(monitor, "auto") == 0 || strcmp(ops->name, "kvm") != 0 || strcmp(ops->monitor, monitor) == 0;
}

static int engine_choose(const char *name, const char *monitor, const struct engine_ops **ret, struct fault *f)
{
	char why[256] = "";
	size_t i;

	for (i = 0; engines[i]; i++) {
		if (strcmp(name, "auto") == 0 ? engines[i]->by_name : strcmp(name, engines[i]->name) != 0)
			continue;
		if (!monitor_wanted(engines[i], monitor))
			continue;
		if (engines[i]->probe(why, sizeof(why)) == 0) {
			*ret = engines[i];
			return 0;
		}
	}
	if (!why[0])
		return fault_set(f, EINVAL, 400, "engine",
				 "There is no engine \"%s\"; set ENGINE to auto, kvm, tcg or jail.", name);
	return fault_set(f, ENODEV, 400, "engine", "The engine %s cannot run on this host. %s", name, why);
}

static const struct core_engine *entry_named(const struct core *c, const char *name)
{
	unsigned i;

	for (i = 0; i < c->engine_count; i++) {
		if (strcmp(engine_ops_of(c->engines[i].engine)->name, name) == 0)
			return &c->engines[i];
	}
	return NULL;
}

static int entry_open(struct core *c, const struct engine_ops *ops, bool named, struct fault *f)
{
	struct core_engine *entry = &c->engines[c->engine_count];
	int err;

	if (c->engine_count == CORE_ENGINES_MAX)
		return fault_set(f, ENOSPC, 500, "engine", "There are too many engines.");
	err = engine_fingerprint(ops, entry->fingerprint, sizeof(entry->fingerprint));
	/* What runs goes on, whether or not the host could start another one; what was saved waits for that. */
	if (err < 0 && !named)
		snprintf(entry->fingerprint, sizeof(entry->fingerprint), "%s, not identified", ops->name);
	else if (err < 0)
		return fault_set(f, -err, 500, "engine", "The engine %s on this host cannot be identified: %s.", ops->name,
				 strerror(-err));
	err = engine_new(hub_loop(c->hub), ops, c->spawn_path, c->run_dir, &entry->engine);
	if (err < 0)
		return fault_set(f, -err, 500, "engine", "The engine %s could not be opened: %s.", ops->name,
				 strerror(-err));
	entry->named = named;
	c->engine_count++;
	return 0;
}

static bool jail_allowed(const struct core *c)
{
	return strcmp(c->settings->allow_jail, "yes") == 0;
}

/* What is only allowed, and cannot be, is no reason not to start. */
static void jail_open(struct core *c)
{
	const struct engine_ops *ops;
	struct fault f;
	int err = engine_choose(jail, "auto", &ops, &f);

	if (!err)
		err = entry_open(c, ops, true, &f);
	if (err < 0)
		core_log("ALLOW_JAIL=yes: %s", f.message);
}

int engines_open(struct core *c, struct fault *f)
{
	const struct engine_ops *ops = NULL;
	int err = engine_choose(c->settings->engine, c->settings->monitor, &ops, f);

	if (!err)
		err = entry_open(c, ops, true, f);
	if (err < 0)
		return err;
	c->engine = c->engines[0].engine;
	if (jail_allowed(c) && !entry_named(c, jail))
		jail_open(c);
	return 0;
}

int engines_recorded(struct core *c, const char *name, struct engine **ret, struct fault *f)
{
	const struct core_engine *entry = entry_named(c, name);
	size_t i;
	int err = 0;

	for (i = 0; !err && !entry && engines[i]; i++) {
		if (strcmp(engines[i]->name, name) != 0 || !monitor_wanted(engines[i], c->settings->monitor))
			continue;
		err = entry_open(c, engines[i], false, f);
		entry = entry_named(c, name);
	}
	if (!err)
		*ret = entry ? entry->engine : c->engine;
	return err;
}

void engines_close(struct core *c)
{
	while (c->engine_count > 0)
		engine_free(c->engines[--c->engine_count].engine);
	c->engine = NULL;
}

/* Why the jail is not there, although every build has it. */
static int jail_refused(const struct core *c, struct fault *f)
{
	const struct engine_ops *ops;
	struct fault why;

	if (!jail_allowed(c))
		return fault_field(f, "engine_unavailable", "engine",
				   "This appliance runs the engine %s, not jail. The setting ALLOW_JAIL=yes would allow "
				   "single sandboxes in the jail, for trusted code.",
				   engine_ops_of(c->engine)->name);
	if (engine_choose(jail, "auto", &ops, &why) == 0)
		snprintf(why.message, sizeof(why.message), "The engine jail could not be opened at carreld's start.");
	return fault_field(f, "engine_unavailable", "engine", "%s", why.message);
}

struct engine *engines_named(const struct core *c, const char *name, struct fault *f)
{
	const struct core_engine *entry;

	if (strcmp(name, "auto") == 0)
		return c->engine;
	entry = entry_named(c, name);
	if (entry && entry->named)
		return entry->engine;
	if (strcmp(name, jail) == 0)
		jail_refused(c, f);
	else
		fault_field(f, "engine_unavailable", "engine",
			    "This appliance runs the engine %s, not %s: its setting ENGINE says so.",
			    engine_ops_of(c->engine)->name, name);
	return NULL;
}

const char *engines_fingerprint(const struct core *c, const struct engine *e)
{
	unsigned i = 0;

	while (c->engines[i].engine != e)
		i++;
	return c->engines[i].fingerprint;
}
