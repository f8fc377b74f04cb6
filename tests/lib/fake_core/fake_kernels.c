/* Kernels of the core's stand-in: none is there, and none can be made. */
#include <errno.h>

#include "fake_core.h"

int core_kernel_list(struct core *c, const char *owner, const char *sandbox_id, unsigned limit,
		     const char *cursor, json_t **ret, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);

	(void)limit;
	(void)cursor;
	if (!err)
		*ret = json_pack("{s:[],s:n}", "kernels", "next");
	return err;
}

int core_kernel_create(struct core *c, const char *owner, const char *sandbox_id,
		       const struct kernel_spec *spec, json_t **ret, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, sandbox_id, f);

	(void)spec;
	(void)ret;
	return err ? err : fault_set(f, EAGAIN, 429, "limit", "This sandbox has all its kernels.");
}

static int no_kernel(struct fault *f)
{
	return fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
}

int core_kernel_restart(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	(void)c, (void)owner, (void)id, (void)ret;
	return no_kernel(f);
}

int core_kernel_interrupt(struct core *c, const char *owner, const char *id, struct fault *f)
{
	(void)c, (void)owner, (void)id;
	return no_kernel(f);
}

int core_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	(void)c, (void)owner, (void)id;
	return no_kernel(f);
}
