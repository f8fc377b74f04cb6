/* An engine whose machines are a scripted agent in the hub's own loop: the whole
 * core runs on a real link, store and event log, without a virtual machine.
 *
 * The agent's language has a word a line:
 *   print TEXT | raise | hang (until an interrupt) | deaf (until a restart) |
 *   die CODE | junk (a frame that is no message) | babble (messages that are not
 *   Jupyter's, then as print) | late (output after the end)
 */
#ifndef CARREL_TESTS_CORE_FAKE_H
#define CARREL_TESTS_CORE_FAKE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/core/buf.h"
#include "appliance/core/jupyter.h"
#include "check.h"
#include "kernels/link/channel.h"
#include "kernels/link/link.h"
#include "kernels/link/link_uv.h"
#include "vmm/engine.h"
/* The one file of vmm/host that knows nothing of engines. */
#include "vmm/host/pages.c"

struct engine {
	uv_loop_t *loop;
	const struct engine_ops *ops;
	const char *run_dir;
	struct vm *machines;
};

struct vm {
	struct engine *engine;
	struct vm *next;
	struct vm_ops ops;
	void *arg;
	char id[SPAWN_ID_MAX], path[100], reason[SPAWN_REASON_MAX];
	enum vm_mode mode;
	int listen_fd;
	uv_poll_t poll;
	uv_timer_t soon; /* what an engine tells later */
	enum { SOON_NOTHING, SOON_STARTED, SOON_DONE, SOON_ENDED } what;
	struct link *link;
	struct link_uv *binding;
	struct channel *channel;
	bool has_kernel;
	uint64_t generation;
	char hanging[64]; /* the request that waits */
	bool deaf;
	unsigned handles;
	int unheard_fd; /* a connection that nobody reads; 0: none */
};

/* What the tests set and look at; touched by the hub's thread while nothing else runs. */
static struct {
	unsigned refuse_clones;  /* how many clones are to fail from now on */
	unsigned refuse_kernels; /* and how many starts of kernels */
	unsigned lost_kernels;   /* how many starts were answered to a caller that is gone */
	int answer_status;       /* what every route that is not scripted answers, with answer; 0: 404 */
	const char *answer;
	unsigned unheard; /* how many connections to an agent it does not notice */
	unsigned clones, boots, templates;
	const char *no_jail; /* why the host cannot run it; NULL: it can */
	char adopted[8][SPAWN_ID_MAX + 16]; /* "ENGINE ID", in the order asked for */
	unsigned adopts;
	unsigned slow_disk_s; /* what the threads for files are busy for, from a template's end on */
} fake;

/* --- the agent --- */

static void fake_send(struct vm *vm, int channel, const char *type, const char *parent, json_t *content)
{
	struct buf b = { 0 };
	char number = (char)channel;
	json_t *parts[4] = { json_pack("{s:s}", "msg_type", type), json_pack("{s:s}", "msg_id", parent),
			     json_object(), content };
	unsigned i;

	buf_add(&b, &number, 1);
	buf_add(&b, "\4\0\0\0", 4);
	for (i = 0; i < 4; i++) {
		char *text = json_dumps(parts[i], JSON_COMPACT);
		size_t n = strlen(text);
		unsigned char len[4] = { n & 255, (n >> 8) & 255, (n >> 16) & 255, (n >> 24) & 255 };

		buf_add(&b, len, 4);
		buf_add(&b, text, n);
		free(text);
		json_decref(parts[i]);
	}
	CHECK(channel_send(vm->channel, 'J', true, b.bytes, b.len) > 0);
	buf_free(&b);
}

static void fake_status(struct vm *vm, const char *parent, const char *state)
{
	fake_send(vm, 3, "status", parent, json_pack("{s:s}", "execution_state", state));
}

static void fake_stream(struct vm *vm, const char *parent, const char *text)
{
	fake_send(vm, 3, "stream", parent, json_pack("{s:s,s:s}", "name", "stdout", "text", text));
}

static void fake_reply(struct vm *vm, const char *parent, const char *status)
{
	fake_send(vm, 0, "execute_reply", parent,
		  json_pack("{s:s,s:i}", "status", status, "execution_count", 1));
	fake_status(vm, parent, "idle");
}

