/* The Jupyter face without kernels, and no WebSockets. */
#include <errno.h>

#include "appliance/door/door.h"

int core_jupyter_kernels(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	(void)c;
	(void)owner;
	if (id)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
	*ret = json_array();
	return 0;
}

int core_jupyter_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	(void)c;
	(void)owner;
	(void)id;
	return fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
}

int door_start(const struct settings *s, struct store *store, struct core *core, struct door **ret, struct fault *f)
{
	(void)s;
	(void)store;
	(void)core;
	(void)f;
	*ret = NULL;
	return 0;
}

void door_stop(struct door *d)
{
	(void)d;
}
