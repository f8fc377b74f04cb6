/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* A kernelspec of somebody else, unchanged: Debian's ipykernel behind a real agent.
 * Output, results, a question, interrupt by signal, death, restart, shutdown. */
#include "agent_view.h"

static const char SPEC[] =
	"{\"argv\": [\"/usr/bin/python3\", \"-m\", \"ipykernel_launcher\", \"-f\", \"{connection_file}\"],"
	" \"display_name\": \"Python 3 (ipykernel)\", \"language\": \"python\", \"metadata\": {\"debugger\": "
	"true}}";

enum { AGAIN_MS = 5000 };

static bool again_due;

static void write_spec(const char *dir)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/python3", dir);
	CHECK_INT(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/python3/kernel.json", dir);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fputs(SPEC, f);
	fclose(f);
}

/* ipykernel's idle can be another request's, and its text come in pieces and beside warnings: wait for what is
 * said itself. */
static void expect(struct view *v, const char *want)
{
	while (!strstr(v->said, want))
		wait_stream(v);
	client_wait(&c, &v->replied);
}

static void talk(struct view *v)
{
	execute_whole(v, "print('hello')");
	expect(v, "hello\n");
	CHECK(strstr(v->reply, "\"ok\""));
	CHECK(strstr(v->parent, "execute_request"));
	execute_whole(v, "1/0");
	CHECK(strstr(v->reply, "ZeroDivisionError"));
	execute_whole(v, "import sys; print('wrong', file=sys.stderr)");
	expect(v, "wrong\n");
	execute_whole(v, "for i in range(20000): print('x' * 99)");
	while (v->stream_bytes < 20000 * 100)
		wait_stream(v);
	CHECK_INT(v->stream_bytes, 20000 * 100);
}

static void question(struct view *v)
{
	v->replied = v->idle = v->asked = false;
	v->said[0] = '\0';
	send_message(
		v, WIRE_SHELL, "execute_request",
		json_pack("{s:s, s:b, s:b}", "code", "print(input('who? '))", "silent", 0, "allow_stdin", 1));
	client_wait(&c, &v->asked);
	send_message(v, WIRE_STDIN, "input_reply", json_pack("{s:s}", "value", "Ada"));
	client_wait(&c, &v->replied);
	client_wait(&c, &v->idle);
	expect(v, "Ada\n");
}

static void on_again(uv_timer_t *timer)
{
	(void)timer;
	again_due = true;
}

/* By SIGINT: the kernelspec does not say otherwise. One that comes between Python's last look and the system
 * call leaves ipykernel asleep; a person presses it again. */
static void interrupt(struct view *v)
{
	uv_timer_t timer;

	uv_timer_init(&c.loop, &timer);
	execute(v, "print('sleeping', flush=True); import time; time.sleep(60)");
	while (v->streams == 0)
		wait_stream(v);
	do {
		ask(&c, &a, "POST", "/kernels/i1/interrupt", "");
		CHECK_INT(a.status, 204);
		again_due = false;
		uv_timer_start(&timer, on_again, AGAIN_MS, 0);
		while (!v->replied && !again_due)
			uv_run(&c.loop, UV_RUN_ONCE);
	} while (!v->replied);
	uv_close((uv_handle_t *)&timer, NULL);
	client_wait(&c, &v->idle);
	CHECK(strstr(v->reply, "KeyboardInterrupt"));
}

static void death(struct view *v)
{
	execute(v, "import os; os._exit(3)");
	wait_state(v, "dead");
	CHECK_INT(state_number(v, "exit_code"), 3);
	wait_state(v, "alive");
	execute_whole(v, "print('again')");
	expect(v, "again\n");
}

static void restart(struct view *v)
{
	json_int_t generation = state_number(v, "generation");

	execute_whole(v, "kept = 1");
	ask(&c, &a, "POST", "/kernels/i1/restart", "");
	CHECK_INT(a.status, 200);
	wait_generation(v, generation + 1);
	execute_whole(v, "print('kept' in globals())");
	expect(v, "False\n");
}

int main(void)
{
	char specs[] = "/tmp/carrel-specs-XXXXXX", command[64];
	struct view v;

	if (system("/usr/bin/python3 -c 'import ipykernel' 2>/dev/null") != 0) {
		puts("skipped: ipykernel is missing (apt-get install python3-ipykernel)");
		return 77;
	}
	CHECK(mkdtemp(specs) != NULL);
	chmod(specs, 0755);
	write_spec(specs);
	client_start(&c, specs);
	client_identify(&c);
	start(&v, "i1", "python3");
	talk(&v);
	question(&v);
	interrupt(&v);
	death(&v);
	restart(&v);
	ask(&c, &a, "DELETE", "/kernels/i1", NULL);
	CHECK_INT(a.status, 204);
	view_close(&v);
	answer_clear(&a);
	client_stop(&c);
	snprintf(command, sizeof(command), "rm -rf %s", specs);
	return system(command);
}
