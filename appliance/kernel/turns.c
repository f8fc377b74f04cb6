#include "turns.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct turn {
	struct turn *next;
	char *msg_id;
	size_t len;
	char header[]; /* JSON */
};

static struct turn *turn_new(const char *msg_id, const struct v1_part *header)
{
	struct turn *turn = malloc(sizeof(*turn) + header->len);

	if (!turn)
		return NULL;
	*turn = (struct turn){ .msg_id = strdup(msg_id), .len = header->len };
	memcpy(turn->header, header->bytes, header->len);
	if (turn->msg_id)
		return turn;
	free(turn);
	return NULL;
}

static void turn_free(struct turn *turn)
{
	free(turn->msg_id);
	free(turn);
}

static void say(struct turns *t, const struct turn *turn, const char *state)
{
	local_say_state(t->local, turn->header, turn->len, state);
}

static const struct turn *find(const struct turns *t, const char *msg_id)
{
	const struct turn *turn = t->first;

	while (turn && strcmp(turn->msg_id, msg_id) != 0)
		turn = turn->next;
	return turn;
}

static void drop_first(struct turns *t)
{
	struct turn *turn = t->first;

	t->first = turn->next;
	if (!t->first)
		t->last = &t->first;
	t->count--;
	turn_free(turn);
}

static void end_interrupt(struct turns *t)
{
	uv_timer_stop(&t->timer);
	if (!t->interrupt)
		return;
	say(t, t->interrupt, "idle");
	turn_free(t->interrupt);
	t->interrupt = NULL;
}

static void on_timer(uv_timer_t *timer)
{
	end_interrupt(timer->data);
}

void turns_init(struct turns *t, uv_loop_t *loop, struct local *local)
{
	*t = (struct turns){ .local = local };
	t->last = &t->first;
	uv_timer_init(loop, &t->timer);
	t->timer.data = t;
}

void turns_free(struct turns *t)
{
	while (t->first)
		drop_first(t);
	if (t->interrupt)
		turn_free(t->interrupt);
	t->interrupt = NULL;
}

static bool is_for_subshell(const struct v1_part *header)
{
	json_t *json = json_loadb(header->bytes, header->len, 0, NULL);
	bool is = json_is_string(json_object_get(json, "subshell_id"));

	json_decref(json);
	return is;
}

void turns_asked(struct turns *t, const struct local_message *m)
{
	struct turn *turn;

	if (is_for_subshell(&m->part[0]))
		return;
	while (t->count >= TURNS_MAX)
		drop_first(t);
	turn = turn_new(m->msg_id, &m->part[0]);
	/* Without memory the kernel's own word is early enough. */
	if (!turn)
		return;
	*t->last = turn;
	t->last = &turn->next;
	t->count++;
	if (turn == t->first)
		say(t, turn, "busy");
}

bool turns_tells(const struct turns *t, const char *msg_id, const char *state)
{
	return strcmp(state, "busy") != 0 || !t->first || strcmp(t->first->msg_id, msg_id) != 0;
}

void turns_told(struct turns *t, const char *msg_id, const char *state)
{
	bool last = false;

	if (strcmp(state, "idle") != 0 || !find(t, msg_id))
		return;
	/* Those before it are over too: their end was lost on the way. */
	while (!last) {
		last = strcmp(t->first->msg_id, msg_id) == 0;
		drop_first(t);
	}
	end_interrupt(t);
	if (t->first)
		say(t, t->first, "busy");
}

void turns_interrupted(struct turns *t, const struct v1_part *header)
{
	end_interrupt(t);
	t->interrupt = turn_new("", header);
	if (t->first && t->interrupt)
		uv_timer_start(&t->timer, on_timer, TURNS_INTERRUPT_MS, 0);
	else
		end_interrupt(t);
}
