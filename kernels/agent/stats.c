#include "stats.h"

#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "agent.h"
#include "cgroup.h"
#include "disk.h"
#include "util.h"

static uint64_t uptime_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Of the work inside; of the whole machine where there are no cgroups. */
static void memory(const struct agent *a, uint64_t *ret_used, uint64_t *ret_limit)
{
	struct sysinfo info;

	if (a->opt.system) {
		uint64_t cache = cgroup_work_number(a, "memory.stat", "inactive_file");
		uint64_t used = cgroup_work_number(a, "memory.current", NULL);

		*ret_used = used > cache ? used - cache : 0;
		*ret_limit = cgroup_work_number(a, "memory.max", NULL);
		return;
	}
	*ret_used = *ret_limit = 0;
	if (sysinfo(&info) == 0) {
		*ret_limit = (uint64_t)info.totalram * info.mem_unit;
		*ret_used = *ret_limit - (uint64_t)info.freeram * info.mem_unit;
	}
}

void stats_get(struct request *rq)
{
	struct agent *a = rq->agent;
	struct statvfs disk = { 0 };
	uint64_t used, limit, size, free_bytes;

	memory(a, &used, &limit);
	if (statvfs(a->opt.home, &disk) < 0)
		return request_fail(rq, 500, "io", "The disk cannot be looked at: %s.", strerror(errno));
	/* As the user sees it: without what is reserved. */
	free_bytes = (uint64_t)disk.f_bfree * disk.f_frsize;
	size = (uint64_t)disk.f_blocks * disk.f_frsize;
	request_answer(rq, 200,
		       json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "memory_used", (json_int_t)used,
				 "memory_limit", (json_int_t)limit, "cpu_usec",
				 (json_int_t)cgroup_work_number(a, "cpu.stat", "usage_usec"), "pids",
				 (json_int_t)cgroup_work_number(a, "pids.current", NULL), "disk_used",
				 (json_int_t)(size - free_bytes - disk_reserved()), "disk_size",
				 (json_int_t)(size - disk_reserved()), "uptime_ms", (json_int_t)uptime_ms()));
}
