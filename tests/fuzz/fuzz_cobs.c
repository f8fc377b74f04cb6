/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* COBS: any bytes in pieces of any size never overrun, and what is encoded
 * comes back after them. First byte: the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "link/cobs.h"
#include "link/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t feed(struct cobs_decoder *d, const uint8_t *bytes, size_t len, size_t step, const uint8_t **ret)
{
	size_t last = 0;

	while (len > 0) {
		size_t n = len < step ? len : step, record_len;
		const uint8_t *record;
		size_t took = cobs_decode(d, bytes, n, &record, &record_len);
		struct record_data parsed;

		if (took == 0 || took > n || record_len > LINK_RECORD_MAX)
			abort();
		if (record_len) {
			record_data_parse(record, record_len, &parsed);
			last = record_len;
			*ret = record;
		}
		bytes += took;
		len -= took;
	}
	return last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cobs_decoder d;
	static uint8_t wire[COBS_BOUND(RECORD_PLAIN_MAX)];
	const uint8_t *record = NULL;
	size_t step, n;

	if (size < 2)
		return 0;
	memset(&d, 0, offsetof(struct cobs_decoder, len));
	d.len = 0;
	d.skip = false;
	step = data[0] ? data[0] : 4096;
	data++;
	size--;
	feed(&d, data, size, step, &record);
	feed(&d, (const uint8_t *)"", 1, 1, &record);
	if (size > RECORD_PLAIN_MAX)
		size = RECORD_PLAIN_MAX;
	n = cobs_encode(data, size, wire);
	if (n > COBS_BOUND(size) || feed(&d, wire, n, step, &record) != size ||
	    memcmp(record, data, size) != 0)
		abort();
	return 0;
}