static void fake_error(struct vm *vm, const char *parent, const char *name)
{
	fake_send(vm, 3, "error", parent,
		  json_pack("{s:s,s:s,s:[s,s]}", "ename", name, "evalue", "why", "traceback", "first",
			    "second"));
	fake_reply(vm, parent, "error");
}

static void fake_state(struct vm *vm, const char *text)
{
	CHECK(channel_send(vm->channel, 'S', true, text, strlen(text)) > 0);
}

static void fake_died(struct vm *vm, const char *how)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"state\":\"dead\",\"generation\":%u,%s,\"received\":%llu,\"restarting\":true}",
		 (unsigned)vm->generation, how, (unsigned long long)channel_received(vm->channel));
	fake_state(vm, text);
	snprintf(text, sizeof(text), "{\"state\":\"alive\",\"generation\":%u,\"pid\":9}",
		 (unsigned)++vm->generation);
	fake_state(vm, text);
	vm->hanging[0] = '\0';
	vm->deaf = false;
}

static void fake_execute(struct vm *vm, const char *id, const char *code)
{
	char how[64];

	/* Dead before a word of it came. */
	if (strncmp(code, "vanish ", 7) == 0) {
		snprintf(how, sizeof(how), "\"exit_code\":%d,\"crash\":\"last words\"", atoi(code + 7));
		fake_died(vm, how);
		return;
	}
	fake_status(vm, id, "busy");
	fake_send(vm, 3, "execute_input", id, json_pack("{s:s,s:i}", "code", code, "execution_count", 1));
	if (strncmp(code, "print ", 6) == 0) {
		fake_stream(vm, id, code + 6);
		fake_reply(vm, id, "ok");
	} else if (strcmp(code, "raise") == 0) {
		fake_error(vm, id, "ValueError");
	} else if (strcmp(code, "hang") == 0 || strcmp(code, "deaf") == 0) {
		snprintf(vm->hanging, sizeof(vm->hanging), "%s", id);
		vm->deaf = code[0] == 'd';
	} else if (strncmp(code, "die ", 4) == 0) {
		snprintf(how, sizeof(how), "\"exit_code\":%d,\"crash\":\"last words\"", atoi(code + 4));
		fake_died(vm, how);
	} else if (strcmp(code, "junk") == 0) {
		channel_send(vm->channel, 'J', true, "abc", 3);
	} else if (strcmp(code, "babble") == 0) {
		fake_send(vm, 3, "stream", id, json_pack("{s:i}", "text", 7));
		fake_send(vm, 3, "error", id, json_pack("[]"));
		fake_stream(vm, id, "sense");
		fake_reply(vm, id, "ok");
	} else {
		fake_reply(vm, id, "ok");
		if (strcmp(code, "late") == 0)
			fake_stream(vm, id, "too late");
	}
}

static void fake_complete(struct vm *vm, const char *id)
{
	fake_status(vm, id, "busy");
	fake_send(vm, 0, "complete_reply", id, json_pack("{s:s,s:[s]}", "status", "ok", "matches", "print"));
	fake_status(vm, id, "idle");
}

static json_t *fake_part(const uint8_t **at)
{
	uint32_t n = (*at)[0] | (*at)[1] << 8 | (*at)[2] << 16 | (uint32_t)(*at)[3] << 24;
	json_t *json = json_loadb((const char *)*at + 4, n, 0, NULL);

	*at += 4 + n;
	CHECK(json);
	return json;
}

static void fake_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		       void *arg)
{
	struct vm *vm = arg;
	const uint8_t *at = payload + 5;
	json_t *parts[4];
	const char *id, *kind, *code;
	unsigned i;

	(void)len;
	CHECK_INT(type, 'J');
	channel_ack(c, seq);
	for (i = 0; i < 4; i++)
		parts[i] = fake_part(&at);
	id = json_string_value(json_object_get(parts[0], "msg_id"));
	kind = json_string_value(json_object_get(parts[0], "msg_type"));
	code = json_string_value(json_object_get(parts[3], "code"));
	if (strcmp(kind, "execute_request") == 0 && !json_is_true(json_object_get(parts[3], "silent")))
		fake_execute(vm, id, code);
	else if (strcmp(kind, "complete_request") == 0)
		fake_complete(vm, id);
	else
		fake_status(vm, id, "idle");
	for (i = 0; i < 4; i++)
		json_decref(parts[i]);
}

