#include "aml.h"

#include <string.h>

enum {
	OP_NAME = 0x08,
	OP_BYTE = 0x0a,
	OP_WORD = 0x0b,
	OP_DWORD = 0x0c,
	OP_STRING = 0x0d,
	OP_QWORD = 0x0e,
	OP_SCOPE = 0x10,
	OP_BUFFER = 0x11,
	OP_PACKAGE = 0x12,
	OP_METHOD = 0x14,
	OP_EXTENDED = 0x5b,
	OP_DEVICE = 0x82, /* after OP_EXTENDED */
	OP_IF = 0xa0,

	/* Every length is written in this many bytes, the longest form but one:
	 * 20 bits. Shorter forms would only save bytes. */
	LENGTH_BYTES = 3,
	LENGTH_MAX = (1 << 20) - 1,
	/* A resource template's buffer says its size before it, as a word. */
	BUFFER_SIZE_BYTES = 3,
};

void aml_bytes(struct aml *a, const void *bytes, size_t size)
{
	if (a->full || size > a->size - a->used) {
		a->full = true;
		return;
	}
	memcpy(a->bytes + a->used, bytes, size);
	a->used += size;
}

void aml_byte(struct aml *a, uint8_t value)
{
	aml_bytes(a, &value, 1);
}

static void name_write(struct aml *a, const char *name)
{
	aml_bytes(a, name, 4);
}

size_t aml_open(struct aml *a, enum aml_kind kind, const char *name, uint8_t count)
{
	static const uint8_t ops[] = {
		[AML_SCOPE] = OP_SCOPE,     [AML_DEVICE] = OP_DEVICE, [AML_METHOD] = OP_METHOD,
		[AML_PACKAGE] = OP_PACKAGE, [AML_BUFFER] = OP_BUFFER, [AML_IF] = OP_IF
	};
	size_t opened;

	if (kind == AML_DEVICE)
		aml_byte(a, OP_EXTENDED);
	aml_byte(a, ops[kind]);
	opened = a->used;
	aml_bytes(a, (uint8_t[LENGTH_BYTES]){ 0 }, LENGTH_BYTES);
	if (name)
		name_write(a, name);
	if (kind == AML_METHOD || kind == AML_PACKAGE)
		aml_byte(a, count);
	return opened;
}

void aml_close(struct aml *a, size_t opened)
{
	size_t length = a->used - opened;

	if (a->full || length > LENGTH_MAX) {
		a->full = true;
		return;
	}
	/* The first byte says how many follow and has the lowest four bits. */
	a->bytes[opened] = (uint8_t)((LENGTH_BYTES - 1) << 6 | (length & 0xf));
	a->bytes[opened + 1] = (uint8_t)(length >> 4);
	a->bytes[opened + 2] = (uint8_t)(length >> 12);
}

void aml_name(struct aml *a, const char *name)
{
	aml_byte(a, OP_NAME);
	name_write(a, name);
}

void aml_integer(struct aml *a, uint64_t value)
{
	uint8_t bytes[9];
	size_t size = value <= 0xff ? 1 : value <= 0xffff ? 2 : value <= 0xffffffff ? 4 : 8;

	if (value <= 1) { /* ZeroOp and OneOp */
		aml_byte(a, (uint8_t)value);
		return;
	}
	bytes[0] = size == 1 ? OP_BYTE : size == 2 ? OP_WORD : size == 4 ? OP_DWORD : OP_QWORD;
	memcpy(bytes + 1, &value, size);
	aml_bytes(a, bytes, 1 + size);
}

void aml_string(struct aml *a, const char *text)
{
	aml_byte(a, OP_STRING);
	aml_bytes(a, text, strlen(text) + 1);
}

static unsigned hex(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'A' + 10);
}

/* Three letters of five bits, four hex digits; the bytes in network order. */
void aml_eisa_id(struct aml *a, const char *id)
{
	unsigned letters =
		(unsigned)(id[0] - '@') << 10 | (unsigned)(id[1] - '@') << 5 | (unsigned)(id[2] - '@');
	uint8_t bytes[5] = { OP_DWORD, (uint8_t)(letters >> 8), (uint8_t)letters,
			     (uint8_t)(hex(id[3]) << 4 | hex(id[4])),
			     (uint8_t)(hex(id[5]) << 4 | hex(id[6])) };

	aml_bytes(a, bytes, sizeof(bytes));
}

size_t aml_resources_open(struct aml *a)
{
	size_t opened = aml_open(a, AML_BUFFER, NULL, 0);

	aml_bytes(a, (uint8_t[BUFFER_SIZE_BYTES]){ OP_WORD }, BUFFER_SIZE_BYTES);
	return opened;
}

void aml_resource_memory(struct aml *a, uint32_t base, uint32_t size)
{
	uint8_t bytes[12] = { 0x86, 9, 0, 1 /* writable */ };

	memcpy(bytes + 4, &base, sizeof(base));
	memcpy(bytes + 8, &size, sizeof(size));
	aml_bytes(a, bytes, sizeof(bytes));
}

void aml_resource_port(struct aml *a, uint16_t base, uint8_t size)
{
	uint8_t bytes[8] = { 0x47, 1 /* 16 bits decoded */ };

	memcpy(bytes + 2, &base, sizeof(base));
	memcpy(bytes + 4, &base, sizeof(base));
	bytes[6] = 1;
	bytes[7] = size;
	aml_bytes(a, bytes, sizeof(bytes));
}

void aml_resource_interrupt(struct aml *a, uint32_t gsi)
{
	uint8_t bytes[9] = { 0x89, 6, 0, 0x03 /* consumer, edge */, 1 };

	memcpy(bytes + 5, &gsi, sizeof(gsi));
	aml_bytes(a, bytes, sizeof(bytes));
}

void aml_resources_close(struct aml *a, size_t opened)
{
	uint16_t size;

	aml_bytes(a, (uint8_t[]){ 0x79, 0 }, 2); /* the end, without a checksum */
	if (!a->full) {
		size = (uint16_t)(a->used - opened - LENGTH_BYTES - BUFFER_SIZE_BYTES);
		memcpy(a->bytes + opened + LENGTH_BYTES + 1, &size, sizeof(size));
	}
	aml_close(a, opened);
}
