/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* Kernels behind a real agent: start both ways, channels, ends of every kind,
 * restart, interrupt, identity, cuts of the link. */
#include "agent_view.h"
#include "agent_standin.h"

static void talk(struct view *v)
{
	execute_whole(v, "print hello");
	CHECK_STR(v->text, "hello");
	CHECK_STR(v->reply, "{\"status\":\"ok\"}");
	execute(v, "input");
	client_wait(&c, &v->asked);
	send_message(v, WIRE_STDIN, "input_reply", json_pack("{s:s}", "value", "Ada"));
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	CHECK_STR(v->text, "Ada");
	execute_whole(v, "flood 8000");
	CHECK(v->in_order);
	CHECK_INT(v->stream_bytes, 8000 * 1024);
}

static void too_large(struct view *v)
{
	execute_whole(v, "big 17000000");
	CHECK(strstr(v->large, "display_data"));
	execute_whole(v, "bigreply 17000000");
	CHECK(strstr(v->reply, "ReplyTooLarge"));
	execute_whole(v, "big 16000000");
	CHECK(!strstr(v->reply, "error"));
}

static void interrupt(struct view *v, const char *path)
{
	execute(v, "loop");
	ask(&c, &a, "GET", "/kernels", NULL);
	do
		ask(&c, &a, "POST", path, "");
	while (a.status == 204 && !v->replied);
	client_wait(&c, &v->replied);
	CHECK(strstr(v->reply, "KeyboardInterrupt"));
}

static void die(struct view *v, const char *code, json_int_t exit_code, const char *signal_wanted,
		const char *crash)
{
	json_int_t generation = state_number(v, "generation");
	uint64_t sent;

	execute(v, code);
	sent = channel_sent(v->tap.channel);
	wait_state(v, "dead");
	CHECK_INT(state_number(v, "generation"), generation);
	CHECK_STR(state(v, "signal"), signal_wanted);
	CHECK_INT(state_number(v, "exit_code"), exit_code);
	CHECK_STR(state(v, "crash"), crash);
	CHECK_INT(state_number(v, "received"), sent);
	CHECK(json_is_true(json_object_get(v->last_state, "restarting")));
	wait_state(v, "alive");
	CHECK_INT(state_number(v, "generation"), generation + 1);
	execute_whole(v, "print again");
	CHECK_STR(v->text, "again");
}

static void deaths(struct view *v)
{
	die(v, "exit 3", 3, "", "");
	CHECK_STR(v->text, "again");
	execute(v, "exit 4");
	wait_state(v, "dead");
	CHECK_STR(v->text, "last words");
	wait_state(v, "alive");
	die(v, "segv", 0, "SIGSEGV", "Fatal: it burns\n");
	die(v, "hold", 5, "", "");
}

/* What a kernel printed and had no time to read and send is not lost with it. */
static void last_words(struct view *v)
{
	execute(v, "gasp \303\251 before the end");
	wait_state(v, "dead");
	CHECK_STR(v->text, "\303\251 before the end");
	CHECK(strstr(v->parent, "execute_request"));
	wait_state(v, "alive");
}

/* Nor what it had read already, shown, or kept as the beginning of a line; once each, in order. */
static void unsent(struct view *v)
{
	v->shown = false;
	execute(v, "moan");
	wait_state(v, "dead");
	CHECK_STR(v->said, "one two errthreefo");
	CHECK(v->shown);
	wait_state(v, "alive");
	execute(v, "moan spoilt");
	wait_state(v, "dead");
	CHECK_STR(v->said, "one two errthree");
	wait_state(v, "alive");
}

static void restart(struct view *v, const char *path)
{
	json_int_t generation = state_number(v, "generation");

	ask(&c, &a, "POST", path, "");
	CHECK_INT(a.status, 200);
	CHECK_INT(json_integer_value(json_object_get(a.json, "generation")), generation + 1);
	wait_generation(v, generation + 1);
	execute(v, "loop");
	ask(&c, &a, "POST", path, "");
	CHECK_INT(a.status, 200);
	wait_generation(v, generation + 2);
	execute_whole(v, "print restarted");
	CHECK_STR(v->text, "restarted");
}

