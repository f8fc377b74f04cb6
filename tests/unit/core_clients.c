/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* Jupyter clients of a kernel on a scripted agent: what they ask becomes executions,
 * the queue answers in the kernel's place, and a session outlives its connections. */
#include "appliance/core/client.h"
#include "appliance/core/kernel.h"
#include "core_stage.h"

static char sandbox[STORE_ID_MAX];

/* A connection as the door has one; `got` is what a person would write down of it. */
struct peer {
	struct client *client;
	char session[32];
	bool known;
	int ended; /* enum client_end + 1 */
	pthread_mutex_t lock;
	char got[8192];
	uint64_t number;
	unsigned stop_after; /* messages to take and no more; 0: all */
	unsigned taken;
};

static const char *short_name(const char *type, json_t *content, char *ret, size_t size)
{
	const char *word = text_of(content, "execution_state");

	if (!word)
		word = text_of(content, "status");
	if (!word)
		word = text_of(content, "ename");
	if (!word)
		word = text_of(content, "text");
	snprintf(ret, size, "%s%s%s", type, word ? ":" : "", word ? word : "");
	return ret;
}

static json_t *json_of(const struct v1_part *p)
{
	return json_loadb(p->bytes, p->len, 0, NULL);
}

static void write_down(struct peer *p, const struct client_msg *m)
{
	struct v1_part part[V1_PARTS_MAX];
	json_t *header, *parent, *content;
	char name[128], line[256];
	const char *id;

	CHECK(jupyter_parts(m->payload, m->len, part) >= 4);
	header = json_of(&part[0]);
	parent = json_of(&part[1]);
	content = json_of(&part[3]);
	id = text_of(parent, "msg_id");
	snprintf(line, sizeof(line), "%s %s\n", id ? id : "-",
		 short_name(text_of(header, "msg_type"), content, name, sizeof(name)));
	CHECK(strlen(p->got) + strlen(line) < sizeof(p->got));
	pthread_mutex_lock(&p->lock);
	strcat(p->got, line);
	pthread_mutex_unlock(&p->lock);
	json_decref(header);
	json_decref(parent);
	json_decref(content);
}

static void on_wake(void *arg)
{
	struct peer *p = arg;
	struct client_msg *m;

	while (p->client && (!p->stop_after || p->taken < p->stop_after) &&
	       (m = client_take(p->client, &p->number))) {
		write_down(p, m);
		client_msg_unref(m);
		p->taken++;
		client_received(p->client, p->number);
	}
}

static void on_end(void *arg, enum client_end why)
{
	struct peer *p = arg;

	p->client = NULL;
	p->ended = (int)why + 1;
}

static const struct client_ops ops = { .wake = on_wake, .end = on_end };

struct act {
	struct hub_call call;
	struct peer *peer;
	struct client_hello hello;
	enum jupyter_channel channel;
	const char *msg_id, *type, *session;
	json_t *content;
	const char *raw;
};

static struct kernel *the_kernel(void)
{
	struct sandbox *sb = sandbox_find(core, u.owner, sandbox);

	CHECK(sb && sb->kernels);
	return sb->kernels;
}

static void join_run(struct hub_call *call)
{
	struct act *a = (struct act *)call;
	int err = client_join(the_kernel(), &a->hello, &ops, a->peer, &a->peer->client, &a->peer->known);

	if (!err)
		on_wake(a->peer);
	hub_call_end(call, err);
}

static int join(struct peer *p, const char *session, bool resumes, uint64_t received)
{
	struct act a = { .peer = p,
			 .hello = { .session = session, .resumes = resumes, .received = received } };

	if (!p->session[0])
		pthread_mutex_init(&p->lock, NULL);
	snprintf(p->session, sizeof(p->session), "%s", session);
	return hub_call(core->hub, &a.call, join_run);
}

static void leave_run(struct hub_call *call)
{
	struct peer *p = ((struct act *)call)->peer;

	if (p->client)
		client_leave(p->client);
	p->client = NULL;
	hub_call_end(call, 0);
}

static void leave(struct peer *p)
{
	struct act a = { .peer = p };

	hub_call(core->hub, &a.call, leave_run);
}

static void say_run(struct hub_call *call)
{
	struct act *a = (struct act *)call;
	struct v1_part part[4] = { { NULL, 0 }, { "{}", 2 }, { "{}", 2 }, { NULL, 0 } };
	char header[256], *content = a->content ? json_dumps(a->content, JSON_COMPACT) : strdup("{}");
	int err;

	snprintf(header, sizeof(header),
		 "{\"msg_id\":\"%s\",\"session\":\"%s\",\"msg_type\":\"%s\",\"own\":7}", a->msg_id,
		 a->session, a->type);
	part[0] = (struct v1_part){ a->raw ? a->raw : header, strlen(a->raw ? a->raw : header) };
	part[3] = (struct v1_part){ content, strlen(content) };
	err = client_message(a->peer->client, a->channel, part, 4);
	free(content);
	hub_call_end(call, err);
}

