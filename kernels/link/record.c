#include "record.h"

#include <string.h>

#include "le.h"

size_t record_data_seal(uint8_t *plain, size_t len, const uint8_t *tag, uint32_t number)
{
	struct record_data_head head = { .kind = RECORD_DATA };
	struct record_data_tail tail;

	memcpy(head.tag, tag, LINK_TAG);
	le32_put(head.number, number);
	le16_put(head.len, (uint16_t)len);
	le32_put(tail.number, number);
	memcpy(plain, &head, sizeof(head));
	memcpy(plain + sizeof(head) + len, &tail, sizeof(tail));
	return sizeof(head) + len + sizeof(tail);
}

bool record_data_parse(const uint8_t *record, size_t len, struct record_data *ret)
{
	const struct record_data_head *head = (const void *)record;
	size_t body;

	if (len < sizeof(*head) + sizeof(struct record_data_tail) || head->kind != RECORD_DATA)
		return false;
	body = len - sizeof(*head) - sizeof(struct record_data_tail);
	if (le16_get(head->len) != body)
		return false;
	if (memcmp(head->number, record + sizeof(*head) + body, sizeof(head->number)) != 0)
		return false;
	*ret = (struct record_data){
		.tag = head->tag,
		.number = le32_get(head->number),
		.bytes = record + sizeof(*head),
		.len = body,
	};
	return true;
}

const struct record_hello *record_hello_parse(const uint8_t *record, size_t len)
{
	const struct record_hello *h = (const void *)record;

	if (len != sizeof(*h) || (h->kind != RECORD_HELLO && h->kind != RECORD_ACK))
		return NULL;
	return h;
}

const struct record_reset *record_reset_parse(const uint8_t *record, size_t len)
{
	const struct record_reset *r = (const void *)record;

	return len == sizeof(*r) && r->kind == RECORD_RESET ? r : NULL;
}
