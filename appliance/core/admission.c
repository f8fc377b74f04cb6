#include "admission.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "life.h"
#include "pool.h"
#include "template.h"

unsigned admission_host_memory_mb(void)
{
	unsigned long long pages = (unsigned long long)sysconf(_SC_PHYS_PAGES);
	unsigned long long size = (unsigned long long)sysconf(_SC_PAGESIZE);

	/* The rest is for the page cache, which holds the snapshots. */
	return (unsigned)(pages * size / (1024 * 1024) * 3 / 4);
}

static unsigned sandbox_memory_mb(const struct engine *e, const struct vm_class *cls)
{
	return cls->memory_mb + engine_overhead_mb(engine_ops_of(e));
}

/* A paused one uses neither memory nor CPUs. */
static bool is_up(const struct sandbox *sb)
{
	return sb->state != SANDBOX_PAUSED || sb->vm || life_wakes(sb);
}

unsigned admission_memory_used_mb(const struct core *c)
{
	unsigned used = template_memory_mb(c);
	const struct sandbox *sb;

	for (sb = c->sandboxes; sb; sb = sb->next)
		used += is_up(sb) ? sandbox_memory_mb(sb->engine, &sb->cls) : 0;
	return used;
}

/* What live disks may still grow by. */
static unsigned long long disk_promised(const struct core *c)
{
	unsigned long long promised = 0;
	const struct sandbox *sb;
	struct stat st;

	for (sb = c->sandboxes; sb; sb = sb->next) {
		unsigned long long full = (unsigned long long)sb->cls.disk_mb << 20, used = 0;

		if (stat(sb->scratch_path, &st) == 0)
			used = (unsigned long long)st.st_blocks * 512;
		promised += used < full ? full - used : 0;
	}
	return promised;
}

static int disk_free(const struct core *c, unsigned long long *ret)
{
	struct statvfs fs;

	if (statvfs(c->settings->state, &fs) < 0)
		return -errno;
	*ret = (unsigned long long)fs.f_bavail * fs.f_frsize;
	return 0;
}

bool admission_disk_full(const struct core *c)
{
	unsigned long long have = 0;

	return disk_free(c, &have) == 0 && have >> 20 < ADMISSION_DISK_FULL_MB;
}

bool admission_fits(const struct core *c, const struct engine *e, const struct vm_class *cls)
{
	unsigned memory = admission_memory_used_mb(c) + pool_memory_mb(c) + sandbox_memory_mb(e, cls);
	unsigned long long disk = (unsigned long long)(pool_disk_mb(c) + cls->disk_mb) << 20, have = 0;

	return memory <= c->memory_mb && disk_free(c, &have) == 0 && have >= disk_promised(c) + disk;
}

static int check_disk(const struct core *c, const struct vm_class *cls, struct fault *f)
{
	unsigned long long have = 0, want = (unsigned long long)cls->disk_mb << 20, promised;
	int err = disk_free(c, &have);

	if (err < 0)
		return fault_set(f, -err, 500, "store", "%s cannot be examined: %s.", c->settings->state,
				 strerror(-err));
	promised = disk_promised(c);
	if (have >= promised + want)
		return 0;
	fault_set(f, ENOSPC, 503, "capacity",
		  "The host's disk has %llu MB free, and the sandboxes that are there may still fill %llu MB of "
		  "it. A new one's disk may grow to %u MB, the size it is made in for every disk_mb up to that. "
		  "End a sandbox or free space.",
		  have >> 20, promised >> 20, cls->disk_mb);
	f->retry_after_s = ADMISSION_RETRY_S;
	return -ENOSPC;
}

static int check_memory(const struct core *c, const struct engine *e, const struct vm_class *cls, struct fault *f)
{
	unsigned want = sandbox_memory_mb(e, cls), used = admission_memory_used_mb(c);

	if (want > c->memory_mb)
		return fault_field(f, "out_of_range", "limits.memory_mb",
				   "This host gives sandboxes %u MB together; one of %u MB needs %u.",
				   c->memory_mb, cls->memory_mb, want);
	if (used + want <= c->memory_mb)
		return 0;
	fault_set(f, ENOMEM, 503, "capacity", "%u of %u MB for sandboxes are in use; this one needs %u.",
		  used, c->memory_mb, want);
	f->retry_after_s = ADMISSION_RETRY_S;
	return -ENOMEM;
}

double admission_cpus(const struct core *c)
{
	return (double)c->settings->cpu_share * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

double admission_cpus_used(const struct core *c)
{
	const struct sandbox *sb;
	double used = 0;

	for (sb = c->sandboxes; sb; sb = sb->next)
		used += is_up(sb) ? sb->limits.cpus : 0;
	return used;
}

static int check_cpus(const struct core *c, double want, struct fault *f)
{
	double all = admission_cpus(c), used = admission_cpus_used(c);

	if (want > all)
		return fault_field(f, "out_of_range", "limits.cpus",
				   "This host gives sandboxes %g CPUs together, not %g.", all, want);
	if (used + want <= all)
		return 0;
	fault_set(f, EBUSY, 503, "capacity", "%g of %g CPUs for sandboxes are in use; this one needs %g.",
		  used, all, want);
	f->retry_after_s = ADMISSION_RETRY_S;
	return -EBUSY;
}

static int check_quota(const struct core *c, const char *owner, unsigned quota, struct fault *f)
{
	const struct sandbox *sb;
	unsigned n = 0;

	for (sb = c->sandboxes; sb; sb = sb->next)
		n += is_up(sb) && strcmp(sb->owner, owner) == 0;
	if (n < quota)
		return 0;
	fault_set(f, EDQUOT, 429, "quota", "You have %u sandboxes; your quota is %u. End one first.", n,
		  quota);
	f->retry_after_s = ADMISSION_RETRY_S;
	return -EDQUOT;
}

int admission_room(const struct core *c, const struct engine *e, const char *owner, unsigned quota,
		   const struct vm_class *cls, double cpus, struct fault *f)
{
	int err = check_quota(c, owner, quota, f);

	if (!err)
		err = check_memory(c, e, cls, f);
	if (!err)
		err = check_cpus(c, cpus, f);
	return err ? err : check_disk(c, cls, f);
}

/* It is not counted yet. */
int admission_wake(const struct sandbox *sb, unsigned quota, struct fault *f)
{
	int err = check_quota(sb->core, sb->owner, quota, f);

	if (!err)
		err = check_memory(sb->core, sb->engine, &sb->cls, f);
	return err ? err : check_cpus(sb->core, sb->limits.cpus, f);
}
