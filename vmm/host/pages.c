#include "pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vmm/pages.h"

enum { VERIFY_CHUNK = 1024 * 1024 };

static int wrong(char *ret_message, unsigned size, const char *sentence)
{
	snprintf(ret_message, size, "%s", sentence);
	return -EBADMSG;
}

static int unreadable(char *ret_message, unsigned size, int err)
{
	snprintf(ret_message, size, "The saved memory cannot be read: %s.", strerror(-err));
	return err;
}

static int header_read(int fd, struct pages_header *ret, char *ret_message, unsigned size)
{
	const char *sentence;
	struct stat st;
	int err = fstat(fd, &st) != 0 ? -errno : 0;

	if (!err && st.st_size < (off_t)sizeof(*ret))
		return wrong(ret_message, size, "The saved memory is cut off.");
	if (!err)
		err = pages_read(fd, ret, sizeof(*ret), 0);
	if (err)
		return unreadable(ret_message, size, err);
	sentence = pages_header_check(ret, (uint64_t)st.st_size, ret->ram_bytes);
	return sentence ? wrong(ret_message, size, sentence) : 0;
}

int pages_info(int fd, struct pages_info *ret, char *ret_message, unsigned size)
{
	struct pages_header h;
	int err = header_read(fd, &h, ret_message, size);

	if (err)
		return err;
	*ret = (struct pages_info){ .ram_bytes = h.ram_bytes,
				    .data_bytes = h.data_pages * PAGES_PAGE,
				    .zero_bytes = h.zero_pages * PAGES_PAGE,
				    .file_bytes = h.file_bytes,
				    .data_sum = h.data_sum };
	return 0;
}

static int data_verify(int fd, const struct pages_header *h, void *chunk, char *ret_message, unsigned size)
{
	uint64_t at = PAGES_PAGE, end = pages_table_offset(h);
	struct sum s;

	sum_begin(&s);
	while (at < end) {
		size_t n = end - at < VERIFY_CHUNK ? (size_t)(end - at) : VERIFY_CHUNK;
		int err = pages_read(fd, chunk, n, at);

		if (err)
			return unreadable(ret_message, size, err);
		sum_add(&s, chunk, n);
		at += n;
	}
	return sum_end(&s) == h->data_sum
		       ? 0
		       : wrong(ret_message, size, "The saved memory is damaged (its data).");
}

static int table_verify(int fd, const struct pages_header *h, char *ret_message, unsigned size)
{
	size_t bytes = h->extents * sizeof(struct pages_extent);
	struct pages_extent *table = malloc(bytes + 1);
	int err = table ? pages_read(fd, table, bytes, pages_table_offset(h)) : -ENOMEM;
	const char *sentence = err ? NULL : pages_table_check(h, table);

	free(table);
	if (err)
		return unreadable(ret_message, size, err);
	return sentence ? wrong(ret_message, size, sentence) : 0;
}

int pages_verify(int fd, char *ret_message, unsigned size)
{
	struct pages_header h;
	void *chunk;
	int err = header_read(fd, &h, ret_message, size);

	if (!err)
		err = table_verify(fd, &h, ret_message, size);
	if (err)
		return err;
	chunk = malloc(VERIFY_CHUNK);
	err = chunk ? data_verify(fd, &h, chunk, ret_message, size) : unreadable(ret_message, size, -ENOMEM);
	free(chunk);
	return err;
}
