/* UNIT: vmm/host LIBS: -luv -ljansson */
/* The monitor's parser on split, broken and hostile input. */
#include <errno.h>
#include <stdbool.h>

#include "check.h"
#include "vmm/host/qmp.h"

static struct qmp_reader reader;
static int seen;
static int answer;

static int message(json_t *object, void *arg)
{
	CHECK(json_is_object(object));
	CHECK(arg == &seen);
	seen++;
	return answer;
}

static void reset(void)
{
	reader.used = 0;
	seen = 0;
	answer = 0;
}

static int feed(const char *bytes, size_t n)
{
	return qmp_reader_feed(&reader, bytes, n, message, &seen);
}

static int feed_text(const char *text)
{
	return feed(text, strlen(text));
}

static void whole_and_split_lines_give_the_same(void)
{
	static const char text[] = "{\"QMP\":{}}\r\n{\"return\":{}}\r\n\r\n{\"event\":\"STOP\"}\n";

	for (size_t step = 1; step < sizeof(text); step++) {
		reset();
		for (size_t at = 0; at < sizeof(text) - 1; at += step) {
			size_t left = sizeof(text) - 1 - at;

			CHECK_INT(feed(text + at, left < step ? left : step), 0);
		}
		CHECK_INT(seen, 3);
		CHECK_INT(reader.used, 0);
	}
}

static void unfinished_line_waits(void)
{
	reset();
	CHECK_INT(feed_text("{\"return\""), 0);
	CHECK_INT(seen, 0);
	CHECK_INT(feed_text(":1}"), 0);
	CHECK_INT(seen, 0);
	CHECK_INT(feed_text("\n"), 0);
	CHECK_INT(seen, 1);
}

static void garbage_is_refused(void)
{
	static const char *const bad[] = {
		"not json\n",
		"[]\n",
		"1\n",
		"\"text\"\n",
		"null\n",
		"{\n",
		"{}{}\n",
		"{\"a\":1,\"a\":2}\n",
		"{\"a\":\"\xff\xfe\"}\n",
		"{\"a\":1}x\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		reset();
		CHECK_INT(feed_text(bad[i]), -EBADMSG);
		CHECK_INT(seen, 0);
	}
	reset();
	CHECK_INT(feed("{\"a\":\0 1}\n", 10), -EBADMSG);
}

static void deep_nesting_is_refused(void)
{
	static char deep[QMP_LINE_MAX];

	reset();
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "{\"a\":", 5);
	deep[sizeof(deep) - 1] = '\n';
	CHECK_INT(feed(deep, sizeof(deep)), -EBADMSG);
}

static void line_without_end_is_refused(void)
{
	static char block[4096];
	int err = 0;
	size_t fed = 0;

	reset();
	memset(block, 'x', sizeof(block));
	while (!err && fed <= 2 * QMP_LINE_MAX) {
		err = feed(block, sizeof(block));
		fed += sizeof(block);
	}
	CHECK_INT(err, -EMSGSIZE);
	CHECK(fed <= QMP_LINE_MAX + sizeof(block));
}

static void longest_line_is_taken(void)
{
	static char line[QMP_LINE_MAX + 1];

	reset();
	memset(line, 'x', sizeof(line));
	memcpy(line, "{\"a\":\"", 6);
	memcpy(line + QMP_LINE_MAX - 2, "\"}\n", 3);
	CHECK_INT(feed(line, sizeof(line)), 0);
	CHECK_INT(seen, 1);
}

static void callback_stops_the_feed(void)
{
	reset();
	answer = -ESHUTDOWN;
	CHECK_INT(feed_text("{}\n{}\n"), -ESHUTDOWN);
	CHECK_INT(seen, 1);
}

int main(void)
{
	whole_and_split_lines_give_the_same();
	unfinished_line_waits();
	garbage_is_refused();
	deep_nesting_is_refused();
	line_without_end_is_refused();
	longest_line_is_taken();
	callback_stops_the_feed();
	return 0;
}
