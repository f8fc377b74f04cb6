/* CRC-64 of ECMA-182, bits reflected: finds what a disk or a cut-off write does
 * to a file. No protection against somebody who means it. */
#ifndef CARREL_SNAPSHOT_CRC64_H
#define CARREL_SNAPSHOT_CRC64_H

#include <stddef.h>
#include <stdint.h>

uint64_t crc64(const void *bytes, size_t size);

#endif
