/* The life of the stand-in's sandboxes: nothing of it can be done. */
#include <errno.h>

#include "fake_core.h"

static int refused(struct core *c, const char *owner, const char *id, struct fault *f)
{
	int err = fake_sandbox_check(c, owner, id, f);

	return err ? err : fault_set(f, EBUSY, 409, "not_supported", "A stand-in cannot be paused or copied.");
}

int core_sandbox_pause(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f)
{
	(void)ret;
	return refused(c, owner, id, f);
}

int core_sandbox_resume(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			struct fault *f)
{
	(void)timeout_s, (void)ret;
	return refused(c, owner, id, f);
}

int core_sandbox_fork(struct core *c, const char *owner, const char *id, unsigned count, unsigned timeout_s,
		      json_t **ret, struct fault *f)
{
	(void)count, (void)timeout_s, (void)ret;
	return refused(c, owner, id, f);
}

int core_snapshot_create(struct core *c, const char *owner, const char *sandbox_id, const char *name,
			 json_t **ret, struct fault *f)
{
	(void)name, (void)ret;
	return refused(c, owner, sandbox_id, f);
}

int core_snapshot_delete(struct core *c, const char *owner, const char *id, struct fault *f)
{
	(void)c, (void)owner, (void)id;
	return fault_set(f, ENOENT, 404, "not_found", "There is no such snapshot.");
}
