/* Whole reads and writes of a snapshot's files. 0 or negative errno. */
#ifndef CARREL_SNAPSHOT_FILE_H
#define CARREL_SNAPSHOT_FILE_H

#include <stddef.h>
#include <stdint.h>

int file_write(int fd, const void *bytes, size_t size, uint64_t offset);
/* -EIO: the file ends before. */
int file_read(int fd, void *ret, size_t size, uint64_t offset);

#endif
