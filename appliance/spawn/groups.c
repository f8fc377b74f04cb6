/* Control groups that cannot go yet: what a machine had in the kernel (KVM's own threads among it) may leave its group
 * a moment after its last process, later where a hundred end at once. Nothing tells of that on every version, so the
 * loop looks again. */
#include "spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GROUP_RETRY_MS = 20, /* short against a person's patience, long against a rmdir() */
	GROUP_TOLD_MS = 10 * 1000, /* by then something is wrong, and somebody should know */
};

struct group_left {
	struct group_left *next;
	char id[SPAWN_ID_MAX];
	struct cgroup group;
	uint64_t since_ms;
	bool told;
	bool forgotten; /* its runtime directory, which names the group, goes with it */
};

static int group_remove(const struct spawn *s, const struct cgroup *group)
{
	const struct cgroup base = cgroup_base_of(group);
	int err = cgroup_remove(group);

	if (!err && !cgroup_same(&base, &s->base))
		cgroup_base_remove(&base);
	return err;
}

static void tell(const char *id, int err)
{
	fprintf(stderr, "carrel-spawn: %s: cannot remove its control group: %s\n", id, strerror(-err));
}

void groups_remove(struct spawn *s, const struct sandbox *b)
{
	int err = group_remove(s, &b->cgroup);
	struct group_left *g = err == -EBUSY ? calloc(1, sizeof(*g)) : NULL;

	if (!g) {
		if (err)
			tell(b->id, err);
		return;
	}
	memcpy(g->id, b->id, sizeof(g->id));
	g->group = b->cgroup;
	g->since_ms = now_ms();
	g->next = s->groups_left;
	s->groups_left = g;
}

static struct group_left **find(struct spawn *s, const char *id)
{
	struct group_left **at = &s->groups_left;

	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	return at;
}

static void drop(struct spawn *s, struct group_left **at)
{
	struct group_left *g = *at;

	if (g->forgotten && rundir_remove(s->run_fd, g->id) != 0)
		fprintf(stderr, "carrel-spawn: %s: cannot remove its runtime directory\n", g->id);
	*at = g->next;
	free(g);
}

bool groups_forget(struct spawn *s, const char *id)
{
	struct group_left *g = *find(s, id);

	if (g)
		g->forgotten = true;
	return g != NULL;
}

void groups_taken(struct spawn *s, const char *id)
{
	struct group_left **at = find(s, id);

	if (*at)
		drop(s, at);
}

uint64_t groups_retry(struct spawn *s, uint64_t now)
{
	struct group_left **at = &s->groups_left;

	while (*at) {
		struct group_left *g = *at;
		int err = group_remove(s, &g->group);

		if (!err) {
			drop(s, at);
			continue;
		}
		if (!g->told && now - g->since_ms >= GROUP_TOLD_MS) {
			tell(g->id, err);
			g->told = true;
		}
		at = &g->next;
	}
	return s->groups_left ? now + GROUP_RETRY_MS : 0;
}
