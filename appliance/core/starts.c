#include "starts.h"

#include <unistd.h>

enum { STARTS_MIN = 2 }; /* one waits for its disk while another computes */

static unsigned starts_max(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > STARTS_MIN ? (unsigned)cpus : STARTS_MIN;
}

static void starts_begin(struct sandbox *sb)
{
	sb->start = START_RUNS;
	sb->core->starting++;
	sandbox_machine_start(sb);
}

/* New ones stand in front of the list. */
static struct sandbox *starts_first(struct core *c)
{
	struct sandbox *sb, *first = NULL;

	for (sb = c->sandboxes; sb; sb = sb->next) {
		if (sb->start == START_WAITS)
			first = sb;
	}
	return first;
}

static void starts_next(void *arg)
{
	struct core *c = arg;
	struct sandbox *sb;

	while (!c->stopping && c->starting < starts_max() && (sb = starts_first(c)) != NULL) {
		/* Its time begins now. */
		sandbox_enter(sb, SANDBOX_CREATING);
		starts_begin(sb);
	}
}

void starts_enter(struct sandbox *sb)
{
	if (!sb->template && !sb->source) {
		sandbox_machine_start(sb);
		return;
	}
	if (sb->core->starting < starts_max() && !starts_first(sb->core)) {
		starts_begin(sb);
		return;
	}
	sb->start = START_WAITS;
	hub_timer_stop(sb->state_timer);
}

void starts_leave(struct sandbox *sb)
{
	if (sb->start == START_RUNS) {
		sb->core->starting--;
		/* Not from inside what ends: the next may fail and end as well. */
		hub_post(sb->core->hub, &sb->core->starts_item, starts_next, sb->core);
	}
	sb->start = START_OVER;
}