static void identity(struct view *v)
{
	char first[1024];

	execute_whole(v, "seed");
	snprintf(first, sizeof(first), "%s", v->text);
	client_identify(&c);
	execute_whole(v, "seed");
	CHECK(strcmp(first, v->text) != 0);
	/* A busy kernel is not waited for and takes it when its cell is over. */
	snprintf(first, sizeof(first), "%s", v->text);
	execute(v, "loop");
	do {
		ask(&c, &a, "GET", "/kernels", NULL);
	} while (!strstr((char *)a.body, "busy"));
	client_identify(&c);
	ask(&c, &a, "POST", "/kernels/r1/interrupt", "");
	CHECK_INT(a.status, 204);
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	execute_whole(v, "seed");
	CHECK(strcmp(first, v->text) != 0);
}

/* 64 KiB frames of output across cuts: each line once, in order. */
static void cut(struct view *v, const char *path)
{
	int i;

	execute(v, "flood 8000");
	for (i = 0; i < 5; i++) {
		tap_wait(&v->tap, 'J');
		client_disconnect(&c);
		client_connect(&c);
		tap_attach(&v->tap, path);
	}
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	CHECK(v->in_order);
	CHECK_INT(v->stream_bytes + v->tap.gap_bytes, 8000 * 1024);
}

static void killed_parent(struct view *v)
{
	char command[128];

	/* The parent is the stand-in that was not forked by itself. */
	snprintf(command, sizeof(command), "pkill -KILL -P %d -f -- --parent", (int)c.agent);
	CHECK_INT(system(command), 0);
	execute_whole(v, "print orphan");
	CHECK_STR(v->text, "orphan");
	die(v, "exit 9", 9, "", "");
}

static void no_such_kernel(void)
{
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\",\"name\":\"cobol\"}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\"}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/kernels", "{\"id\":\"x\",\"name\":\"plain\",\"cwd\":\"/nowhere\"}");
	CHECK_INT(a.status, 500);
	ask(&c, &a, "DELETE", "/kernels/x", NULL);
	CHECK_INT(a.status, 404);
}

static void kernel_of(const char *id, const char *name, bool prepared)
{
	char path[3][128];
	struct view v;

	snprintf(path[0], sizeof(path[0]), "/kernels/%s/interrupt", id);
	snprintf(path[1], sizeof(path[1]), "/kernels/%s/restart", id);
	snprintf(path[2], sizeof(path[2]), "/kernels/%s", id);
	start(&v, id, name);
	talk(&v);
	too_large(&v);
	interrupt(&v, path[0]);
	deaths(&v);
	restart(&v, path[1]);
	if (prepared) {
		last_words(&v);
		unsent(&v);
		identity(&v);
		killed_parent(&v);
	}
	snprintf(path[0], sizeof(path[0]), "/kernels/%s/channel", id);
	cut(&v, path[0]);
	ask(&c, &a, "DELETE", path[2], NULL);
	CHECK_INT(a.status, 204);
	ask(&c, &a, "DELETE", path[2], NULL);
	CHECK_INT(a.status, 404);
	view_close(&v);
}

int main(int argc, char **argv)
{
	char specs[] = "/tmp/carrel-specs-XXXXXX", command[64];

	standin_main(argc, argv);
	CHECK(mkdtemp(specs) != NULL);
	chmod(specs, 0755);
	standin_specs(specs);
	client_start(&c, specs);
	client_identify(&c);
	no_such_kernel();
	kernel_of("p1", "plain", false);
	kernel_of("r1", "ready", true);
	answer_clear(&a);
	client_stop(&c);
	snprintf(command, sizeof(command), "rm -rf %s", specs);
	return system(command);
}
