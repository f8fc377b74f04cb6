/* Drives an engine by lines on stdin and says what happens by lines on stdout.
 * Built and used by tests/integration/engine_*.py.
 *
 *   start ID boot|template|clone|resume RAM STATE ROOTFS SCRATCH KERNEL INITRD MEMORY_MB
 *         DEADLINE_MS PAGES GUEST ("-": no file)
 *   adopt ID    stop ID REASON    pause ID    resume ID    save ID STATE PAGES    deadline ID MS    free ID
 *   verify PAGES
 *   fingerprint
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vmm/engine.h"
#include "vmm/host/pages.h"

enum { MACHINES_MAX = 128, WORDS_MAX = 13 };

static struct {
	char id[SPAWN_ID_MAX];
	struct vm *vm;
} machines[MACHINES_MAX];

static struct engine *engine;
static uv_loop_t *loop;
static uv_poll_t input;

static const char *id_of(const struct vm *vm)
{
	for (int i = 0; i < MACHINES_MAX; i++)
		if (machines[i].vm == vm)
			return machines[i].id;
	return "?";
}

static struct vm *machine(const char *id)
{
	for (int i = 0; i < MACHINES_MAX; i++)
		if (machines[i].vm && strcmp(machines[i].id, id) == 0)
			return machines[i].vm;
	printf("error %s unknown\n", id);
	return NULL;
}

static void machine_add(const char *id, int err, struct vm *vm)
{
	if (err) {
		printf("error %s %s\n", id, strerror(-err));
		return;
	}
	for (int i = 0; i < MACHINES_MAX; i++)
		if (!machines[i].vm) {
			snprintf(machines[i].id, sizeof(machines[i].id), "%s", id);
			machines[i].vm = vm;
			return;
		}
}

static void started(struct vm *vm, const char *agent_path, void *arg)
{
	(void)arg;
	printf("started %s %s\n", id_of(vm), agent_path);
}

static void ended(struct vm *vm, const char *reason, const char *message, void *arg)
{
	(void)arg;
	printf("ended %s %s | %s\n", id_of(vm), reason, message);
}

static void done(struct vm *vm, int err, const char *message, void *arg)
{
	(void)arg;
	printf("done %s %d %s\n", id_of(vm), err, message);
}

static const struct vm_ops ops = { started, ended, done };

static uint64_t boottime_after(const char *ms)
{
	struct timespec now;

	if (atoi(ms) == 0)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + (uint64_t)atoi(ms) * 1000000u;
}

static int file(const char *path, int flags)
{
	return strcmp(path, "-") == 0 ? -1 : open(path, flags | O_CLOEXEC);
}

static void start(char **w)
{
	enum vm_mode mode = strcmp(w[2], "boot") == 0     ? VM_BOOT
			    : strcmp(w[2], "clone") == 0  ? VM_CLONE
			    : strcmp(w[2], "resume") == 0 ? VM_RESUME
							  : VM_TEMPLATE;
	int snapshot_flags = spawn_mode_clones(mode) ? O_RDONLY : O_RDWR;
	struct vm_config c = {
		.id = w[1],
		.mode = mode,
		.cls = { .memory_mb = (unsigned)atoi(w[9]), .vcpus = 1, .disk_mb = 64 },
		.ram_fd = file(w[3], snapshot_flags),
		.state_fd = file(w[4], snapshot_flags),
		.pages_fd = file(w[11], O_RDONLY),
		.rootfs_fd = file(w[5], O_RDONLY),
		.scratch_fd = file(w[6], O_RDWR),
		.kernel_fd = file(w[7], O_RDONLY),
		.initrd_fd = file(w[8], O_RDONLY),
		.guest_fd = file(w[12], O_RDONLY),
		.cpu_milli = 1000,
		.deadline_boottime_ns = boottime_after(w[10]),
	};
	const int fds[] = { c.ram_fd,     c.state_fd,  c.pages_fd, c.rootfs_fd,
			    c.scratch_fd, c.kernel_fd, c.initrd_fd, c.guest_fd };
	struct vm *vm = NULL;
	int err;

	err = engine_ops_of(engine)->start(engine, &c, &ops, NULL, &vm);
	machine_add(w[1], err, vm);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void forget(const char *id)
{
	for (int i = 0; i < MACHINES_MAX; i++)
		if (machines[i].vm && strcmp(machines[i].id, id) == 0) {
			engine_ops_of(engine)->free(machines[i].vm);
			machines[i].vm = NULL;
		}
}

static int save(struct vm *vm, char **w)
{
	int state_fd = file(w[2], O_RDWR), pages_fd = file(w[3], O_RDWR);
	int err = engine_ops_of(engine)->save(vm, state_fd, pages_fd);

	close(state_fd);
	if (pages_fd >= 0)
		close(pages_fd);
	return err;
}

static void verify(const char *path)
{
	struct pages_info info = { 0 };
	char message[SPAWN_MESSAGE_MAX] = "";
	int fd = file(path, O_RDONLY);
	int err = pages_info(fd, &info, message, sizeof(message));

	if (!err)
		err = pages_verify(fd, message, sizeof(message));
	close(fd);
	printf("verified %d %llu %llu %s\n", err, (unsigned long long)info.data_bytes,
	       (unsigned long long)info.zero_bytes, message);
}

static void command(char **w, int n)
{
	const struct engine_ops *e = engine_ops_of(engine);
	struct vm *vm = NULL;
	char line[512];
	int err = 0;

	if (n == 13 && strcmp(w[0], "start") == 0) {
		start(w);
	} else if (n == 2 && strcmp(w[0], "adopt") == 0) {
		err = e->adopt(engine, w[1], &ops, NULL, &vm);
		machine_add(w[1], err, vm);
		err = 0;
	} else if (n == 2 && strcmp(w[0], "free") == 0) {
		forget(w[1]);
	} else if (n == 1 && strcmp(w[0], "fingerprint") == 0) {
		err = engine_fingerprint(e, line, sizeof(line));
		printf("fingerprint %d %s\n", err, err ? "" : line);
	} else if (n == 2 && strcmp(w[0], "verify") == 0) {
		verify(w[1]);
	} else if (n >= 2 && (vm = machine(w[1])) != NULL) {
		err = strcmp(w[0], "stop") == 0       ? e->stop(vm, w[2])
		      : strcmp(w[0], "pause") == 0    ? e->pause(vm)
		      : strcmp(w[0], "resume") == 0   ? e->resume(vm)
		      : strcmp(w[0], "save") == 0     ? save(vm, w)
		      : strcmp(w[0], "deadline") == 0 ? e->set_deadline(vm, boottime_after(w[2]))
						      : -EINVAL;
		if (err)
			printf("error %s %s\n", w[1], strerror(-err));
	}
}

static void input_ready(uv_poll_t *poll, int status, int events)
{
	static char bytes[4096];
	static size_t used;
	ssize_t n = read(0, bytes + used, sizeof(bytes) - used);
	char *end, *words[WORDS_MAX], *save;
	int count;

	(void)status;
	(void)events;
	if (n <= 0) {
		uv_poll_stop(poll);
		uv_stop(loop);
		return;
	}
	used += (size_t)n;
	while ((end = memchr(bytes, '\n', used)) != NULL) {
		*end = '\0';
		count = 0;
		for (char *w = strtok_r(bytes, " ", &save); w && count < WORDS_MAX;
		     w = strtok_r(NULL, " ", &save))
			words[count++] = w;
		if (count > 0)
			command(words, count);
		used -= (size_t)(end + 1 - bytes);
		memmove(bytes, end + 1, used);
	}
}

int main(int argc, char **argv)
{
	const char *monitor = getenv("MONITOR");

	if (argc != 4)
		return 100;
	setvbuf(stdout, NULL, _IOLBF, 0);
	loop = uv_default_loop();
	/* The first of that name, as `auto` takes it, or of that monitor. */
	for (int i = 0; engines[i] && !engine; i++)
		if (strcmp(engines[i]->name, argv[1]) == 0 &&
		    (!monitor || strcmp(engines[i]->monitor, monitor) == 0) &&
		    engine_new(loop, engines[i], argv[2], argv[3], &engine) != 0)
			return 111;
	if (!engine)
		return 100;
	uv_poll_init(loop, &input, 0);
	uv_poll_start(&input, UV_READABLE, input_ready);
	uv_run(loop, UV_RUN_DEFAULT);
	engine_free(engine);
	uv_close((uv_handle_t *)&input, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	return uv_loop_close(loop) == 0 ? 0 : 1;
}
