/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* Processes against a real agent: output apart, ends, stdin, signals, what is
 * left behind, a host that is slow, gone, or comes back. */
#include "agent_channel.h"

static struct client c;
static struct answer a;

/* Starts id by a shell line and opens its channel. */
static void start(struct tap *t, const char *id, const char *cmd, bool with_stdin)
{
	json_t *body = json_pack("{s:s, s:s, s:b, s:{s:s}}", "id", id, "cmd", cmd, "stdin", with_stdin, "env",
				 "SIZE", "large");
	char *text = json_dumps(body, 0), path[128];

	ask(&c, &a, "POST", "/processes", text);
	if (a.status != 201)
		fprintf(stderr, "%.*s\n", (int)a.len, (char *)a.body);
	CHECK_INT(a.status, 201);
	CHECK_STR(answer_text(&a, "id"), id);
	CHECK(json_integer_value(json_object_get(a.json, "pid")) > 0);
	snprintf(path, sizeof(path), "/processes/%s/channel", id);
	tap_open(t, &c, path);
	free(text);
	json_decref(body);
}

static void output_and_end(void)
{
	struct tap t;

	start(&t, "p1", "pwd; echo $COLOUR $SIZE $HOME; echo oops >&2; id -u; exit 3", false);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'X'), "{\"exit_code\":3}");
	CHECK_STR(tap_text(&t, 'E'), "oops\n");
	CHECK(strstr(tap_text(&t, 'O'), "green large /tmp/carrel-agent-"));
	CHECK(geteuid() != 0 || strstr(tap_text(&t, 'O'), "\n1000\n"));
	/* Acknowledged: it is forgotten. */
	do
		ask(&c, &a, "POST", "/processes/p1/signal", "{\"signal\":15}");
	while (a.status == 409);
	CHECK_INT(a.status, 404);
	tap_close(&t);
}

static void stdin_and_close(void)
{
	struct tap t;
	char *big = malloc(900 * 1000);
	int i;

	memset(big, 'y', 900 * 1000);
	start(&t, "p2", "sleep 0.2; wc -c", true);
	for (i = 0; i < 3; i++)
		CHECK(channel_send(t.channel, 'I', true, big, 900 * 1000) > 0);
	CHECK(channel_send(t.channel, 'C', true, NULL, 0) > 0);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'O'), "2700000\n");
	tap_close(&t);
	/* Without stdin it reads an end at once; one that does not read is no obstacle. */
	start(&t, "p3", "wc -c", false);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'O'), "0\n");
	tap_close(&t);
	start(&t, "p4", "exec <&-; sleep 0.1; echo done", true);
	CHECK(channel_send(t.channel, 'I', true, big, 900 * 1000) > 0);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'O'), "done\n");
	tap_close(&t);
	free(big);
}

static void signals(void)
{
	struct tap t;

	start(&t, "p5", "sleep 100 & wait", false);
	ask(&c, &a, "POST", "/processes/p5/signal", "{\"signal\":0}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/processes/p5/signal", "{\"signal\":15}");
	CHECK_INT(a.status, 204);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'X'), "{\"signal\":\"SIGTERM\"}");
	tap_close(&t);
	start(&t, "p6", "kill -SEGV $$", false);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'X'), "{\"signal\":\"SIGSEGV\"}");
	tap_close(&t);
	start(&t, "p7", "sleep 100", false);
	ask(&c, &a, "DELETE", "/processes/p7", NULL);
	CHECK_INT(a.status, 204);
	ask(&c, &a, "DELETE", "/processes/p7", NULL);
	CHECK_INT(a.status, 404);
	tap_close(&t);
}

static void cannot_start(void)
{
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q1\",\"argv\":[\"no-such-program\"]}");
	CHECK_INT(a.status, 400);
	CHECK_STR(answer_text(&a, "code"), "no_such_program");
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q2\",\"argv\":[\"/etc\"]}");
	CHECK_INT(a.status, 400);
	CHECK_STR(answer_text(&a, "code"), "no_such_program");
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q3\",\"argv\":[\"true\"],\"cwd\":\"/nowhere\"}");
	CHECK_INT(a.status, 400);
	CHECK_STR(answer_text(&a, "code"), "bad_request");
	ask(&c, &a, "POST", "/processes", "{\"id\":\"../x\",\"argv\":[\"true\"]}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q4\",\"argv\":[]}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q4\"}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/processes", "{\"id\":\"q4\",\"argv\":[\"true\"],\"env\":{\"A=B\":\"c\"}}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "POST", "/processes/nobody/channel", "");
	CHECK_INT(a.status, 404);
}

