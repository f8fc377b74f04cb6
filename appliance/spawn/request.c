#include "request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vmm/jail/jail_limits.h"

#define BIT(fd) (1u << (fd))

static const char *const fd_names[SPAWN_FD_COUNT] = {
	[SPAWN_FD_RAM] = "guest memory",   [SPAWN_FD_STATE] = "device state",
	[SPAWN_FD_ROOTFS] = "root image",  [SPAWN_FD_SCRATCH] = "scratch disk",
	[SPAWN_FD_KERNEL] = "kernel",      [SPAWN_FD_INITRD] = "initrd",
	[SPAWN_FD_PAGES] = "saved memory", [SPAWN_FD_GUEST] = "guest programs' disk",
};

__attribute__((format(printf, 3, 4))) static int refuse(char *ret_message, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret_message, SPAWN_MESSAGE_MAX, fmt, ap);
	va_end(ap);
	return err;
}

bool request_id_valid(const char *id, size_t size)
{
	size_t n = strnlen(id, size);

	if (n == 0 || n == size || id[0] == '-')
		return false;
	return strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static bool reason_valid(const char *reason)
{
	size_t n = strnlen(reason, SPAWN_REASON_MAX);

	if (n == 0 || n == SPAWN_REASON_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (reason[i] < ' ' || reason[i] > '~')
			return false;
	return true;
}

static unsigned files_needed(const struct spawn_request *r)
{
	const uint32_t mode = r->mode;
	const unsigned disks = BIT(SPAWN_FD_ROOTFS) | BIT(SPAWN_FD_SCRATCH);
	const unsigned boot = BIT(SPAWN_FD_KERNEL) | BIT(SPAWN_FD_INITRD);

	if (r->verb == SPAWN_PAGES)
		return BIT(SPAWN_FD_STATE) | BIT(SPAWN_FD_PAGES);
	if (r->engine == SPAWN_ENGINE_KVM)
		return 0;
	if (r->engine == SPAWN_ENGINE_JAIL)
		return disks | BIT(SPAWN_FD_GUEST);
	if (mode == SPAWN_BOOT)
		return disks | boot;
	if (mode == SPAWN_TEMPLATE)
		return disks | boot | BIT(SPAWN_FD_RAM);
	if (mode == SPAWN_RESUME)
		return disks | BIT(SPAWN_FD_RAM) | BIT(SPAWN_FD_STATE) | BIT(SPAWN_FD_PAGES);
	return disks | BIT(SPAWN_FD_RAM) | BIT(SPAWN_FD_STATE);
}

static int check_files_mask(const struct spawn_request *r, unsigned nfds, char *ret_message)
{
	unsigned missing = files_needed(r) & ~r->fds_mask;

	if (r->verb == SPAWN_START && r->engine == SPAWN_ENGINE_KVM && r->fds_mask != 0)
		return refuse(ret_message, -EINVAL, "carrel-vmm is given its files by carreld.");
	if (r->fds_mask >= BIT(SPAWN_FD_COUNT))
		return refuse(ret_message, -EINVAL, "fds_mask names descriptors that do not exist.");
	if (missing)
		return refuse(ret_message, -EINVAL, "The %s is missing.", fd_names[__builtin_ctz(missing)]);
	if ((unsigned)__builtin_popcount(r->fds_mask) != nfds)
		return refuse(ret_message, -EINVAL, "%u descriptors came where fds_mask names %d.", nfds,
			      __builtin_popcount(r->fds_mask));
	return 0;
}

static int check_start(const struct spawn_request *r, unsigned nfds, char *ret_message)
{
	if (r->engine < SPAWN_ENGINE_TCG || r->engine > SPAWN_ENGINE_JAIL)
		return refuse(ret_message, -EOPNOTSUPP, "carrel-spawn has no engine %u.", r->engine);
	if (r->mode < SPAWN_BOOT || r->mode > SPAWN_RESUME)
		return refuse(ret_message, -EINVAL, "There is no start mode %u.", r->mode);
	if (r->engine == SPAWN_ENGINE_JAIL && r->mode != SPAWN_BOOT)
		return refuse(ret_message, -ENOTSUP, "The engine jail saves nothing and starts from nothing saved.");
	if (r->memory_mb < JAIL_MEMORY_MB_MIN || r->memory_mb > JAIL_MEMORY_MB_MAX)
		return refuse(ret_message, -EINVAL, "memory_mb must be between %d and %d.",
			      JAIL_MEMORY_MB_MIN, JAIL_MEMORY_MB_MAX);
	if (r->vcpus < 1 || r->vcpus > JAIL_VCPUS_MAX)
		return refuse(ret_message, -EINVAL, "vcpus must be between 1 and %d.", JAIL_VCPUS_MAX);
	if (r->host_memory_mb < r->memory_mb || r->host_memory_mb > 2 * JAIL_MEMORY_MB_MAX)
		return refuse(ret_message, -EINVAL, "host_memory_mb must be between memory_mb and %d.",
			      2 * JAIL_MEMORY_MB_MAX);
	if (r->host_cpu_milli < JAIL_CPU_MILLI_MIN || r->host_cpu_milli > JAIL_CPU_MILLI_MAX)
		return refuse(ret_message, -EINVAL, "host_cpu_milli must be between %d and %d.",
			      JAIL_CPU_MILLI_MIN, JAIL_CPU_MILLI_MAX);
	if (r->tsc_khz < JAIL_TSC_KHZ_MIN || r->tsc_khz > JAIL_TSC_KHZ_MAX)
		return refuse(ret_message, -EINVAL, "tsc_khz must be between %d and %d.", JAIL_TSC_KHZ_MIN,
			      JAIL_TSC_KHZ_MAX);
	return check_files_mask(r, nfds, ret_message);
}

int request_check(const struct spawn_request *r, size_t n, unsigned nfds, char *ret_message)
{
	if (n != sizeof(*r) || r->version != SPAWN_VERSION)
		return refuse(ret_message, -EPROTO, "carrel-spawn speaks version %d of its protocol.",
			      SPAWN_VERSION);
	if (r->verb < SPAWN_START || r->verb > SPAWN_PAGES)
		return refuse(ret_message, -EOPNOTSUPP, "carrel-spawn has no verb %u.", r->verb);
	if (!request_id_valid(r->id, sizeof(r->id)))
		return refuse(ret_message, -EINVAL, "A sandbox id consists of 1 to %d of a-z, 0-9 and '-'.",
			      SPAWN_ID_MAX - 1);
	if (r->verb == SPAWN_START)
		return check_start(r, nfds, ret_message);
	if (r->verb == SPAWN_PAGES)
		return check_files_mask(r, nfds, ret_message);
	if (nfds != 0)
		return refuse(ret_message, -EINVAL, "This verb takes no descriptors.");
	if (r->verb == SPAWN_STOP && !reason_valid(r->reason))
		return refuse(ret_message, -EINVAL, "A stop needs a reason of 1 to %d printable characters.",
			      SPAWN_REASON_MAX - 1);
	return 0;
}

static bool writable_file(const struct spawn_request *r, int which)
{
	if (r->verb == SPAWN_PAGES)
		return which == SPAWN_FD_PAGES;
	if (which == SPAWN_FD_SCRATCH)
		return true;
	return !spawn_mode_clones(r->mode) && which == SPAWN_FD_RAM;
}

/* The host's own kernel reads it as a file system: not what just anybody wrote. */
static bool mounted_unseen(const struct spawn_request *r, int which, const struct stat *st)
{
	if (r->verb != SPAWN_START || r->engine != SPAWN_ENGINE_JAIL)
		return false;
	return (which == SPAWN_FD_ROOTFS || which == SPAWN_FD_GUEST) && (st->st_uid != 0 || (st->st_mode & 022));
}

static int check_file(const struct spawn_request *r, int which, int fd, char *ret_message)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (flags & O_PATH))
		return refuse(ret_message, -EINVAL, "The %s is not an open regular file.", fd_names[which]);
	if (writable_file(r, which) && (flags & O_ACCMODE) != O_RDWR)
		return refuse(ret_message, -EINVAL, "The %s must be open for reading and writing.",
			      fd_names[which]);
	if (which == SPAWN_FD_PAGES && (flags & O_APPEND))
		return refuse(ret_message, -EINVAL, "The %s must not be open for appending.",
			      fd_names[which]);
	if ((flags & O_ACCMODE) == O_WRONLY)
		return refuse(ret_message, -EINVAL, "The %s must be open for reading.", fd_names[which]);
	if (mounted_unseen(r, which, &st))
		return refuse(ret_message, -EPERM, "The %s must belong to root and be writable by root only.",
			      fd_names[which]);
	if (r->verb == SPAWN_START && which == SPAWN_FD_RAM &&
	    (uint64_t)st.st_size != (uint64_t)r->memory_mb << 20)
		return refuse(ret_message, -EINVAL, "The guest memory file is not %u MiB long.",
			      r->memory_mb);
	return 0;
}

int request_check_files(const struct spawn_request *r, const int *fds, char *ret_message)
{
	for (int i = 0; i < SPAWN_FD_COUNT; i++) {
		int err = fds[i] < 0 ? 0 : check_file(r, i, fds[i], ret_message);

		if (err)
			return err;
	}
	return 0;
}
