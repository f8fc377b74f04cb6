/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* COBS records: round trips, and a reader that is in step again after damage. */
#include <stdint.h>

#include "link/cobs.h"
#include "link/record.h"
#include "tests/unit/check.h"

static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Feeds bytes in pieces of at most step; returns the last record and how many. */
static size_t feed(struct cobs_decoder *d, const uint8_t *bytes, size_t len, size_t step, uint8_t *ret,
		   size_t *ret_len)
{
	size_t records = 0;

	while (len > 0) {
		size_t n = len < step ? len : step;
		const uint8_t *record;
		size_t record_len;
		size_t took = cobs_decode(d, bytes, n, &record, &record_len);

		CHECK(took > 0 && took <= n);
		if (record_len) {
			records++;
			memcpy(ret, record, record_len);
			*ret_len = record_len;
		}
		bytes += took;
		len -= took;
	}
	return records;
}

static void round_trip(const uint8_t *in, size_t len)
{
	static uint8_t wire[COBS_BOUND(RECORD_PLAIN_MAX)], out[LINK_RECORD_MAX];
	static struct cobs_decoder d;
	size_t n = cobs_encode(in, len, wire), out_len = 0;

	CHECK(n <= COBS_BOUND(len));
	CHECK(memchr(wire, 0, n) == wire + n - 1);
	for (size_t step = 1; step <= n; step = step * 3 + 1) {
		CHECK_INT(feed(&d, wire, n, step, out, &out_len), len > 0);
		CHECK(len == 0 || (out_len == len && memcmp(out, in, len) == 0));
	}
}

static void test_round_trips(void)
{
	static uint8_t in[RECORD_PLAIN_MAX];

	for (size_t len = 0; len <= 1024; len++) {
		memset(in, 0, len);
		round_trip(in, len);
		memset(in, 0xff, len);
		round_trip(in, len);
		for (size_t i = 0; i < len; i++)
			in[i] = draw() % 3 ? (uint8_t)draw() : 0;
		round_trip(in, len);
	}
	/* Zeros about the ends of full blocks. */
	for (size_t run = 250; run <= 260; run++) {
		for (size_t at = 0; at < 4 * run; at++)
			in[at] = at % run == run - 1 ? 0 : 7;
		for (size_t len = 2 * run; len <= 4 * run; len++)
			round_trip(in, len);
	}
	for (int kind = 0; kind < 3; kind++) {
		for (size_t i = 0; i < sizeof(in); i++)
			in[i] = kind == 0 ? 0 : kind == 1 ? 1 : (uint8_t)draw();
		round_trip(in, sizeof(in));
	}
}

static void test_known_vectors(void)
{
	static const struct {
		const char *in;
		size_t len;
		const char *wire;
		size_t wire_len;
	} vectors[] = {
		{ "", 0, "\x01", 2 },
		{ "\0", 1, "\x01\x01", 3 },
		{ "\x11\x22\0\x33", 4, "\x03\x11\x22\x02\x33", 6 },
		{ "\x11\0\0\0", 4, "\x02\x11\x01\x01\x01", 6 },
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint8_t wire[16];

		CHECK_INT(cobs_encode((const uint8_t *)vectors[i].in, vectors[i].len, wire),
			  vectors[i].wire_len);
		CHECK(memcmp(wire, vectors[i].wire, vectors[i].wire_len) == 0);
	}
}

/* Whatever came before, a whole record between two delimiters arrives. */
static void test_resync(void)
{
	static uint8_t junk[3 * LINK_RECORD_MAX], out[LINK_RECORD_MAX], wire[64];
	static struct cobs_decoder d;
	const char *text = "the next record";
	size_t n = cobs_encode((const uint8_t *)text, strlen(text), wire);

	for (int round = 0; round < 500; round++) {
		size_t len = draw() % sizeof(junk), out_len = 0;

		for (size_t i = 0; i < len; i++)
			junk[i] = draw() % 200 ? (uint8_t)draw() : 0;
		feed(&d, junk, len, 1 + draw() % 5000, out, &out_len);
		feed(&d, (const uint8_t *)"", 1, 1, out, &out_len);
		CHECK_INT(feed(&d, wire, n, 1 + draw() % 20, out, &out_len), 1);
		CHECK(out_len == strlen(text) && memcmp(out, text, out_len) == 0);
	}
}

static void test_too_long_is_skipped(void)
{
	static uint8_t big[2 * LINK_RECORD_MAX], out[LINK_RECORD_MAX];
	static struct cobs_decoder d;
	size_t out_len;

	memset(big, 2, sizeof(big));
	CHECK_INT(feed(&d, big, sizeof(big), 1000, out, &out_len), 0);
	CHECK_INT(d.len, 0);
	CHECK_INT(feed(&d, (const uint8_t *)"\0\x02x\0", 4, 4, out, &out_len), 1);
	CHECK(out_len == 1 && out[0] == 'x');
	big[sizeof(big) - 1] = 0;
	CHECK_INT(feed(&d, big, sizeof(big), sizeof(big), out, &out_len), 0);
	CHECK_INT(feed(&d, (const uint8_t *)"\x02y\0", 3, 3, out, &out_len), 1);
	CHECK(out_len == 1 && out[0] == 'y');
}

/* The head of one DATA record and the tail of another are no DATA record. */
static void test_glued_records_are_seen(void)
{
	static uint8_t a[RECORD_PLAIN_MAX], b[RECORD_PLAIN_MAX];
	uint8_t tag[LINK_TAG] = { 1, 2, 3, 4 };
	struct record_data data;
	size_t n;

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	n = record_data_seal(a, 1000, tag, 7);
	CHECK(record_data_parse(a, n, &data));
	CHECK(data.number == 7 && data.len == 1000 && memcmp(data.tag, tag, LINK_TAG) == 0);
	CHECK_INT(record_data_seal(b, 1000, tag, 8), n);
	for (size_t cut = 1; cut < n - 1; cut++) {
		memcpy(b, a, cut);
		/* All of b, or all of a that differs. */
		CHECK(cut <= 5 || cut > n - 4 || !record_data_parse(b, n, &data));
		record_data_seal(b, 1000, tag, 8);
		CHECK(!record_data_parse(a, cut, &data));
	}
}

int main(void)
{
	test_round_trips();
	test_known_vectors();
	test_resync();
	test_too_long_is_skipped();
	test_glued_records_are_seen();
	return 0;
}
