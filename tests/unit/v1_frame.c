/* UNIT: appliance/jupyter LIBS: */
/* Frames of a kernel's WebSocket: there and back, and everything that is none. */
#include <errno.h>
#include <stdint.h>

#include "appliance/jupyter/v1_frame.h"
#include "check.h"

static const struct v1_part message[] = {
	{ "{\"msg_id\":\"1\"}", 14 }, { "{}", 2 },     { "{}", 2 },
	{ "{\"code\":\"1+1\"}", 14 }, { "\0\xff", 2 }, { NULL, 0 },
};

/* A copy of its exact size, so that the sanitizer sees a read behind it. */
static int parse(const unsigned char *bytes, size_t len, struct v1_frame *f)
{
	static unsigned char *copy;

	free(copy);
	copy = malloc(len ? len : 1);
	memcpy(copy, bytes, len);
	return v1_frame_parse(copy, len, f);
}

static void round_trip(size_t parts)
{
	size_t len = v1_frame_size("shell", message, parts), i;
	unsigned char *bytes = malloc(len);
	struct v1_frame f;

	v1_frame_write(bytes, "shell", message, parts);
	CHECK_INT(parse(bytes, len, &f), 0);
	CHECK_STR(f.channel, "shell");
	CHECK_INT(f.parts, parts);
	for (i = 0; i < parts; i++) {
		CHECK_INT(f.part[i].len, message[i].len);
		CHECK(f.part[i].len == 0 || memcmp(f.part[i].bytes, message[i].bytes, f.part[i].len) == 0);
	}
	free(bytes);
}

static void known_bytes(void)
{
	/* As the protocol's own page lays it out: 6 offsets, "shell", "{}" four times. */
	static const unsigned char bytes[] = "\6\0\0\0\0\0\0\0"
					     "\x38\0\0\0\0\0\0\0"
					     "\x3d\0\0\0\0\0\0\0"
					     "\x3f\0\0\0\0\0\0\0"
					     "\x41\0\0\0\0\0\0\0"
					     "\x43\0\0\0\0\0\0\0"
					     "\x45\0\0\0\0\0\0\0"
					     "shell{}{}{}{}";
	struct v1_frame f;

	CHECK_INT(parse(bytes, sizeof(bytes) - 1, &f), 0);
	CHECK_STR(f.channel, "shell");
	CHECK_INT(f.parts, 4);
	CHECK(memcmp(f.part[3].bytes, "{}", 2) == 0);
}

static void refused(void)
{
	size_t len = v1_frame_size("iopub", message, 4), at, cut;
	unsigned char *bytes = malloc(len), *broken = malloc(len);
	struct v1_frame f = { .parts = 77 };

	v1_frame_write(bytes, "iopub", message, 4);
	for (cut = 0; cut < len; cut++)
		CHECK_INT(parse(bytes, cut, &f), -EBADMSG);
	/* Each byte of the head, set to what a hostile peer would: none is read past the end. */
	for (at = 0; at < 56; at++) {
		static const unsigned char values[] = { 0, 1, 7, 8, 0x7f, 0x80, 0xff };

		for (size_t v = 0; v < sizeof(values); v++) {
			memcpy(broken, bytes, len);
			broken[at] = values[v];
			if (broken[at] != bytes[at])
				parse(broken, len, &f);
		}
	}
	memcpy(broken, bytes, len);
	memset(broken + 16, 0xff, 8);
	CHECK_INT(parse(broken, len, &f), -EBADMSG);
	free(bytes);
	free(broken);
}

static void too_many(void)
{
	struct v1_part part[V1_PARTS_MAX];
	unsigned char bytes[8 * (V1_PARTS_MAX + 4) + 8] = { V1_PARTS_MAX + 3 };
	struct v1_frame f;
	size_t len, i;

	CHECK_INT(parse(bytes, sizeof(bytes), &f), -E2BIG);
	for (i = 0; i < V1_PARTS_MAX; i++)
		part[i] = (struct v1_part){ "", 0 };
	len = v1_frame_size("", part, V1_PARTS_MAX);
	CHECK(len <= sizeof(bytes));
	v1_frame_write(bytes, "", part, V1_PARTS_MAX);
	CHECK_INT(parse(bytes, len, &f), 0);
	CHECK_INT(f.parts, V1_PARTS_MAX);
	CHECK_STR(f.channel, "");
}

static void channel_names(void)
{
	unsigned char bytes[256];
	struct v1_frame f;
	char name[V1_CHANNEL_MAX + 2] = "0123456789abcde";
	size_t len = v1_frame_size(name, message, 4);

	v1_frame_write(bytes, name, message, 4);
	CHECK_INT(parse(bytes, len, &f), 0);
	CHECK_STR(f.channel, name);
	strcat(name, "f");
	len = v1_frame_size(name, message, 4);
	v1_frame_write(bytes, name, message, 4);
	CHECK_INT(parse(bytes, len, &f), -EBADMSG);
}

int main(void)
{
	round_trip(4);
	round_trip(5);
	round_trip(6);
	known_bytes();
	refused();
	too_many();
	channel_names();
	return 0;
}
