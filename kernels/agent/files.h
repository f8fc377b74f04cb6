/* Files inside, with the rights of the user: what a path can reach here, the
 * code inside can reach as well.
 *
 * files.c        paths, errors as answers, delete
 * files_put.c    upload: a temporary file beside the target, fsync, rename
 * files_get.c    download
 * files_list.c   listing
 *
 * Only regular files are read and written; a fifo or a device is refused, and
 * never waited for.
 */
#ifndef CARREL_AGENT_FILES_H
#define CARREL_AGENT_FILES_H

#include "request.h"

void files_put(struct request *rq);
void files_get(struct request *rq);
void files_delete(struct request *rq);
void files_list(struct request *rq);

/* Between the files of this object. */

/* The absolute path of the query, to be freed; NULL when the request was answered. */
char *files_path(struct request *rq);
/* Answers rq with what err (a negative errno, or one of those below) means for path. */
void files_fail(struct request *rq, int err, const char *path);

enum {
	FILES_NOT_REGULAR = -4096, /* a fifo, device or socket, or a file of a virtual file system */
	FILES_TOO_DEEP = -4097,
};

#endif
