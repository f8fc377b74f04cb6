#include "descriptors.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "cgroup.h"

static uint64_t asked;

/* A host may have given a jail's agent fewer than were asked for. */
uint64_t descriptors_asked(void)
{
	struct rlimit own;

	return asked && getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max < asked ? own.rlim_max : asked;
}

struct rlimit descriptors_rlimit(void)
{
	const uint64_t most = descriptors_asked();

	if (!most)
		return (struct rlimit){ .rlim_cur = WORK_FILES_SOFT, .rlim_max = AGENT_FILES_MAX };
	return (struct rlimit){ .rlim_cur = most, .rlim_max = most };
}

/* Without the right over any process, which a jail's agent lacks, who is the same user may. This thread alone
 * takes the user's real ids; what it may do otherwise is as it was. */
static void real_ids(uid_t uid, gid_t gid)
{
	syscall(SYS_setresgid, gid, -1, -1);
	syscall(SYS_setresuid, uid, -1, -1);
}

static int limit_one(pid_t pid, void *arg)
{
	const struct rlimit files = descriptors_rlimit();

	(void)arg;
	return prlimit(pid, RLIMIT_NOFILE, &files, NULL) < 0 && errno != ESRCH ? -errno : 0;
}

int descriptors_limit(struct agent *a, uint64_t most)
{
	int err;

	/* What runs has the usual limit, or that of the same sandbox. */
	if (!most || !a->opt.system)
		return 0;
	asked = most;
	real_ids(a->opt.uid, a->opt.gid);
	err = cgroup_work_each(a, limit_one, NULL);
	real_ids(geteuid(), getegid());
	return err;
}