static const struct channel_ops fake_channel_ops = { .frame = fake_frame };

/* --- its routes --- */

struct fake_request {
	struct vm *vm;
	char what[256];
};

static void fake_answer(struct link_stream *st, int status, const char *body)
{
	link_respond(st, status, "application/json", (int64_t)strlen(body));
	link_write(st, body, strlen(body));
	link_end(st);
}

static void fake_interrupt(struct vm *vm)
{
	char id[64];

	if (!vm->hanging[0] || vm->deaf)
		return;
	strcpy(id, vm->hanging);
	vm->hanging[0] = '\0';
	fake_error(vm, id, "KeyboardInterrupt");
}

/* The next kernel of this machine has a channel of its own. */
static void fake_delete(struct vm *vm)
{
	channel_free(vm->channel);
	vm->channel = channel_new(CHANNEL_DROP_MIDDLE, &fake_channel_ops, vm);
	vm->has_kernel = false;
	vm->generation = 1;
	vm->hanging[0] = '\0';
	vm->deaf = false;
}

static void fake_eof(struct link_stream *st, void *arg)
{
	struct fake_request *r = arg;
	struct vm *vm = r->vm;

	if (strncmp(r->what, "PUT /identity", 13) == 0) {
		fake_answer(st, 200, "{\"unix_ns\":1,\"boot_id\":\"x\",\"kernels\":[]}");
	} else if (strncmp(r->what, "PUT /clock", 10) == 0 || strncmp(r->what, "POST /freeze", 12) == 0) {
		fake_answer(st, 200, "{\"unix_ns\":1}");
	} else if (strcmp(r->what, "POST /kernels") == 0 && fake.refuse_kernels) {
		fake.refuse_kernels--;
		fake_answer(st, 500, "{\"code\":\"kernel_start\",\"message\":\"It cannot start.\"}");
	} else if (strcmp(r->what, "POST /kernels") == 0 && fake.lost_kernels) {
		fake.lost_kernels--;
		vm->has_kernel = true;
		fake_answer(st, 409, "{\"code\":\"exists\",\"message\":\"There is one already.\"}");
	} else if (strcmp(r->what, "GET /kernels") == 0) {
		fake_answer(st, 200,
			    "{\"kernels\":[{\"id\":\"k-2\",\"name\":\"other\"},"
			    "{\"id\":\"k-default\",\"name\":\"python3\",\"language\":\"python\"}]}");
	} else if (strcmp(r->what, "POST /kernels") == 0) {
		vm->has_kernel = true;
		fake_answer(st, 201, "{\"id\":\"k\",\"name\":\"python3\",\"language\":\"python\"}");
	} else if (strncmp(r->what, "DELETE /kernels/", 16) == 0) {
		fake_delete(vm);
		fake_answer(st, 204, "");
	} else if (strstr(r->what, "/interrupt")) {
		fake_answer(st, 204, "");
		fake_interrupt(vm);
	} else if (strstr(r->what, "/restart")) {
		fake_died(vm, "\"signal\":\"SIGKILL\"");
		fake_answer(st, 200, "{}");
	} else if (fake.answer_status) {
		fake_answer(st, fake.answer_status, fake.answer);
	} else {
		fake_answer(st, 404, "{\"code\":\"no_such_file\",\"message\":\"There is nothing here.\"}");
	}
}

static void fake_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	(void)bytes;
	(void)arg;
	link_consume(st, len);
}

static void fake_closed(struct link_stream *st, int err, void *arg)
{
	(void)st;
	(void)err;
	free(arg);
}

static void fake_requested(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	static const struct link_stream_ops ops = { .data = fake_data,
						    .eof = fake_eof,
						    .closed = fake_closed };
	struct vm *vm = arg;
	struct fake_request *r;

	(void)l;
	if (strstr(rq->path, "/channel") && vm->has_kernel) {
		CHECK_INT(channel_accept(vm->channel, st), 0);
		return;
	}
	r = calloc(1, sizeof(*r));
	r->vm = vm;
	snprintf(r->what, sizeof(r->what), "%s %s", rq->method, rq->path);
	link_stream_bind(st, &ops, r);
}

