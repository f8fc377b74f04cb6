/* Whole writes of a snapshot's files; whole reads are pages_read() of vmm/pages.h. */
#ifndef CARREL_SNAPSHOT_FILE_H
#define CARREL_SNAPSHOT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* 0 or negative errno. */
int file_write(int fd, const void *bytes, size_t size, uint64_t offset);

#endif
