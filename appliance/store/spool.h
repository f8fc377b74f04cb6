/* Full bytes of outputs: spool/XID/N under the state directory.
 *
 * A spool_batch holds the files that one group commit touched, so that each is
 * synced once. Writer thread only, but spool_open_read().
 */
#ifndef CARREL_SPOOL_H
#define CARREL_SPOOL_H

#include <stdint.h>
#include <sys/types.h>

#include "store.h"

/* Files open at once in a batch; past it the oldest are synced early. */
enum { SPOOL_BATCH_MAX = 64 };

struct spool_batch {
	const char *dir; /* the state directory */
	unsigned count;
	struct {
		char execution_id[STORE_ID_MAX];
		unsigned n;
		int fd;
		int parent; /* its directory, when the file is new and the directory must be synced too; or -1 */
	} files[SPOOL_BATCH_MAX];
};

void spool_batch_init(struct spool_batch *b, const char *state_dir);
int spool_write(struct spool_batch *b, const char *execution_id, unsigned n, uint64_t offset, const void *bytes,
		size_t len);
/* Syncs and closes everything. The first error, if any. */
int spool_sync(struct spool_batch *b);

/* Makes spool/XID under state_dir if it is missing. A directory descriptor, or a negative errno. */
int spool_dir_open(const char *state_dir, const char *execution_id, bool create);
/* Takes an empty spool/XID away again; one that holds something stays. */
void spool_dir_remove(const char *state_dir, const char *execution_id);
/* A descriptor for reading, or a negative errno. */
int spool_open_read(const char *state_dir, const char *execution_id, unsigned n);
/* Takes spool/XID away with all that is in it; 0 too when there is none. unlink: not synced yet. Any thread, for an
 * execution that is over. */
int spool_unlink(const char *state_dir, const char *execution_id);
int spool_erase(const char *state_dir, const char *execution_id);
/* A name made in a directory or taken from it is only safe once the directory is synced. */
int dir_sync(const char *path);
/* All of it, or a negative errno. */
int pwrite_all(int fd, const void *bytes, size_t len, uint64_t offset);

#endif
