/* UNIT: kernels/core LIBS: -lzmq -ljansson -lcrypto */
/* Text of streams: whole characters out of bytes cut anywhere, JSON escapes. */
#include "core/buf.h"
#include "core/utf8.h"
#include "tests/unit/check.h"

#define FFFD "\xef\xbf\xbd"

struct sample {
	const char *in;
	const char *out;
};

/* Right-hand sides are what Python's bytes.decode("utf-8", "replace") gives. */
static const struct sample samples[] = {
	{ "", "" },
	{ "abc", "abc" },
	{ "a\xc3\xa9z", "a\xc3\xa9z" },
	{ "\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0\xe5\xa5\xbd" },
	{ "\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!" },
	{ "\xff\xfe", FFFD FFFD },
	{ "\xc3", FFFD },
	{ "\xc3(", FFFD "(" },
	{ "\xe4\xbd", FFFD },
	{ "\xe4\xbd"
	  "a",
	  FFFD "a" },
	{ "\xe4\xe4\xbd\xa0", FFFD "\xe4\xbd\xa0" },
	{ "\xf0\x9f\x98", FFFD },
	{ "\xf0\x9f\xf0\x9f\x98\x80", FFFD "\xf0\x9f\x98\x80" },
	{ "\xc0\xaf", FFFD FFFD },
	{ "\xe0\x80\xaf", FFFD FFFD FFFD },
	{ "\xed\xa0\x80", FFFD FFFD FFFD },
	{ "\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD },
	{ "\xf5\x80", FFFD FFFD },
	{ "\x80"
	  "a\xbf",
	  FFFD "a" FFFD },
	{ "\xef\xbf\xbd\xef\xbf\xbf", FFFD "\xef\xbf\xbf" },
};

static void check_pieces(const struct sample *s, size_t step)
{
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO out = { 0 };
	size_t n = strlen(s->in), at, take;

	for (at = 0; at < n; at += take) {
		take = n - at < step ? n - at : step;
		utf8_feed(&u, s->in + at, take, &out);
	}
	utf8_end(&u, &out);
	buf_put(&out, "", 1);
	CHECK(!out.failed);
	CHECK_STR(out.data, s->out);
}

static void test_samples(void)
{
	size_t i, step;

	for (i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		for (step = 1; step <= 8; step++)
			check_pieces(&samples[i], step);
	}
}

/* A long text in all cuts into two is the same text. */
static void test_cuts(void)
{
	static const char text[] = "x\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80\n\xe2\x82\xac";
	const size_t n = sizeof(text) - 1;
	size_t cut;

	for (cut = 0; cut <= n; cut++) {
		struct utf8_stream u = { .n = 0 };
		BUF_AUTO out = { 0 };

		utf8_feed(&u, text, cut, &out);
		utf8_feed(&u, text + cut, n - cut, &out);
		CHECK_INT(u.n, 0);
		CHECK(out.len == n && !memcmp(out.data, text, n));
	}
}

static void test_escape(void)
{
	static const char raw[] = "a\"b\\c\n\r\t\x01\x1b[0m\0\x7f\xc3\xa9";
	BUF_AUTO out = { 0 };

	buf_json_escape(&out, raw, sizeof(raw) - 1);
	buf_put(&out, "", 1);
	CHECK_STR(out.data, "a\\\"b\\\\c\\n\\r\\t\\u0001\\u001b[0m\\u0000\x7f\xc3\xa9");
}

static void test_buf(void)
{
	BUF_AUTO b = { 0 };
	size_t i;

	for (i = 0; i < 100000; i++)
		buf_puts(&b, "0123456789");
	CHECK_INT(b.len, 1000000);
	CHECK(!buf_room(&b, (size_t)-1));
	CHECK(b.failed);
	/* Sticky, and what was there stays. */
	buf_puts(&b, "x");
	CHECK_INT(b.len, 1000000);
}

int main(void)
{
	test_samples();
	test_cuts();
	test_escape();
	test_buf();
	return 0;
}
