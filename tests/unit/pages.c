/* UNIT: vmm/host LIBS: -luv -ljansson */
/* The file of saved memory: whatever is not as it was written is found. */
#include <errno.h>
#include <unistd.h>

#include "check.h"
#include "vmm/host/pages.h"
#include "vmm/pages.h"

enum { RAM_PAGES = 64 };

static const struct pages_extent table[] = { { 0, 1 }, { 3, 2 }, { 5, 7 | PAGES_ZERO }, { 63, 1 } };

static struct pages_header header(void)
{
	struct pages_header h = { .version = PAGES_VERSION,
				  .page_bytes = PAGES_PAGE,
				  .ram_bytes = RAM_PAGES * PAGES_PAGE,
				  .data_pages = 4,
				  .zero_pages = 7,
				  .extents = 4,
				  .table_sum = sum_of(table, sizeof(table)) };

	memcpy(h.magic, PAGES_MAGIC, sizeof(h.magic));
	h.file_bytes = pages_table_offset(&h) + sizeof(table);
	return h;
}

static int file_make(void)
{
	char path[] = "/tmp/carrel-pages-XXXXXX", page[PAGES_PAGE];
	int fd = mkstemp(path);
	struct pages_header h = header();
	struct sum s;

	CHECK(fd >= 0);
	unlink(path);
	sum_begin(&s);
	for (int i = 0; i < 4; i++) {
		memset(page, 'a' + i, sizeof(page));
		sum_add(&s, page, sizeof(page));
		CHECK_INT(pwrite(fd, page, sizeof(page), (1 + i) * PAGES_PAGE), sizeof(page));
	}
	h.data_sum = sum_end(&s);
	h.header_sum = pages_header_sum(&h);
	CHECK_INT(pwrite(fd, table, sizeof(table), (off_t)pages_table_offset(&h)), sizeof(table));
	CHECK_INT(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	return fd;
}

static int verify(int fd)
{
	char message[128] = "";
	int err = pages_verify(fd, message, sizeof(message));

	CHECK((err == 0) == (message[0] == '\0'));
	return err;
}

static void a_whole_file_passes(void)
{
	struct pages_info info;
	char message[128];
	int fd = file_make();

	CHECK_INT(pages_info(fd, &info, message, sizeof(message)), 0);
	CHECK_INT(info.data_bytes, 4 * PAGES_PAGE);
	CHECK_INT(info.zero_bytes, 7 * PAGES_PAGE);
	CHECK_INT(info.ram_bytes, RAM_PAGES * PAGES_PAGE);
	CHECK_INT(verify(fd), 0);
	close(fd);
}

static void change_is_found(int fd, off_t at)
{
	unsigned char was, is;

	CHECK_INT(pread(fd, &was, 1, at), 1);
	is = was ^ 0x10;
	CHECK_INT(pwrite(fd, &is, 1, at), 1);
	CHECK_INT(verify(fd), -EBADMSG);
	CHECK_INT(pwrite(fd, &was, 1, at), 1);
}

static void every_changed_byte_is_found(void)
{
	int fd = file_make();
	off_t size = lseek(fd, 0, SEEK_END), end = size - (off_t)sizeof(table);

	for (off_t at = 0; at < (off_t)sizeof(struct pages_header); at++)
		change_is_found(fd, at);
	for (off_t at = PAGES_PAGE; at < end; at += 29)
		change_is_found(fd, at);
	for (off_t at = end; at < size; at++)
		change_is_found(fd, at);
	CHECK_INT(verify(fd), 0);
	close(fd);
}

static void every_other_length_is_found(void)
{
	int fd = file_make();
	off_t size = lseek(fd, 0, SEEK_END);

	CHECK_INT(ftruncate(fd, size + 1), 0);
	CHECK_INT(verify(fd), -EBADMSG);
	for (off_t n = size - 1; n >= 0; n -= 13) {
		CHECK_INT(ftruncate(fd, n), 0);
		CHECK_INT(verify(fd), -EBADMSG);
	}
	close(fd);
}

/* A header whose own sum is right, but which asks for what cannot be. */
static void counts_are_bounded(void)
{
	static const struct {
		size_t offset;
		uint64_t value;
	} cases[] = {
#define FIELD(name, value) { offsetof(struct pages_header, name), value }
		FIELD(extents, UINT64_MAX),
		FIELD(extents, RAM_PAGES + 1),
		FIELD(extents, 3),
		FIELD(data_pages, UINT64_MAX),
		FIELD(data_pages, UINT64_MAX / PAGES_PAGE),
		FIELD(data_pages, 3),
		FIELD(file_bytes, 0),
#undef FIELD
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct pages_header h = header();
		uint64_t bytes = h.file_bytes;

		memcpy((char *)&h + cases[i].offset, &cases[i].value, sizeof(uint64_t));
		h.header_sum = pages_header_sum(&h);
		CHECK(pages_header_check(&h, bytes, h.ram_bytes) != NULL);
	}
}

static const char *table_check(struct pages_extent a, struct pages_extent b)
{
	struct pages_extent two[] = { a, b };
	struct pages_header h = header();

	h.extents = 2;
	h.data_pages = (a.count & PAGES_ZERO ? 0 : a.count) + (b.count & PAGES_ZERO ? 0 : b.count);
	h.zero_pages = (a.count & PAGES_ZERO ? a.count & ~PAGES_ZERO : 0) +
		       (b.count & PAGES_ZERO ? b.count & ~PAGES_ZERO : 0);
	h.table_sum = sum_of(two, sizeof(two));
	return pages_table_check(&h, two);
}

static void extents_lie_inside_and_apart(void)
{
	struct pages_extent first = { 10, 5 };

	CHECK(table_check(first, (struct pages_extent){ 15, 49 }) == NULL);
	CHECK(table_check(first, (struct pages_extent){ 15, 49 | PAGES_ZERO }) == NULL);
	CHECK(table_check(first, (struct pages_extent){ 15, 50 }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ 14, 1 }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ 3, 1 }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ 20, 0 }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ 20, PAGES_ZERO }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ UINT32_MAX, 1 }) != NULL);
	CHECK(table_check(first, (struct pages_extent){ 20, ~PAGES_ZERO }) != NULL);
}

static void zeros_are_zeros_to_the_last_byte(void)
{
	char page[PAGES_PAGE] = { 0 };

	CHECK(pages_is_zero(page));
	page[PAGES_PAGE - 1] = 1;
	CHECK(!pages_is_zero(page));
	page[PAGES_PAGE - 1] = 0;
	page[0] = 1;
	CHECK(!pages_is_zero(page));
}

int main(void)
{
	a_whole_file_passes();
	every_changed_byte_is_found();
	every_other_length_is_found();
	counts_are_bounded();
	extents_lie_inside_and_apart();
	zeros_are_zeros_to_the_last_byte();
	return 0;
}