static void ask(struct peer *p, const char *msg_id, const char *type, json_t *content)
{
	struct act a = { .peer = p,
			 .channel = JUPYTER_SHELL,
			 .msg_id = msg_id,
			 .type = type,
			 .session = p->session,
			 .content = content };

	CHECK_INT(hub_call(core->hub, &a.call, say_run), 0);
	json_decref(content);
}

static void cell(struct peer *p, const char *msg_id, const char *code)
{
	ask(p, msg_id, "execute_request", json_pack("{s:s}", "code", code));
}

static bool has(struct peer *p, const char *line)
{
	char whole[160];
	bool found;

	snprintf(whole, sizeof(whole), "%s\n", line);
	pthread_mutex_lock(&p->lock);
	found = strstr(p->got, whole) != NULL;
	pthread_mutex_unlock(&p->lock);
	return found;
}

static void wait_for(struct peer *p, const char *line)
{
	int tries;

	for (tries = 0; tries < 10000 && !has(p, line); tries++)
		usleep(1000);
	if (tries == 10000) {
		fprintf(stderr, "waited for \"%s\" in:\n%s", line, p->got);
		exit(1);
	}
}

/* Exactly these lines, in this order. */
static void is(struct peer *p, const char *want)
{
	pthread_mutex_lock(&p->lock);
	CHECK_STR(p->got, want);
	p->got[0] = '\0';
	pthread_mutex_unlock(&p->lock);
}

static void one_cell(void)
{
	struct peer a = { 0 }, b = { 0 };
	json_t *list, *row;

	CHECK_INT(join(&a, "a", false, 0), 0);
	CHECK_INT(join(&b, "b", false, 0), 0);
	CHECK(!a.known);
	cell(&a, "a1", "print x");
	wait_for(&a, "a1 status:idle");
	wait_for(&b, "a1 status:idle");
	is(&a, "a1 status:busy\na1 execute_input\na1 stream:x\na1 execute_reply:ok\na1 status:idle\n");
	/* The reply is for who asked alone. */
	is(&b, "a1 status:busy\na1 execute_input\na1 stream:x\na1 status:idle\n");
	CHECK_INT(store_execution_list(u.store, u.owner, sandbox, 1, NULL, &list), 0);
	row = json_array_get(json_object_get(list, "executions"), 0);
	CHECK_STR(text_of(row, "code"), "print x");
	json_decref(list);
	leave(&a);
	leave(&b);
}

static void errors_stop_the_queue(void)
{
	struct peer a = { 0 }, b = { 0 };

	CHECK_INT(join(&a, "a", false, 0), 0);
	CHECK_INT(join(&b, "b", false, 0), 0);
	a.got[0] = '\0';
	cell(&a, "hold", "hang");
	wait_for(&a, "hold execute_input");
	cell(&a, "e1", "raise");
	cell(&b, "b1", "print b");
	cell(&a, "e2", "print no");
	ask(&a, "c1", "complete_request", json_object());
	cell(&a, "e3", "print no");
	{
		struct act act = { .peer = &a,
				   .channel = JUPYTER_CONTROL,
				   .msg_id = "i1",
				   .type = "interrupt_request",
				   .session = "a" };

		CHECK_INT(hub_call(core->hub, &act.call, say_run), 0);
	}
	/* An interrupted cell stops the queue of its session as any error does; another's goes on. */
	wait_for(&a, "e3 status:idle");
	wait_for(&a, "c1 complete_reply:ok");
	wait_for(&b, "b1 execute_reply:ok");
	CHECK(has(&a, "i1 interrupt_reply:ok"));
	CHECK(has(&a, "e1 execute_reply:aborted"));
	CHECK(has(&a, "e2 execute_reply:aborted"));
	CHECK(has(&a, "e3 execute_reply:aborted"));
	CHECK(!has(&a, "e2 stream:no"));
	CHECK(strstr(a.got, "e2 status:busy\ne2 execute_reply:aborted\ne2 status:idle\n"));
	/* The flag is gone with the queue. */
	cell(&a, "e4", "print yes");
	wait_for(&a, "e4 execute_reply:ok");
	leave(&a);
	leave(&b);
}

static void asked_not_to_stop(void)
{
	struct peer a = { 0 };

	CHECK_INT(join(&a, "n", false, 0), 0);
	ask(&a, "h", "execute_request", json_pack("{s:s}", "code", "hang"));
	wait_for(&a, "h execute_input");
	ask(&a, "e1", "execute_request", json_pack("{s:s,s:b}", "code", "raise", "stop_on_error", 0));
	cell(&a, "e2", "print on");
	{
		struct fault f;
		json_t *list, *k;

		CHECK_INT(core_kernel_list(core, u.owner, sandbox, 10, NULL, &list, &f), 0);
		k = json_array_get(json_object_get(list, "kernels"), 0);
		/* Both wait, and one can be taken out alone. */
		while (json_array_size(json_object_get(k, "queue")) < 2) {
			json_decref(list);
			usleep(1000);
			CHECK_INT(core_kernel_list(core, u.owner, sandbox, 10, NULL, &list, &f), 0);
			k = json_array_get(json_object_get(list, "kernels"), 0);
		}
		CHECK_INT(core_execution_interrupt(
				  core, u.owner,
				  json_string_value(json_array_get(json_object_get(k, "queue"), 1)), &f),
			  0);
		json_decref(list);
	}
	wait_for(&a, "e2 execute_reply:aborted");
	cell(&a, "e3", "print on");
	usleep(20000);
	CHECK(!has(&a, "e3 execute_reply:ok"));
	ask(&a, "x", "complete_request", json_object());
	{
		struct fault f;

		CHECK_INT(core_kernel_interrupt(core, u.owner, the_kernel()->id, &f), 0);
	}
	/* h was interrupted, and h's session stops: e1 and e3 with it, being queued before. */
	wait_for(&a, "e3 execute_reply:aborted");
	ask(&a, "e4", "execute_request", json_pack("{s:s,s:b}", "code", "raise", "stop_on_error", 0));
	cell(&a, "e5", "print on");
	wait_for(&a, "e5 execute_reply:ok");
	CHECK(has(&a, "e4 error:ValueError"));
	leave(&a);
}