/* What a process leaves running neither holds up its end nor dies of a closed pipe. */
static void left_behind(void)
{
	char path[128];
	struct tap t;

	start(&t, "p8", "(sleep 0.6; echo late; echo late >&2; echo alive > alive) & echo early", false);
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'O'), "early\n");
	tap_close(&t);
	snprintf(path, sizeof(path), "%s/home/alive", c.dir);
	start(&t, "p9", "while [ ! -e alive ]; do sleep 0.05; done", false);
	tap_wait(&t, 'X');
	tap_close(&t);
	CHECK_INT(access(path, F_OK), 0);
	start(&t, "p10", "yes & echo $!", false);
	tap_wait(&t, 'X');
	CHECK_INT(kill((pid_t)atoi(tap_text(&t, 'O')), SIGKILL), 0);
	tap_close(&t);
}

/* Every byte of a flood arrives, once, across a cut of the link. */
static void flood_and_cut(void)
{
	struct tap t;
	size_t i, want = 0;
	char line[16];
	int cuts;

	start(&t, "p11", "seq 1 400000", false);
	for (cuts = 0; cuts < 3; cuts++) {
		tap_wait(&t, 'O');
		client_disconnect(&c);
		client_connect(&c);
		tap_attach(&t, "/processes/p11/channel");
	}
	while (!t.frames['X'])
		tap_wait(&t, 'X');
	for (i = 1; i <= 400000; i++) {
		int n = snprintf(line, sizeof(line), "%zu\n", i);

		CHECK(want + (size_t)n <= t.len['O'] && memcmp(t.bytes['O'] + want, line, (size_t)n) == 0);
		want += (size_t)n;
	}
	CHECK_INT(t.len['O'], want);
	CHECK_INT(t.gap_bytes, 0);
	tap_close(&t);
}

/* Nobody listens: the end is kept, the middle of the output is not, and it is told. */
static void flood_unheard(void)
{
	char path[128];
	struct tap t;

	ask(&c, &a, "POST", "/processes",
	    "{\"id\":\"p12\",\"cmd\":\"head -c 30000000 /dev/zero; touch over\"}");
	CHECK_INT(a.status, 201);
	snprintf(path, sizeof(path), "%s/home/over", c.dir);
	do
		ask(&c, &a, "GET", "/health", NULL);
	while (access(path, F_OK) < 0);
	tap_open(&t, &c, "/processes/p12/channel");
	tap_wait(&t, 'X');
	CHECK_STR(tap_text(&t, 'X'), "{\"exit_code\":0}");
	CHECK(t.gap_bytes > 0);
	CHECK_INT(t.gap_bytes + t.len['O'], 30000000);
	tap_close(&t);
}

/* A host that does not acknowledge stops the source, not the agent. */
static void slow_host(void)
{
	struct tap t;

	start(&t, "p13", "yes", false);
	t.no_ack = true;
	while (t.len['O'] < CHANNEL_RETAIN_MAX / 2)
		tap_wait(&t, 'O');
	ask(&c, &a, "GET", "/health", NULL);
	CHECK_INT(a.status, 200);
	CHECK(t.len['O'] <= 2 * CHANNEL_RETAIN_MAX);
	ask(&c, &a, "DELETE", "/processes/p13", NULL);
	CHECK_INT(a.status, 204);
	tap_close(&t);
}

int main(void)
{
	client_start(&c, "/nonexistent");
	client_identify(&c);
	output_and_end();
	stdin_and_close();
	signals();
	cannot_start();
	left_behind();
	flood_and_cut();
	flood_unheard();
	slow_host();
	answer_clear(&a);
	client_stop(&c);
	return 0;
}
