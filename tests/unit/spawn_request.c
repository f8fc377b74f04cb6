/* UNIT: LIBS: */
/* What carrel-spawn refuses before it does anything. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Alone: the rest of appliance/spawn has a main() and needs root. */
#include "appliance/spawn/request.c"

enum { ALL = 0x7f, BOOT = 0x3c, CLONE = 0x0f, RESUME = 0x4f, PAGES = 0x42 };

static struct spawn_request start_request(uint32_t mode, uint32_t mask)
{
	return (struct spawn_request){ .version = SPAWN_VERSION,
				       .verb = SPAWN_START,
				       .serial = 1,
				       .id = "box-1",
				       .engine = SPAWN_ENGINE_TCG,
				       .mode = mode,
				       .fds_mask = mask,
				       .memory_mb = 512,
				       .vcpus = 1,
				       .host_memory_mb = 608,
				       .host_cpu_milli = 1200,
				       .tsc_khz = 2445406 };
}

static int check(const struct spawn_request *r, unsigned nfds)
{
	char message[SPAWN_MESSAGE_MAX] = "";
	int err = request_check(r, sizeof(*r), nfds, message);

	/* A refusal says why, in a whole sentence; an acceptance says nothing. */
	CHECK((err != 0) == (message[0] != '\0'));
	if (err)
		CHECK(message[strlen(message) - 1] == '.');
	return err;
}

static void good_starts_pass(void)
{
	struct spawn_request r = start_request(SPAWN_BOOT, BOOT);

	CHECK_INT(check(&r, 4), 0);
	r = start_request(SPAWN_BOOT, BOOT | 1);
	CHECK_INT(check(&r, 5), 0);
	r = start_request(SPAWN_TEMPLATE, BOOT | 1);
	CHECK_INT(check(&r, 5), 0);
	r = start_request(SPAWN_CLONE, CLONE);
	CHECK_INT(check(&r, 4), 0);
	r.engine = SPAWN_ENGINE_QEMU_KVM;
	CHECK_INT(check(&r, 4), 0);
	r = start_request(SPAWN_RESUME, RESUME);
	CHECK_INT(check(&r, 5), 0);
}

static void bad_starts_are_refused(void)
{
	static const struct {
		size_t offset;
		uint32_t value;
		int err;
	} cases[] = {
#define FIELD(name, value, err) { offsetof(struct spawn_request, name), value, err }
		FIELD(version, 0, -EPROTO),
		FIELD(version, SPAWN_VERSION + 1, -EPROTO),
		FIELD(verb, 0, -EOPNOTSUPP),
		FIELD(verb, SPAWN_PAGES + 1, -EOPNOTSUPP),
		FIELD(verb, SPAWN_EVENT_ENDED, -EOPNOTSUPP),
		FIELD(verb, SPAWN_STAT, -EINVAL),  /* with descriptors */
		FIELD(verb, SPAWN_PAGES, -EINVAL), /* pages missing */
		FIELD(engine, 0, -EOPNOTSUPP),
		FIELD(engine, SPAWN_ENGINE_JAIL, -ENOTSUP), /* it has no clones */
		FIELD(engine, SPAWN_ENGINE_JAIL + 1, -EOPNOTSUPP),
		FIELD(engine, UINT32_MAX, -EOPNOTSUPP),
		FIELD(mode, 0, -EINVAL),
		FIELD(mode, SPAWN_RESUME + 1, -EINVAL),
		FIELD(mode, SPAWN_RESUME, -EINVAL), /* pages missing */
		FIELD(mode, SPAWN_BOOT, -EINVAL),   /* kernel missing */
		FIELD(fds_mask, 0, -EINVAL),
		FIELD(fds_mask, CLONE | 0x80, -EINVAL),
		FIELD(fds_mask, UINT32_MAX, -EINVAL),
		FIELD(fds_mask, CLONE & ~(1u << SPAWN_FD_STATE), -EINVAL),
		FIELD(fds_mask, ALL, -EINVAL), /* more than came */
		FIELD(memory_mb, 0, -EINVAL),
		FIELD(memory_mb, 63, -EINVAL),
		FIELD(memory_mb, UINT32_MAX, -EINVAL),
		FIELD(vcpus, 0, -EINVAL),
		FIELD(vcpus, 17, -EINVAL),
		FIELD(host_memory_mb, 511, -EINVAL),
		FIELD(host_memory_mb, UINT32_MAX, -EINVAL),
		FIELD(host_cpu_milli, 0, -EINVAL),
		FIELD(host_cpu_milli, UINT32_MAX, -EINVAL),
		FIELD(tsc_khz, 0, -EINVAL),
		FIELD(tsc_khz, UINT32_MAX, -EINVAL),
#undef FIELD
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct spawn_request r = start_request(SPAWN_CLONE, CLONE);

		memcpy((char *)&r + cases[i].offset, &cases[i].value, sizeof(uint32_t));
		CHECK_INT(check(&r, 4), cases[i].err);
	}
}

static void ids_name_files_only_inside(void)
{
	static const char *const bad[] = { "",  "-x",  "A",    "a/b",         "..",
					   ".", "a b", "a\nb", "caf\xc3\xa9", "a_b" };
	struct spawn_request r = start_request(SPAWN_CLONE, CLONE);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		memset(r.id, 0, sizeof(r.id));
		memcpy(r.id, bad[i], strlen(bad[i]));
		CHECK_INT(check(&r, 4), -EINVAL);
	}
	memset(r.id, 'a', sizeof(r.id));
	CHECK_INT(check(&r, 4), -EINVAL);
	r.id[sizeof(r.id) - 1] = '\0';
	CHECK_INT(check(&r, 4), 0);
}

