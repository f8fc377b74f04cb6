/* GET /metrics: Prometheus' text form. Names of routes, states and reasons only,
 * never of owners, sandboxes or files. */
#include <errno.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "figures.h"
#include "handlers.h"
#include "respond.h"

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(FILE *out, const char *name, const char *help, double value)
{
	family(out, name, "gauge", help);
	fprintf(out, "%s %.17g\n", name, value);
}

static void counter(FILE *out, const char *name, const char *help, double value)
{
	family(out, name, "counter", help);
	fprintf(out, "%s %.17g\n", name, value);
}

static const char *route_label(size_t i, char *buf, size_t size)
{
	bool known = i < route_count;

	snprintf(buf, size, "method=\"%s\",route=\"%s\"", known ? routes[i].method : "",
		 known ? routes[i].pattern : "");
	return buf;
}

static void requests_write(FILE *out)
{
	char label[128];

	family(out, "carrel_http_requests_total", "counter",
	       "Requests answered, by route and status; status 0: cut without an answer.");
	for (size_t i = 0; i <= route_count && i < FIGURES_ROUTES_MAX; i++)
		for (int status = 0; status < 600; status++)
			if (figures_status(i, status))
				fprintf(out, "carrel_http_requests_total{%s,status=\"%d\"} %" PRIu64 "\n",
					route_label(i, label, sizeof(label)), status,
					figures_status(i, status));
}

static void latency_write(FILE *out)
{
	static const char name[] = "carrel_http_request_duration_seconds";
	struct route_figures f;
	char label[128];

	family(out, name, "histogram", "From a request's arrival at carreld to the end of its answer.");
	for (size_t i = 0; i <= route_count && i < FIGURES_ROUTES_MAX; i++) {
		figures_route(i, &f);
		if (!f.count)
			continue;
		route_label(i, label, sizeof(label));
		for (unsigned b = 0; b < FIGURES_BUCKETS; b++)
			fprintf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, label,
				figures_bounds_ms[b] / 1000.0, f.le[b]);
		fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, label, f.count);
		fprintf(out, "%s_sum{%s} %.6f\n%s_count{%s} %" PRIu64 "\n", name, label, f.us / 1e6, name,
			label, f.count);
	}
}

static void tally_write(FILE *out, const char *name, const char *help, const char *label,
			const struct tally *t)
{
	family(out, name, "counter", help);
	for (unsigned i = 0; i < t->count; i++)
		fprintf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, t->words[i].word, t->words[i].count);
}

static void pool_write(FILE *out, const struct pool_figures *p)
{
	family(out, "carrel_pool_machines", "gauge",
	       "Machines that wait for sandboxes, or are being made to.");
	fprintf(out, "carrel_pool_machines{state=\"ready\"} %u\ncarrel_pool_machines{state=\"filling\"} %u\n",
		p->ready, p->filling);
	gauge(out, "carrel_pool_size", "Machines that the pool wants to hold now.", p->size);
	gauge(out, "carrel_pool_max", "The bound of carrel_pool_size.", p->max);
	gauge(out, "carrel_pool_memory_bytes", "Memory of the pool, which it gives up for sandboxes.",
	      p->memory_mb * 1048576.0);
	counter(out, "carrel_pool_filled_total", "Machines that became ready.", (double)p->filled);
	counter(out, "carrel_pool_claimed_total", "Sandboxes that took a machine.", (double)p->claimed);
	counter(out, "carrel_pool_missed_total", "Sandboxes that found none ready.", (double)p->missed);
	counter(out, "carrel_pool_lost_total", "Machines that ended, or did not come up.", (double)p->lost);
	counter(out, "carrel_pool_given_up_total", "Machines that made room for sandboxes.",
		(double)p->given_up);
}

