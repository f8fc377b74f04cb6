/* No kernel has sockets of its own here. */
#include <errno.h>
#include <stdlib.h>

#include "appliance/hatch/hatch.h"

int hatches_start(const struct settings *s, struct core *core, struct hatches **ret, struct fault *f)
{
	(void)s;
	(void)core;
	(void)f;
	*ret = NULL;
	return 0;
}

void hatches_stop(struct hatches *all)
{
	(void)all;
}

int hatch_open(struct hatches *all, const char *owner, const char *kernel_id, enum hatch_transport transport,
	       json_t **ret, struct fault *f)
{
	(void)all;
	(void)owner;
	(void)kernel_id;
	(void)transport;
	(void)ret;
	return fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
}
