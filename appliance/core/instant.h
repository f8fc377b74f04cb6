/* Named instants of a sandbox's life, for the tests that kill processes at each
 * of them. Where CARREL_INSTANTS names a file when carreld starts, and that file
 * holds an instant's name as it is reached, carreld removes the file and stops
 * itself by SIGSTOP: whoever wrote it kills what it likes and continues it. Without
 * the variable an instant is one comparison.
 *
 * Any thread. carreld --instants prints the names.
 */
#ifndef CARREL_INSTANT_H
#define CARREL_INSTANT_H

#include <stdio.h>

enum instant {
	INSTANT_CREATE_ADMITTED,   /* its row is on its way */
	INSTANT_CREATE_DISK,       /* the scratch disk is made */
	INSTANT_CREATE_STARTED,    /* the machine runs */
	INSTANT_CREATE_IDENTIFIED, /* before the row says that it runs */
	INSTANT_CREATE_COMMITTED,  /* before the caller is told */
	INSTANT_POOL_DISK,         /* of a machine that nobody owns, from here */
	INSTANT_POOL_STARTED,
	INSTANT_POOL_IDENTIFIED,
	INSTANT_POOL_WARM,
	INSTANT_POOL_READY,        /* its processors stand still */
	INSTANT_POOL_TAKEN,        /* it is a sandbox's; the row is on its way */
	INSTANT_EXECUTE_COMMITTED, /* the code was not sent yet */
	INSTANT_EXECUTE_SENT,
	INSTANT_END_BEGUN,
	INSTANT_END_GONE,          /* the machine is gone, the row says ending */
	INSTANT_END_COMMITTED,

	INSTANT_PAUSE_FILES,       /* temporary files exist */
	INSTANT_PAUSE_FROZEN,      /* the guest has synced */
	INSTANT_PAUSE_HALTED,      /* its processors stand still, the link is closed */
	INSTANT_PAUSE_SAVED,       /* memory and state are written, not synced */
	INSTANT_PAUSE_SEALED,      /* the files have their names */
	INSTANT_PAUSE_COMMITTED,   /* the row says paused, the machine is there */
	INSTANT_PAUSE_STOPPED,     /* the machine is gone */

	INSTANT_RESUME_OPENED,     /* the files were checked */
	INSTANT_RESUME_STARTED,    /* the machine runs */
	INSTANT_RESUME_LINKED,
	INSTANT_RESUME_IDENTIFIED, /* the row still says paused */
	INSTANT_RESUME_COMMITTED,  /* the row says running, the files are there */
	INSTANT_RESUME_CLEANED,    /* the files are gone */

	INSTANT_COPY_FILES,        /* of fork and snapshot, from here */
	INSTANT_COPY_FROZEN,
	INSTANT_COPY_HALTED,
	INSTANT_COPY_SAVED,
	INSTANT_COPY_COPIED,       /* the disk as well */
	INSTANT_COPY_CONTINUED,    /* the original's processors run again */

	INSTANT_FORK_ADMITTED,     /* the copies have rows */
	INSTANT_FORK_STARTED,      /* a copy's machine runs */
	INSTANT_FORK_IDENTIFIED,
	INSTANT_FORK_COMMITTED,    /* a copy's row says running */
	INSTANT_SNAPSHOT_SEALED,   /* the files have their names */
	INSTANT_SNAPSHOT_COMMITTED,
	INSTANT_SNAPSHOT_DELETED,  /* the row is gone, the files are there */

	INSTANTS,
};

void instant(enum instant at);
void instants_print(FILE *out);

#endif