static void core_write(FILE *out, struct core *core)
{
	struct core_figures f;

	core_figures(core, &f);
	family(out, "carrel_sandboxes", "gauge", "Sandboxes that have not ended, by state and engine.");
	for (unsigned e = 0; f.engines[e].name; e++)
		for (unsigned i = 0; f.states[i]; i++)
			fprintf(out, "carrel_sandboxes{state=\"%s\",engine=\"%s\"} %u\n", f.states[i], f.engines[e].name,
				f.engines[e].sandboxes[i]);
	tally_write(out, "carrel_sandbox_starts_total", "Sandboxes that came up, by how they were made.",
		    "started", &f.starts);
	tally_write(out, "carrel_sandbox_ends_total", "Sandboxes that ended, by reason.", "reason", &f.ends);
	tally_write(out, "carrel_executions_total", "Executions that ended, by status.", "status",
		    &f.executions);
	tally_write(out, "carrel_sandbox_lives_total",
		    "Sandboxes paused, resumed, forked (each copy) and kept as a snapshot.", "event",
		    &f.lives);
	gauge(out, "carrel_executions_running", "Executions that run now.", f.executions_running);
	gauge(out, "carrel_executions_queued", "Executions that wait for their kernel.", f.executions_queued);
	gauge(out, "carrel_kernels", "Kernels of live sandboxes.", f.kernels);
	gauge(out, "carrel_memory_granted_bytes", "Memory that live sandboxes may use together.",
	      f.memory_used_mb * 1048576.0);
	gauge(out, "carrel_memory_limit_bytes", "Memory that sandboxes may be granted.",
	      f.memory_mb * 1048576.0);
	gauge(out, "carrel_cpus_granted", "CPUs that live sandboxes may use together.", f.cpus_used);
	gauge(out, "carrel_cpus_limit", "CPUs that sandboxes may be granted.", f.cpus);
	pool_write(out, &f.pool);
	gauge(out, "carrel_template_ready", "1 when sandboxes are cloned from the warm snapshot.",
	      f.template_ready);
}

static void store_write(FILE *out, struct store *store)
{
	static const unsigned bounds_ms[STORE_COMMIT_BUCKETS] = STORE_COMMIT_BOUNDS_MS;
	static const char name[] = "carrel_store_commit_duration_seconds";
	struct store_figures f;

	store_figures(store, &f);
	family(out, name, "histogram", "One group of transactions to the disk, all syncs included.");
	for (unsigned i = 0; i < STORE_COMMIT_BUCKETS; i++)
		fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds_ms[i] / 1000.0,
			f.commit_le[i]);
	fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n%s_count %" PRIu64 "\n", name,
		f.commits, name, f.commit_us / 1e6, name, f.commits);
	counter(out, "carrel_store_transactions_total", "Transactions committed.", (double)f.transactions);
	counter(out, "carrel_store_failures_total", "Transactions that the store could not commit.",
		(double)f.failed);
	counter(out, "carrel_store_spooled_bytes_total", "Bytes of outputs written to the spool.",
		(double)f.spooled_bytes);
	gauge(out, "carrel_store_queue_bytes", "Bytes that wait for the store's writer.",
	      (double)f.queued_bytes);
}

static void front_write(FILE *out, struct front *front)
{
	unsigned limit, open = front_gate_load(front, GATE_STREAM, &limit);

	gauge(out, "carrel_streams", "Streams and file transfers that hold a thread now.", open);
	gauge(out, "carrel_streams_max", "The bound of carrel_streams; past it requests get 503.", limit);
}

static unsigned descriptors_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

static double resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file || fscanf(file, "%*u %llu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Unix seconds; process start in ticks since boot is the 22nd field of stat. */
static double start_time(void)
{
	FILE *file = fopen("/proc/self/stat", "re");
	unsigned long long ticks = 0;
	struct timespec now, boot;
	char line[1024], *at = NULL;

	if (file && fgets(line, sizeof(line), file))
		at = strrchr(line, ')'); /* the name may hold spaces */
	if (file)
		fclose(file);
	for (unsigned i = 0; at && i < 20; i++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at, NULL, 10);
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (double)(now.tv_sec - boot.tv_sec) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static void process_write(FILE *out)
{
	struct rlimit files = { .rlim_cur = 0 };
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	getrlimit(RLIMIT_NOFILE, &files);
	counter(out, "process_cpu_seconds_total", "Processor time of carreld.",
		(double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
			(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	gauge(out, "process_resident_memory_bytes", "Resident memory of carreld.", resident_bytes());
	gauge(out, "process_open_fds", "Open descriptors of carreld.", descriptors_open());
	gauge(out, "process_max_fds", "The bound of process_open_fds.", (double)files.rlim_cur);
	gauge(out, "process_start_time_seconds", "When carreld started, in Unix seconds.", start_time());
}

int about_metrics(struct request *r, struct fault *f)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int err;

	if (!out)
		return fault_no_memory(f);
	requests_write(out);
	latency_write(out);
	core_write(out, r->core);
	store_write(out, r->store);
	front_write(out, r->front);
	process_write(out);
	if (fclose(out)) {
		free(text);
		return fault_no_memory(f);
	}
	err = respond_head(r, 200, "text/plain; version=0.0.4; charset=utf-8", (int64_t)len, "");
	if (!err && !r->head_only)
		err = respond_write(r, text, len);
	free(text);
	return err;
}
