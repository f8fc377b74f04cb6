#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	DISK_CHUNK = 1024 * 1024,
	/* A file of the usual size has one; smaller ones are rare enough. */
	DISK_INODE_BYTES = 8192,
	/* The file system's own, those of the overlay and of the names that a sandbox is given. */
	DISK_OWN_INODES = 256,
};

extern char **environ;

/* The next data extent at or after *from. 1, 0 at the end, or negative errno. */
static int extent_next(int fd, off_t *from, off_t *to)
{
	off_t data = lseek(fd, *from, SEEK_DATA), hole;

	if (data < 0)
		return errno == ENXIO ? 0 : -errno;
	hole = lseek(fd, data, SEEK_HOLE);
	if (hole < 0)
		return -errno;
	*from = data;
	*to = hole;
	return 1;
}

static int copy_plain(int from, int to, off_t at, off_t end)
{
	char *buf = malloc(DISK_CHUNK);
	int err = buf ? 0 : -ENOMEM;

	while (!err && at < end) {
		size_t want = end - at < DISK_CHUNK ? (size_t)(end - at) : DISK_CHUNK;
		ssize_t n = pread(from, buf, want, at);

		if (n <= 0)
			err = n < 0 ? -errno : -EIO;
		else if (pwrite(to, buf, (size_t)n, at) != n)
			err = errno ? -errno : -ENOSPC;
		else
			at += n;
	}
	free(buf);
	return err;
}

static int copy_extent(int from, int to, off_t at, off_t end)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

		/* Across file systems, or on one that cannot: by hand. */
		if (n <= 0)
			return n < 0 && errno == ENOSPC ? -ENOSPC : copy_plain(from, to, at, end);
		at += n;
	}
	return 0;
}

int disk_copy_sparse(int from, int to)
{
	off_t size = lseek(from, 0, SEEK_END), at = 0, end;
	int more, err = 0;

	/* What to had before must not show through the holes. */
	if (size < 0 || ftruncate(to, 0) < 0)
		return -errno;
	/* Where the file system shares blocks (xfs, btrfs) nothing is copied; ext4 does not. */
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (ftruncate(to, size) < 0)
		return -errno;
	while (!err && (more = extent_next(from, &at, &end)) != 0) {
		if (more < 0)
			return more;
		err = copy_extent(from, to, at, end);
		at = end;
	}
	return err;
}

static int hash_extent(EVP_MD_CTX *ctx, int fd, off_t at, off_t end, char *buf)
{
	while (at < end) {
		size_t want = end - at < DISK_CHUNK ? (size_t)(end - at) : DISK_CHUNK;
		ssize_t n = pread(fd, buf, want, at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		/* Zeros are left out, so that the hash does not depend on how the
		 * file system lays out what was never written. */
		if (buf[0] != 0 || memcmp(buf, buf + 1, (size_t)n - 1) != 0) {
			EVP_DigestUpdate(ctx, &at, sizeof(at));
			EVP_DigestUpdate(ctx, buf, (size_t)n);
		}
		at += n;
	}
	return 0;
}

static int hash_file(EVP_MD_CTX *ctx, int fd, char *buf)
{
	off_t size = lseek(fd, 0, SEEK_END), at = 0, end;
	int more, err = 0;

	if (size < 0)
		return -errno;
	EVP_DigestUpdate(ctx, &size, sizeof(size));
	while (!err && (more = extent_next(fd, &at, &end)) != 0) {
		if (more < 0)
			return more;
		/* Chunks on fixed places, whatever the extents are. */
		at -= at % DISK_CHUNK;
		end += (DISK_CHUNK - end % DISK_CHUNK) % DISK_CHUNK;
		err = hash_extent(ctx, fd, at, end < size ? end : size, buf);
		at = end;
	}
	return err;
}

int disk_hash(int fd, char ret[DISK_HASH_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned i, len = 0;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	char *buf = malloc(DISK_CHUNK);
	int err = -ENOMEM;

	if (ctx && buf && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1)
		err = hash_file(ctx, fd, buf);
	if (!err) {
		EVP_DigestFinal_ex(ctx, sum, &len);
		for (i = 0; i < len && i < 32; i++)
			snprintf(ret + 2 * i, 3, "%02x", sum[i]);
	}
	EVP_MD_CTX_free(ctx);
	free(buf);
	return err;
}

static int spawn_wait(const char *const argv[])
{
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	int err, status;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	err = posix_spawn(&pid, argv[0], NULL, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* No journal (it never outlives a crash of its machine), no blocks kept for root,
 * every table written now so that the guest's kernel has nothing to initialise
 * behind a snapshot. The image's own scratch disk is made the same way. */
int disk_format(const char *path, unsigned disk_mb, unsigned inodes, struct fault *f)
{
	const bool fewer = inodes && inodes + DISK_OWN_INODES < disk_mb * (1024 * 1024 / DISK_INODE_BYTES);
	char number[16];
	const char *const argv[] = { "/usr/sbin/mkfs.ext4",
				     "-q",
				     "-F",
				     "-L",
				     "carrel-scratch",
				     "-m",
				     "0",
				     "-b",
				     "4096",
				     fewer ? "-N" : "-i",
				     number,
				     "-I",
				     "256",
				     "-O",
				     "^has_journal,^resize_inode",
				     "-E",
				     "lazy_itable_init=0,nodiscard,root_owner=0:0",
				     path,
				     NULL };
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : 0;

	snprintf(number, sizeof(number), "%u", fewer ? inodes + DISK_OWN_INODES : DISK_INODE_BYTES);
	if (!err && ftruncate(fd, (off_t)disk_mb * 1024 * 1024) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (!err)
		err = spawn_wait(argv);
	if (err < 0)
		return fault_set(f, -err, 500, "disk", "A disk of %u MB could not be made by mkfs.ext4: %s.",
				 disk_mb, strerror(-err));
	return 0;
}

int disk_remove_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
	return rmdir(path) < 0 ? -errno : 0;
}

int disk_sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		err = -errno;
	close(fd);
	return err;
}
