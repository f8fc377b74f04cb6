/* Backups of a state directory: one tar file with a copy of the store, and the files that its rows speak of.
 *
 * The store is copied first, in one read transaction beside the writer; what it names is on the disk by then, because
 * files are synced before their rows. What goes away meanwhile (an execution erased, a sandbox resumed) is found
 * missing by the restore, which says so in its rows. Local: the files are read, not asked for.
 */
#ifndef CARREL_BACKUP_H
#define CARREL_BACKUP_H

#include "command.h"

#include <sqlite3.h>

enum { BACKUP_PATH_MAX = 4096 };

/* The state directory of this host's appliance, as conf/run finds it. */
void backup_state(char ret[BACKUP_PATH_MAX]);
/* Runs tar or the like to its end; EXIT_OK also for its exit code 1: files changed while tar read them, which live
 * ones do. */
int backup_run(const char **argv);
/* Opens a store; NULL: said on stderr. */
sqlite3 *backup_open(const char *path, int flags);
/* Runs statements; false: said on stderr. */
bool backup_sql(sqlite3 *db, const char *sql);
/* A whole number by a question; -1: said on stderr. */
long long backup_number(sqlite3 *db, const char *sql);

#endif
