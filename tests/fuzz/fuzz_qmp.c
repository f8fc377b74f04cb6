/* FUZZ: vmm/host/qmp_reader.c LIBS: -ljansson */
/* What QEMU, perhaps in a guest's hands, sends on its monitor. The first byte
 * is the size of the pieces it arrives in. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "vmm/host/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int message(json_t *object, void *arg)
{
	size_t *seen = arg;

	if (!json_is_object(object))
		abort();
	(*seen)++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qmp_reader reader;
	size_t step, seen = 0;

	if (size < 2)
		return 0;
	reader.used = 0;
	step = (size_t)data[0] + 1;
	for (size_t at = 1; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;

		if (qmp_reader_feed(&reader, (const char *)data + at, n, message, &seen) != 0)
			break;
		if (reader.used > QMP_LINE_MAX)
			abort();
	}
	return 0;
}