static void deaths(void)
{
	struct peer a = { 0 };

	CHECK_INT(join(&a, "d", false, 0), 0);
	cell(&a, "d1", "die 3");
	wait_for(&a, "- status:restarting");
	is(&a, "d1 status:busy\nd1 execute_input\nd1 stream:last words\nd1 error:KernelDied\nd1 "
	       "execute_reply:error\n"
	       "d1 status:idle\n- status:restarting\n");
	/* Dead before a word: still one answer. */
	cell(&a, "d2", "vanish 4");
	wait_for(&a, "- status:restarting");
	CHECK(has(&a, "d2 execute_reply:error"));
	CHECK(has(&a, "d2 status:idle"));
	cell(&a, "d3", "print fresh");
	wait_for(&a, "d3 execute_reply:ok");
	leave(&a);
}

static void cuts(void)
{
	struct peer a = { .stop_after = 2 }, again = { 0 }, stale = { 0 };

	CHECK_INT(join(&a, "r", true, 0), 0);
	cell(&a, "r1", "print x");
	wait_for(&a, "r1 execute_input");
	leave(&a);
	/* While it is away. */
	usleep(50000);
	CHECK_INT(join(&again, "r", true, 2), 0);
	CHECK(again.known);
	wait_for(&again, "r1 status:idle");
	is(&again, "r1 stream:x\nr1 execute_reply:ok\nr1 status:idle\n");
	/* A second connection of the session takes its place. */
	CHECK_INT(join(&stale, "r", true, 5), 0);
	CHECK_INT(again.ended, CLIENT_REPLACED + 1);
	CHECK(stale.known);
	/* What it cannot have had begins anew. */
	leave(&stale);
	CHECK_INT(join(&again, "r", true, 77), 0);
	CHECK(!again.known);
	leave(&again);
}

static void refused(void)
{
	struct peer a = { 0 };
	struct act act = { .peer = &a, .channel = JUPYTER_SHELL, .session = "f" };
	static const char *const headers[] = { "",
					       "{",
					       "[]",
					       "{}",
					       "{\"msg_id\":\"1\"}",
					       "{\"msg_id\":1,\"msg_type\":\"x\",\"session\":\"s\"}",
					       "{\"msg_id\":\"\",\"msg_type\":\"x\",\"session\":\"s\"}" };
	size_t i;

	CHECK_INT(join(&a, "f", false, 0), 0);
	for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		act.raw = headers[i];
		CHECK_INT(hub_call(core->hub, &act.call, say_run), -EBADMSG);
	}
	ask(&a, "f1", "execute_request", json_pack("{s:i}", "code", 7));
	wait_for(&a, "f1 status:idle");
	is(&a, "f1 status:busy\nf1 execute_reply:error\nf1 status:idle\n");
	leave(&a);
}

/* A cell of the REST face is seen by clients, and does not stop with their queue. */
static void beside_rest(void)
{
	struct peer a = { 0 };
	struct run r;
	json_t *events;
	struct fault f;

	CHECK_INT(join(&a, "v", false, 0), 0);
	r = start(sandbox, "hang", 0);
	wait_started(&r);
	cell(&a, "v1", "print x");
	CHECK_INT(core_execution_interrupt(core, u.owner, r.id, &f), 0);
	events = events_of(&r);
	CHECK_STR(text_of(end_of(&r, events), "status"), "interrupted");
	json_decref(events);
	wait_for(&a, "v1 execute_reply:ok");
	expect(sandbox, "print y", 0, "ok", "stdout");
	leave(&a);
}

int main(void)
{
	struct peer last = { 0 };

	stage();
	core_begin();
	create(sandbox, "clone");
	one_cell();
	errors_stop_the_queue();
	asked_not_to_stop();
	deaths();
	cuts();
	refused();
	beside_rest();
	CHECK_INT(join(&last, "last", false, 0), 0);
	delete (sandbox);
	CHECK_INT(last.ended, CLIENT_KERNEL_GONE + 1);
	sandbox_ended(sandbox, "asked");
	core_stop(core, true);
	setup_end(&u);
	return 0;
}
