/* What a file of saved memory (vmm/pages.h) says of itself, for who keeps it.
 * Both calls read the file; pages_verify() all of it, so not on the loop's thread. */
#ifndef CARREL_HOST_PAGES_H
#define CARREL_HOST_PAGES_H

#include <stdint.h>

struct pages_info {
	uint64_t ram_bytes;
	uint64_t data_bytes; /* private pages with something in them */
	uint64_t zero_bytes; /* private pages of zeros: no data in the file */
	uint64_t file_bytes;
	uint64_t data_sum; /* pages_verify() holds the data against it */
};

/* Header and length only. 0, or -EBADMSG (or the errno of reading) and a sentence. */
int pages_info(int fd, struct pages_info *ret, char *ret_message, unsigned size);
/* Every sum. A resume checks all but that of the data, which it does not read. */
int pages_verify(int fd, char *ret_message, unsigned size);

#endif
