/* Files that the command leaves for other programs. Exit codes, as in command.h. */
#ifndef CARREL_WRITE_FILE_H
#define CARREL_WRITE_FILE_H

#include <sys/types.h>

/* A folder and those above it. */
int make_folders(const char *path);
/* The whole text under that name, or what was there before. */
int write_file(const char *folder, const char *name, mode_t mode, const char *text);

#endif
