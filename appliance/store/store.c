#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inner.h"
#include "known.h"

/* Two writers on one state directory would cut each other's logs: the second is refused. */
static int store_lock(struct store *s, struct fault *f)
{
	char path[STORE_PATH_MAX];

	snprintf(path, sizeof(path), "%s/carrel.lock", s->dir);
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return fault_set(f, errno, 500, "store_unusable",
				 "The state directory %s cannot be written: %s. Give it to carreld's user, "
				 "or set STATE.",
				 s->dir, strerror(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return fault_set(f, EBUSY, 500, "store_busy",
				 "Another carreld uses the state directory %s: stop it, or set STATE to "
				 "another directory.",
				 s->dir);
	return 0;
}

static int store_dirs(struct store *s, struct fault *f)
{
	char path[STORE_PATH_MAX];
	int dir, err = 0;

	snprintf(path, sizeof(path), "%s/spool", s->dir);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		err = errno;
	dir = err ? -1 : open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err && (dir < 0 || fsync(dir) < 0))
		err = errno;
	if (dir >= 0)
		close(dir);
	if (err)
		return fault_set(f, err, err == ENOSPC ? 507 : 500,
				 err == ENOSPC ? "disk_full" : "store_unusable",
				 "%s cannot be made or synced: %s.", path, strerror(err));
	return 0;
}

static void store_free(struct store *s)
{
	db_close(&s->db);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->readers_lock);
	pthread_mutex_destroy(&s->known_lock);
	pthread_cond_destroy(&s->wake);
	free(s);
}

int store_open(const char *state_dir, struct store **ret, struct fault *f)
{
	char path[STORE_PATH_MAX];
	struct store *s = malloc(sizeof(*s));
	int err;

	if (!s)
		return fault_set(f, ENOMEM, 500, "out_of_memory", "Out of memory.");
	*s = (struct store){ .lock_fd = -1 };
	s->queue_last = &s->queue;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->readers_lock, NULL);
	pthread_mutex_init(&s->known_lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	snprintf(s->dir, sizeof(s->dir), "%s", state_dir);
	snprintf(path, sizeof(path), "%s/carrel.db", s->dir);
	err = store_lock(s, f);
	if (!err)
		err = store_dirs(s, f);
	if (!err)
		err = db_open(&s->db, path, true, f);
	if (!err) {
		err = writer_start(s);
		if (err)
			fault_set(f, -err, 500, "no_thread", "The store's thread cannot be started: %s.",
				  strerror(-err));
	}
	if (err) {
		store_free(s);
		return err;
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	writer_stop(s);
	readers_close(s);
	known_free(s);
	store_free(s);
}
