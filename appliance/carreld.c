/* carreld: the unprivileged daemon between nginx and the sandboxes.
 *
 * carreld --routes prints the routes of its REST face and ends; --instants those of
 * core/instant.h.
 *
 * SIGTERM: stop, sandboxes go on and are found again by the next start.
 * SIGINT (Ctrl-C): stop and end the sandboxes too.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "core/instant.h"
#include "door/door.h"
#include "front/front.h"
#include "front/route.h"
#include "hatch/hatch.h"
#include "settings.h"
#include "store/audit_syslog.h"
#include "store/store.h"
#include "store/sweep.h"

/* It cannot start with what it was told: to be started again is of no use. conf/run knows it. */
enum { EXIT_SETTINGS = 2 };

struct carreld {
	struct settings settings;
	struct store *store;
	struct core *core;
	struct front *front;
	struct door *door;
	struct hatches *hatches;
	struct audit_syslog *audit_syslog;
	struct sweep *sweep;
};

static int history_start(struct carreld *c, struct fault *f)
{
	struct sweep_settings keep = { .days = c->settings.history_days,
				       .mb = c->settings.history_mb,
				       .every_s = c->settings.history_sweep_s };
	int err = sweep_start(c->store, &keep, &c->sweep);

	return err ? fault_set(f, -err, 500, "no_thread", "The thread that bounds history cannot be started: %s.",
			       strerror(-err))
		   : 0;
}

static int syslog_start(struct carreld *c, struct fault *f)
{
	const char *to = c->settings.audit_syslog;
	int err = strcmp(to, "no") == 0 ? 0
					: audit_syslog_start(c->store, strcmp(to, "yes") == 0 ? "/dev/log" : to,
							     &c->audit_syslog);

	return err ? fault_set(f, -err, 500, "no_thread", "The audit's thread cannot be started: %s.",
			       strerror(-err))
		   : 0;
}

static int carreld_start(struct carreld *c, struct fault *f)
{
	int err = store_open(c->settings.state, &c->store, f);

	if (!err)
		err = store_first_owner(c->store, c->settings.state, f);
	if (!err)
		err = syslog_start(c, f);
	if (!err)
		err = core_start(&c->settings, c->store, &c->core, f);
	if (!err)
		err = history_start(c, f);
	if (!err)
		err = door_start(&c->settings, c->store, c->core, &c->door, f);
	if (!err)
		err = hatches_start(&c->settings, c->core, &c->hatches, f);
	if (!err)
		err = front_start(&c->settings, c->store, c->core, c->hatches, &c->front, f);
	return err;
}

/* The reverse of start; any part may be missing. */
static void carreld_stop(struct carreld *c, bool end_sandboxes)
{
	unsigned busy = c->front ? front_stop(c->front) : 0;

	if (busy > 0) {
		/* Nothing acknowledged is lost: the next start reconciles as after a crash. */
		fprintf(stderr, "carreld: %u requests did not end in time; leaving without them\n", busy);
		_exit(EXIT_SUCCESS);
	}
	hatches_stop(c->hatches);
	door_stop(c->door);
	if (c->core)
		core_stop(c->core, end_sandboxes);
	sweep_stop(c->sweep);
	audit_syslog_stop(c->audit_syslog);
	store_close(c->store);
}

/* Blocked before the first thread starts, so that only sigwait() below gets them. */
static void signals_block(sigset_t *stop)
{
	sigemptyset(stop);
	sigaddset(stop, SIGTERM);
	sigaddset(stop, SIGINT);
	sigaddset(stop, SIGHUP);
	pthread_sigmask(SIG_BLOCK, stop, NULL);
	/* A client's or guest's hang-up is an errno, not a death. */
	signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
	struct carreld c = { .store = NULL };
	struct fault f;
	sigset_t stop;
	int sig = 0;

	if (argc == 2 && !strcmp(argv[1], "--routes")) {
		routes_print(stdout);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && !strcmp(argv[1], "--instants")) {
		instants_print(stdout);
		return EXIT_SUCCESS;
	}
	if (settings_parse(&c.settings, argc, argv, &f)) {
		fprintf(stderr, "carreld: %s\n", f.message);
		return EXIT_SETTINGS;
	}
	signals_block(&stop);
	/* The store is every owner's code and outputs; sockets get their modes by name. */
	umask(0077);
	if (carreld_start(&c, &f)) {
		fprintf(stderr, "carreld: %s\n", f.message);
		carreld_stop(&c, false);
		return f.status < 500 ? EXIT_SETTINGS : EXIT_FAILURE;
	}
	fprintf(stderr, "carreld: listening in %s\n", c.settings.run);
	sigwait(&stop, &sig);
	fprintf(stderr, "carreld: stopping\n");
	carreld_stop(&c, sig == SIGINT);
	return EXIT_SUCCESS;
}
