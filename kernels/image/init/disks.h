/* Finding a disk by what it holds.
 *
 * Disks are told apart by the volume label in their ext4 superblock, so the
 * order in which an engine attaches them is of no consequence.
 */
#ifndef CARREL_INIT_DISKS_H
#define CARREL_INIT_DISKS_H

#include <stddef.h>

/* The label is 16 bytes in the superblock. */
#define DISK_LABEL_ROOT "carrel-root"
#define DISK_LABEL_SCRATCH "carrel-scratch"

/* Waits until a virtio disk with this ext4 label is there and writes its
 * device path into `ret_path`. Woken by the kernel as device nodes appear.
 * Does not return if none does within DISK_WAIT_MS. */
void disk_wait(const char *label, char *ret_path, size_t size);

#endif
