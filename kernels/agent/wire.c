#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

uint32_t wire_u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static uint8_t *put_u32(uint8_t *at, size_t value)
{
	uint32_t v = htole32((uint32_t)value);

	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

int wire_decode(const uint8_t *payload, size_t len, enum wire_channel *ret_channel, struct wire_message *ret)
{
	const uint8_t *at = payload + 5, *end = payload + len;
	uint32_t n, i;

	if (len < 5 || payload[0] >= WIRE_CHANNELS)
		return -EPROTO;
	n = wire_u32(payload + 1);
	if (n < WIRE_SIGNED || n > JUPYTER_PARTS_MAX)
		return -EPROTO;
	for (i = 0; i < n; i++) {
		size_t size;

		if (end - at < 4)
			return -EPROTO;
		size = wire_u32(at);
		at += 4;
		if (size > (size_t)(end - at))
			return -EPROTO;
		ret->part[i] = (struct wire_part){ .bytes = at, .len = size };
		at += size;
	}
	if (at != end)
		return -EPROTO;
	ret->n = n;
	*ret_channel = payload[0];
	return 0;
}

size_t wire_size(const struct wire_message *m)
{
	size_t size = 5;
	unsigned i;

	for (i = 0; i < m->n; i++)
		size += 4 + m->part[i].len;
	return size;
}

void wire_encode(enum wire_channel channel, const struct wire_message *m, uint8_t *out)
{
	unsigned i;

	*out++ = (uint8_t)channel;
	out = put_u32(out, m->n);
	for (i = 0; i < m->n; i++) {
		out = put_u32(out, m->part[i].len);
		if (m->part[i].len)
			memcpy(out, m->part[i].bytes, m->part[i].len);
		out += m->part[i].len;
	}
}

struct wire_part wire_text(const char *text)
{
	return (struct wire_part){ .bytes = (const uint8_t *)text, .len = strlen(text) };
}

static size_t skip_space(struct wire_part json, size_t at)
{
	while (at < json.len && (json.bytes[at] == ' ' || json.bytes[at] == '\t' || json.bytes[at] == '\n' ||
				 json.bytes[at] == '\r'))
		at++;
	return at;
}

/* Where the value after "name" : starts, or json.len. */
static size_t find_value(struct wire_part json, const char *name)
{
	size_t len = strlen(name), at = 0;

	while (at < json.len) {
		const uint8_t *hit = memmem(json.bytes + at, json.len - at, name, len);

		if (!hit)
			return json.len;
		at = (size_t)(hit - json.bytes) + len;
		if (hit == json.bytes || hit[-1] != '"' || at >= json.len || json.bytes[at] != '"')
			continue;
		at = skip_space(json, at + 1);
		if (at < json.len && json.bytes[at] == ':')
			return skip_space(json, at + 1);
	}
	return json.len;
}

struct wire_part wire_field(struct wire_part json, const char *name)
{
	struct wire_part none = { 0 };
	size_t at = find_value(json, name);
	const uint8_t *end;

	if (at >= json.len || json.bytes[at] != '"')
		return none;
	at++;
	end = memchr(json.bytes + at, '"', json.len - at);
	if (!end)
		return none;
	return (struct wire_part){ .bytes = json.bytes + at, .len = (size_t)(end - json.bytes) - at };
}

bool wire_is(struct wire_part value, const char *text)
{
	return value.len == strlen(text) && memcmp(value.bytes, text, value.len) == 0;
}

bool wire_contains(struct wire_part json, const char *text)
{
	return json.len && memmem(json.bytes, json.len, text, strlen(text));
}