static void fake_want_write(struct link *l, void *arg)
{
	struct vm *vm = arg;

	(void)l;
	if (vm->binding)
		link_uv_kick(vm->binding);
}

static void fake_lost(struct link_uv *b, int err, void *arg)
{
	struct vm *vm = arg;

	(void)err;
	link_uv_close(b);
	vm->binding = NULL;
}

static void fake_accept(uv_poll_t *poll, int status, int events)
{
	struct vm *vm = poll->data;
	int fd = accept4(vm->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)status;
	(void)events;
	if (fd < 0)
		return;
	if (fake.unheard > 0) {
		fake.unheard--;
		vm->unheard_fd = fd;
		return;
	}
	link_uv_close(vm->binding);
	CHECK_INT(link_uv_open(vm->engine->loop, vm->link, fd, LINK_UV_SOCKET, fake_lost, vm, &vm->binding),
		  0);
}

/* --- the engine --- */

/* Nobody is there any more. */
static void fake_hang_up(struct vm *vm)
{
	if (vm->listen_fd < 0)
		return;
	uv_poll_stop(&vm->poll);
	link_uv_close(vm->binding);
	vm->binding = NULL;
	close(vm->listen_fd);
	vm->listen_fd = -1;
	unlink(vm->path);
}

static void fake_soon(uv_timer_t *timer)
{
	struct vm *vm = timer->data;

	switch (vm->what) {
	case SOON_STARTED:
		vm->ops.started(vm, vm->path, vm->arg);
		break;
	case SOON_DONE:
		vm->ops.done(vm, 0, NULL, vm->arg);
		break;
	case SOON_ENDED:
		fake_hang_up(vm);
		vm->ops.ended(vm, vm->reason, "", vm->arg);
		break;
	default:
		break;
	}
}

static int fake_later(struct vm *vm, int what)
{
	vm->what = what;
	uv_timer_start(&vm->soon, fake_soon, 1, 0);
	return 0;
}

