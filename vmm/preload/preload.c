/* Loaded into QEMU (LD_PRELOAD) before its first instruction.
 *
 * QEMU takes most of its files as descriptors, but guest memory, kernel and
 * initrd only as paths, and the jail's root holds none of them. Here:
 *   - opening /carrel/fd/N gives a duplicate of the inherited descriptor N, at
 *     offset 0, and /dev/kvm one of the descriptor named by CARREL_KVM_FD;
 *   - when CARREL_PRIVATE_FD names a descriptor, shared mappings of its file
 *     become private: a clone's memory is copied on write, and the snapshot's
 *     file, which was opened for reading only, cannot be touched;
 *   - when CARREL_PAGES_FD names one as well, the private pages of a paused
 *     machine are loaded over that mapping: see load.h.
 * No other call is changed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "load.h"

#define PREFIX "/carrel/fd/"

int open(const char *path, int flags, ...);
int openat(int dir, const char *path, int flags, ...);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

static int fd_from_text(const char *text)
{
	char *end;
	long n;

	if (!text || !*text)
		return -1;
	n = strtol(text, &end, 10);
	return *end || n < 0 || n > 1024 ? -1 : (int)n;
}

/* The inherited descriptor that path stands for, or -1. */
static int inherited_fd(const char *path)
{
	if (strncmp(path, PREFIX, sizeof(PREFIX) - 1) == 0)
		return fd_from_text(path + sizeof(PREFIX) - 1);
	if (strcmp(path, "/dev/kvm") == 0)
		return fd_from_text(getenv("CARREL_KVM_FD"));
	return -1;
}

static int open_any(int dir, const char *path, int flags, mode_t mode)
{
	int fd = inherited_fd(path);

	if (fd < 0)
		return (int)syscall(SYS_openat, dir, path, flags, mode);
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(ap, int) : 0;
}

#define OPEN_BODY(dir)                                   \
	do {                                             \
		va_list ap;                              \
		mode_t mode;                             \
		va_start(ap, flags);                     \
		mode = mode_of(flags, ap);               \
		va_end(ap);                              \
		return open_any(dir, path, flags, mode); \
	} while (0)

int open(const char *path, int flags, ...)
{
	OPEN_BODY(AT_FDCWD);
}

int openat(int dir, const char *path, int flags, ...)
{
	OPEN_BODY(dir);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int dir, const char *path, int flags, ...) __attribute__((alias("openat")));

int __open_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

/* glibc's fopen does not go through open() above. */
FILE *fopen64(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *);
	FILE *f;
	int fd;

	if (inherited_fd(path) < 0) {
		*(void **)&next = dlsym(RTLD_NEXT, "fopen64");
		return next(path, mode);
	}
	fd = open_any(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0)
		return NULL;
	f = fdopen(fd, mode);
	if (!f)
		close(fd);
	return f;
}

FILE *fopen(const char *path, const char *mode) __attribute__((alias("fopen64")));

static int is_private(int fd)
{
	int private_fd = fd_from_text(getenv("CARREL_PRIVATE_FD"));
	struct stat a, b;

	if (private_fd < 0 || fd < 0 || fstat(private_fd, &a) != 0 || fstat(fd, &b) != 0)
		return 0;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Once, over the mapping of all guest memory. */
static void pages_into(void *ram, size_t length, int ram_fd)
{
	static int loaded;
	int pages_fd = fd_from_text(getenv("CARREL_PAGES_FD"));
	int state_fd = fd_from_text(getenv("CARREL_STATE_FD"));

	if (pages_fd < 0 || loaded)
		return;
	loaded = 1;
	load_pages(ram, length, ram_fd, state_fd, pages_fd);
}

void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	int saved = errno, private = (flags & MAP_SHARED) && is_private(fd);
	void *at;

	/* MAP_SHARED_VALIDATE, used for persistent memory, holds both bits. */
	if (private)
		flags = (flags & ~MAP_TYPE) | MAP_PRIVATE | MAP_NORESERVE;
	errno = saved;
	at = (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
	if (private && at != MAP_FAILED && offset == 0)
		pages_into(at, length, fd);
	return at;
}

void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));
