/* UNIT: appliance/store LIBS: -ljansson -lsqlite3 -lcrypto */
/* Head and tail of a stream, cut where no character is split. */
#include "appliance/fault.c"
#include "appliance/store/clip.h"
#include "appliance/store/ids.h"
#include "check.h"

static void expect(struct clip *c, const char *head, const char *tail, bool truncated)
{
	size_t len;
	const char *got = clip_head(c, &len);

	CHECK_INT(len, strlen(head));
	CHECK(memcmp(got, head, len) == 0);
	got = clip_tail(c, &len);
	CHECK_INT(len, strlen(tail));
	CHECK(memcmp(got, tail, len) == 0);
	CHECK(clip_truncated(c) == truncated);
}

static void test_small_is_whole(void)
{
	struct clip c;

	clip_init(&c, 4, 4);
	expect(&c, "", "", false);
	CHECK_INT(clip_append(&c, "abc", 3), 0);
	CHECK_INT(clip_append(&c, "", 0), 0);
	CHECK_INT(clip_append(&c, "defgh", 5), 0);
	expect(&c, "abcdefgh", "", false);
	CHECK_INT(clip_append(&c, "i", 1), 0);
	expect(&c, "abcd", "fghi", true);
	expect(&c, "abcd", "fghi", true);
	CHECK_INT(clip_append(&c, "0123456789", 10), 0);
	expect(&c, "abcd", "6789", true);
	CHECK_INT(clip_append(&c, "xy", 2), 0);
	expect(&c, "abcd", "89xy", true);
	CHECK_INT(clip_total(&c), 21);
	clip_free(&c);
	expect(&c, "", "", false);
}

static void test_utf8_is_not_split(void)
{
	struct clip c;

	clip_init(&c, 4, 4);
	/* aé | 漢 is cut off the head; the tail begins inside 字 (3 bytes) and 😀 (4). */
	CHECK_INT(clip_append(&c, "a\xC3\xA9\xE6\xBC\xA2\xE5\xAD\x97z", 10), 0);
	expect(&c, "a\xC3\xA9", "\xE5\xAD\x97z", true);
	CHECK_INT(clip_append(&c, "\xF0\x9F\x98\x80!", 5), 0);
	expect(&c, "a\xC3\xA9", "!", true);
	clip_free(&c);
}

static void test_invalid_bytes_stay(void)
{
	struct clip c;
	char *clean;
	size_t len;

	clip_init(&c, 4, 4);
	CHECK_INT(clip_append(&c, "\x80\x80\x80\x80....\x80\x80\x80\x80", 12), 0);
	expect(&c, "\x80\x80\x80\x80", "\x80", true);
	clip_free(&c);
	clean = utf8_clean("a\xC0\xAF\xED\xA0\x80\xF4\x90\x80\x80\xC3", 11, &len);
	CHECK_STR(clean, "a"
			 "\xEF\xBF\xBD\xEF\xBF\xBD"
			 "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
			 "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
			 "\xEF\xBF\xBD");
	free(clean);
	clean = utf8_clean("\xE6\xBC\xA2\xF0\x9F\x98\x80\x7F", 8, &len);
	CHECK_STR(clean, "\xE6\xBC\xA2\xF0\x9F\x98\x80\x7F");
	free(clean);
}

/* Whatever the pieces, the result is that of the whole. */
static void test_pieces_do_not_matter(void)
{
	enum { TOTAL = 100000 };
	static char text[TOTAL];
	struct clip whole, pieces;
	size_t a, b;
	unsigned seed = 7;

	for (int i = 0; i < TOTAL; i++)
		text[i] = (char)(rand_r(&seed) & 0xff);
	for (int round = 0; round < 200; round++) {
		int total = rand_r(&seed) % TOTAL, step, at;

		clip_init(&whole, 1000, 700);
		clip_init(&pieces, 1000, 700);
		CHECK_INT(clip_append(&whole, text, total), 0);
		for (at = 0; at < total; at += step) {
			step = 1 + rand_r(&seed) % 900;
			step = step < total - at ? step : total - at;
			CHECK_INT(clip_append(&pieces, text + at, step), 0);
		}
		CHECK(memcmp(clip_head(&whole, &a), clip_head(&pieces, &b), total < 1000 ? total : 990) == 0);
		CHECK_INT(a, b);
		clip_tail(&whole, &a);
		CHECK(memcmp(clip_tail(&whole, &a), clip_tail(&pieces, &b), a) == 0);
		CHECK_INT(a, b);
		CHECK(a == 0 || memcmp(clip_tail(&whole, &a), text + total - a, a) == 0);
		clip_free(&whole);
		clip_free(&pieces);
	}
}

static void test_ids(void)
{
	char one[STORE_ID_MAX], two[STORE_ID_MAX];

	id_new("sbx", one);
	id_new("sbx", two);
	CHECK_INT(strlen(one), 24);
	CHECK(strncmp(one, "sbx-", 4) == 0 && strcmp(one, two) != 0);
	CHECK(id_valid(one) && !id_valid("") && !id_valid("../x") && !id_valid("A") && !id_valid("a/b"));
	CHECK(!id_valid("0123456789012345678901234567890123456789"));
}

int main(void)
{
	test_small_is_whole();
	test_utf8_is_not_split();
	test_invalid_bytes_stay();
	test_pieces_do_not_matter();
	test_ids();
	return 0;
}
