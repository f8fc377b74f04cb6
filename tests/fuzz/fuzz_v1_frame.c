/* FUZZ: appliance/jupyter LIBS: */
/* Any bytes are a frame or refused, and a frame that is written again is the same. */
#include <stdlib.h>
#include <string.h>

#include "appliance/jupyter/v1_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct v1_frame f, again;
	unsigned char *bytes;
	size_t len, i;

	if (v1_frame_parse(data, size, &f) < 0)
		return 0;
	if (f.parts < V1_PARTS_MIN || f.parts > V1_PARTS_MAX)
		abort();
	len = v1_frame_size(f.channel, f.part, f.parts);
	bytes = malloc(len);
	v1_frame_write(bytes, f.channel, f.part, f.parts);
	if (v1_frame_parse(bytes, len, &again) < 0 || again.parts != f.parts ||
	    strcmp(again.channel, f.channel) != 0)
		abort();
	for (i = 0; i < f.parts; i++) {
		if (again.part[i].len != f.part[i].len ||
		    (f.part[i].len > 0 && memcmp(again.part[i].bytes, f.part[i].bytes, f.part[i].len) != 0))
			abort();
	}
	free(bytes);
	return 0;
}