static void fake_listen(struct vm *vm)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", vm->path);
	vm->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(vm->listen_fd >= 0);
	CHECK_INT(bind(vm->listen_fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	CHECK_INT(listen(vm->listen_fd, 4), 0);
	uv_poll_init(vm->engine->loop, &vm->poll, vm->listen_fd);
	vm->poll.data = vm;
	uv_poll_start(&vm->poll, UV_READABLE, fake_accept);
}

static int fake_start(struct engine *e, const struct vm_config *config, const struct vm_ops *ops, void *arg,
		      struct vm **ret)
{
	static const struct link_ops link_ops = { .request = fake_requested, .want_write = fake_want_write };
	struct vm *vm = calloc(1, sizeof(*vm));

	*vm = (struct vm){
		.engine = e, .ops = *ops, .arg = arg, .mode = config->mode, .generation = 1, .handles = 2
	};
	snprintf(vm->id, sizeof(vm->id), "%s", config->id);
	snprintf(vm->path, sizeof(vm->path), "%s/%s.sock", e->run_dir, config->id);
	CHECK(config->scratch_fd >= 0 && config->rootfs_fd >= 0);
	CHECK((config->ram_fd >= 0) == (config->mode != VM_BOOT));
	vm->has_kernel = config->mode == VM_CLONE;
	vm->link = link_new(LINK_SERVER, &link_ops, vm);
	vm->channel = channel_new(CHANNEL_DROP_MIDDLE, &fake_channel_ops, vm);
	uv_timer_init(e->loop, &vm->soon);
	vm->soon.data = vm;
	fake_listen(vm);
	vm->next = e->machines;
	e->machines = vm;
	fake.clones += config->mode == VM_CLONE;
	fake.boots += config->mode == VM_BOOT;
	fake.templates += config->mode == VM_TEMPLATE;
	if (config->mode == VM_CLONE && fake.refuse_clones) {
		fake.refuse_clones--;
		strcpy(vm->reason, "crashed(1)");
		fake_later(vm, SOON_ENDED);
	} else {
		fake_later(vm, SOON_STARTED);
	}
	*ret = vm;
	return 0;
}

static void fake_disk_work(uv_work_t *work)
{
	(void)work;
	sleep(fake.slow_disk_s);
}

static void fake_disk_busy(uv_loop_t *loop)
{
	static uv_work_t work[4]; /* as many as libuv has threads */

	for (int i = 0; i < 4; i++)
		CHECK_INT(uv_queue_work(loop, &work[i], fake_disk_work, NULL), 0);
}

static int fake_stop(struct vm *vm, const char *reason)
{
	if (vm->mode == VM_TEMPLATE && fake.slow_disk_s)
		fake_disk_busy(vm->engine->loop);
	if (!vm->reason[0])
		snprintf(vm->reason, sizeof(vm->reason), "%s", reason);
	return fake_later(vm, SOON_ENDED);
}

static int fake_done(struct vm *vm)
{
	return fake_later(vm, SOON_DONE);
}

static int fake_save(struct vm *vm, int state_fd, int pages_fd)
{
	CHECK((pages_fd < 0) == (vm->mode == VM_TEMPLATE));
	CHECK_INT(pwrite(state_fd, "state", 5, 0), 5);
	return fake_later(vm, SOON_DONE);
}

static void fake_handle_closed(uv_handle_t *handle)
{
	struct vm *vm = handle->data;

	if (--vm->handles == 0)
		free(vm);
}

static void fake_free(struct vm *vm)
{
	struct vm **at = &vm->engine->machines;

	while (*at != vm)
		at = &(*at)->next;
	*at = vm->next;
	channel_free(vm->channel);
	fake_hang_up(vm);
	link_free(vm->link);
	uv_close((uv_handle_t *)&vm->poll, fake_handle_closed);
	uv_close((uv_handle_t *)&vm->soon, fake_handle_closed);
	if (vm->unheard_fd)
		close(vm->unheard_fd);
}

static int fake_probe(char *ret_why, unsigned size)
{
	(void)ret_why;
	(void)size;
	return 0;
}

static int fake_jail_probe(char *ret_why, unsigned size)
{
	snprintf(ret_why, size, "%s", fake.no_jail ? fake.no_jail : "");
	return fake.no_jail ? -ENODEV : 0;
}

/* There is none any more; who was asked is noted. */
static int fake_adopt(struct engine *e, const char *id, const struct vm_ops *ops, void *arg, struct vm **ret)
{
	if (fake.adopts < sizeof(fake.adopted) / sizeof(fake.adopted[0]))
		snprintf(fake.adopted[fake.adopts++], sizeof(fake.adopted[0]), "%s %s", e->ops->name, id);
	(void)ops;
	(void)arg;
	(void)ret;
	return -ENOENT;
}

static int fake_deadline(struct vm *vm, uint64_t boottime_ns)
{
	(void)vm;
	(void)boottime_ns;
	return 0;
}

static void fake_hand_over(struct vm *vm, const struct vm_ops *ops, void *arg)
{
	vm->ops = *ops;
	vm->arg = arg;
}

#define FAKE_OPS                                                                                  \
	.accel = "none", .start = fake_start, .adopt = fake_adopt, .pause = fake_done, .resume = fake_done, \
	.save = fake_save, .stop = fake_stop, .set_deadline = fake_deadline, .hand_over = fake_hand_over,  \
	.free = fake_free
static const struct engine_ops fake_engine = { .name = "fake", .saves = true, .probe = fake_probe, FAKE_OPS };
static const struct engine_ops fake_jail = { .name = "jail", .by_name = true, .probe = fake_jail_probe, FAKE_OPS };
const struct engine_ops *const engines[] = { &fake_engine, &fake_jail, NULL };

int engine_new(uv_loop_t *loop, const struct engine_ops *ops, const char *spawn_path, const char *run_dir,
	       struct engine **ret)
{
	*ret = calloc(1, sizeof(**ret));
	**ret = (struct engine){ .loop = loop, .ops = ops, .run_dir = run_dir };
	(void)spawn_path;
	return 0;
}

void engine_free(struct engine *e)
{
	while (e && e->machines)
		fake_free(e->machines);
	free(e);
}

const struct engine_ops *engine_ops_of(const struct engine *e)
{
	return e->ops;
}

int engine_fingerprint(const struct engine_ops *ops, char *ret_line, unsigned size)
{
	snprintf(ret_line, size, "%s 1", ops->name);
	return 0;
}

unsigned engine_overhead_mb(const struct engine_ops *ops)
{
	(void)ops;
	return 100;
}

#endif
