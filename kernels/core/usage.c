#include "core/usage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double last_cpu, last_at;

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_percent(void)
{
	double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), at = seconds(CLOCK_MONOTONIC), percent = 0;

	pthread_mutex_lock(&lock);
	if (last_at > 0 && at > last_at)
		percent = 100 * (cpu - last_cpu) / (at - last_at);
	last_cpu = cpu;
	last_at = at;
	pthread_mutex_unlock(&lock);
	return percent;
}

/* Bytes; "NAME:  N kB" of a file of /proc. 0: not there. */
static json_int_t proc_bytes(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	char line[200];
	json_int_t n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name))) {
			n = strtoll(line + strlen(name), NULL, 10) * 1024;
			break;
		}
	}
	if (f)
		fclose(f);
	return n;
}

json_t *usage_content(void)
{
	json_int_t total = proc_bytes("/proc/meminfo", "MemTotal:");
	json_int_t available = proc_bytes("/proc/meminfo", "MemAvailable:");
	json_int_t free_now = proc_bytes("/proc/meminfo", "MemFree:");
	json_int_t pss = proc_bytes("/proc/self/smaps_rollup", "Pss:");
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	return json_pack("{s:s, s:s, s:i, s:f, s:I, s:i, s:{s:I, s:I, s:I, s:I, s:f}}", "status", "ok", "hostname", host,
			 "pid", (int)getpid(), "kernel_cpu", cpu_percent(), "kernel_memory",
			 pss ? pss : proc_bytes("/proc/self/status", "VmRSS:"), "cpu_count",
			 (int)sysconf(_SC_NPROCESSORS_ONLN), "host_virtual_memory", "total", total, "available",
			 available, "used", total - available, "free", free_now, "percent",
			 total ? 100.0 * (double)(total - available) / (double)total : 0.0);
}