static void stops_need_a_printable_reason(void)
{
	struct spawn_request r = { .version = SPAWN_VERSION, .verb = SPAWN_STOP, .id = "a" };

	CHECK_INT(check(&r, 0), -EINVAL);
	memset(r.reason, 'x', sizeof(r.reason));
	CHECK_INT(check(&r, 0), -EINVAL);
	r.reason[SPAWN_REASON_MAX - 1] = '\0';
	CHECK_INT(check(&r, 0), 0);
	r.reason[3] = '\n';
	CHECK_INT(check(&r, 0), -EINVAL);
}

static void lengths_and_counts_are_exact(void)
{
	struct spawn_request r = start_request(SPAWN_CLONE, CLONE);
	char message[SPAWN_MESSAGE_MAX];

	for (size_t n = 0; n < sizeof(r); n++)
		CHECK_INT(request_check(&r, n, 4, message), -EPROTO);
	for (unsigned nfds = 0; nfds < 12; nfds++)
		CHECK_INT(check(&r, nfds), nfds == 4 ? 0 : -EINVAL);
}

/* A file system that the host's kernel mounts is root's: one of carreld's is not taken for an image. */
static void the_jail_takes_roots_images_only(void)
{
	char path[] = "/tmp/carrel-request-XXXXXX", message[SPAWN_MESSAGE_MAX];
	int rw = mkstemp(path), ro = open(path, O_RDONLY);
	struct spawn_request r = start_request(SPAWN_BOOT, 1u << SPAWN_FD_ROOTFS | 1u << SPAWN_FD_SCRATCH |
								   1u << SPAWN_FD_GUEST);
	int fds[SPAWN_FD_COUNT] = { -1, -1, ro, rw, -1, -1, -1, ro };

	r.engine = SPAWN_ENGINE_JAIL;
	CHECK(rw >= 0 && ro >= 0);
	CHECK_INT(check(&r, 3), 0);
	CHECK_INT(request_check_files(&r, fds, message), geteuid() == 0 ? 0 : -EPERM);
	CHECK_INT(fchmod(rw, 0666), 0);
	CHECK_INT(request_check_files(&r, fds, message), -EPERM);
	CHECK_INT(fchmod(rw, 0600), 0);
	r.fds_mask = 1u << SPAWN_FD_ROOTFS | 1u << SPAWN_FD_SCRATCH;
	CHECK_INT(check(&r, 2), -EINVAL);
	close(rw);
	close(ro);
	unlink(path);
}

static void files_must_be_what_the_mode_needs(void)
{
	char path[] = "/tmp/carrel-request-XXXXXX", message[SPAWN_MESSAGE_MAX];
	int rw = mkstemp(path), ro = open(path, O_RDONLY), null = open("/dev/null", O_RDWR);
	struct spawn_request r = start_request(SPAWN_CLONE, CLONE);
	int fds[SPAWN_FD_COUNT] = { ro, ro, ro, rw, -1, -1, -1, -1 };

	CHECK(rw >= 0 && ro >= 0 && null >= 0);
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL); /* guest memory is empty */
	CHECK_INT(ftruncate(rw, (off_t)512 << 20), 0);
	CHECK_INT(request_check_files(&r, fds, message), 0);
	fds[SPAWN_FD_SCRATCH] = ro;
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL);
	fds[SPAWN_FD_SCRATCH] = null;
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL);
	fds[SPAWN_FD_SCRATCH] = rw;
	r.mode = SPAWN_TEMPLATE; /* writes its memory */
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL);
	fds[SPAWN_FD_RAM] = rw;
	CHECK_INT(request_check_files(&r, fds, message), 0);
	fds[SPAWN_FD_PAGES] = ro;
	r.mode = SPAWN_RESUME;
	fds[SPAWN_FD_RAM] = ro;
	CHECK_INT(request_check_files(&r, fds, message), 0);
	unlink(path);
	close(rw);
	close(ro);
	close(null);
}

static void saved_memory_goes_into_a_file_of_the_asker(void)
{
	char path[] = "/tmp/carrel-request-XXXXXX", message[SPAWN_MESSAGE_MAX];
	int rw = mkstemp(path), ro = open(path, O_RDONLY), append = open(path, O_RDWR | O_APPEND);
	struct spawn_request r = {
		.version = SPAWN_VERSION, .verb = SPAWN_PAGES, .id = "a", .fds_mask = PAGES
	};
	int fds[SPAWN_FD_COUNT] = { -1, ro, -1, -1, -1, -1, rw, -1 };

	CHECK_INT(check(&r, 2), 0);
	CHECK_INT(check(&r, 1), -EINVAL);
	CHECK_INT(request_check_files(&r, fds, message), 0);
	fds[SPAWN_FD_PAGES] = ro;
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL);
	fds[SPAWN_FD_PAGES] = append;
	CHECK_INT(request_check_files(&r, fds, message), -EINVAL);
	CHECK_STR(message, "The saved memory must not be open for appending.");
	unlink(path);
	close(rw);
	close(ro);
	close(append);
}

int main(void)
{
	good_starts_pass();
	bad_starts_are_refused();
	ids_name_files_only_inside();
	stops_need_a_printable_reason();
	lengths_and_counts_are_exact();
	files_must_be_what_the_mode_needs();
	the_jail_takes_roots_images_only();
	saved_memory_goes_into_a_file_of_the_asker();
	return 0;
}
