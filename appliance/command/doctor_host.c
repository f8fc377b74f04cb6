/* What carrel doctor asks of memory, disks, programs, the image and the appliance. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "../version.h"
#include "doctor.h"

enum {
	/* One sandbox of the default size and its engine; three quarters of memory are given to sandboxes. */
	SANDBOX_MB = 1024 + 128,
	MEMORY_LEAST_MB = SANDBOX_MB * 4 / 3,
	MEMORY_GOOD_MB = 4096,
	DISK_LEAST_MB = 1024, /* a sandbox's disk counts in full */
	DISK_GOOD_MB = 4096,
	IMAGE_MB = 4096, /* chroots, packages and image of a first build */
	IMAGE_OLD_DAYS = 30,
	QEMU_MAJOR = 7,
	QEMU_MINOR = 2,
	APPLIANCE_WAIT_S = 3,
};

void look_root(struct command *c, struct finding *f)
{
	(void)c;
	if (geteuid() == 0) {
		finding_set(f, LEVEL_OK, "you are root");
	} else if (access("/usr/bin/sudo", X_OK) == 0) {
		finding_set(f, LEVEL_OK, "sudo is there");
		finding_follows(
			f, "make run asks for it: one process starts the sandboxes as root, all others drop "
			   "to users of their own.");
	} else {
		finding_set(f, LEVEL_MISSING, "neither root nor sudo");
		finding_follows(
			f, "make run needs root once, for the process that puts sandboxes into their jail.");
	}
}

static long meminfo_mb(const char *text, const char *name)
{
	const char *at = text ? strstr(text, name) : NULL;

	return at ? strtol(at + strlen(name), NULL, 10) / 1024 : 0;
}

void look_memory(struct command *c, struct finding *f)
{
	char *text = text_file("/proc/meminfo");
	long total = meminfo_mb(text, "MemTotal:"), available = meminfo_mb(text, "MemAvailable:");

	(void)c;
	free(text);
	finding_set(f,
		    total < MEMORY_LEAST_MB  ? LEVEL_MISSING
		    : total < MEMORY_GOOD_MB ? LEVEL_WARNING
					     : LEVEL_OK,
		    "%ld MB, %ld MB of it available", total, available);
	finding_follows(f, "At most %ld sandboxes of the default size run at once.",
			total * 3 / 4 / SANDBOX_MB);
}

/* Free space for us where path is, or will be. */
static long long free_mb(const char *path)
{
	char at[4096];
	struct statvfs fs;

	snprintf(at, sizeof(at), "%s", path);
	while (statvfs(at, &fs) < 0) {
		char *slash = strrchr(at, '/');

		if (errno != ENOENT)
			return -1;
		if (!slash)
			snprintf(at, sizeof(at), ".");
		else
			slash[slash == at] = '\0';
		if (strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
			return statvfs(at, &fs) < 0 ? -1 : (long long)(fs.f_bavail * fs.f_frsize >> 20);
	}
	return (long long)(fs.f_bavail * fs.f_frsize >> 20);
}

void look_state(struct command *c, struct finding *f)
{
	const char *path = setting("STATE", "./state");
	long long mb = free_mb(path);

	(void)c;
	if (mb < 0) {
		finding_set(f, LEVEL_MISSING, "%.200s: %s", path, strerror(errno));
		finding_follows(f, "Sandboxes' disks and the store live there; set STATE to a directory that "
				   "can be used.");
		return;
	}
	finding_set(f,
		    mb < DISK_LEAST_MB  ? LEVEL_MISSING
		    : mb < DISK_GOOD_MB ? LEVEL_WARNING
					: LEVEL_OK,
		    "%.200s: %lld MB free", path, mb);
	finding_follows(f,
			"Each sandbox's disk counts in full, so at most %lld of the default size find room.",
			mb / 1024);
}

/* The newest image's time of building; 0 without one. Its template's name in ret. */
static time_t newest_image(const char *cache, char *ret, size_t size)
{
	char path[4200];
	time_t newest = 0;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%.3800s/images", cache);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		json_t *manifest;
		struct tm tm = { 0 };
		const char *built;

		snprintf(path, sizeof(path), "%.3800s/images/%s/manifest.json", cache, entry->d_name);
		manifest = json_load_file(path, 0, NULL);
		built = text_of(manifest, "built_at");
		if (built && strptime(built, "%Y-%m-%dT%H:%M:%S", &tm) && timegm(&tm) > newest) {
			newest = timegm(&tm);
			snprintf(ret, size, "%s",
				 text_of(manifest, "template") ? text_of(manifest, "template") : "?");
		}
		json_decref(manifest);
	}
	if (dir)
		closedir(dir);
	return newest;
}

void look_cache(struct command *c, struct finding *f)
{
	const char *path = setting("CARREL_CACHE", "/var/cache/carrel");
	long long mb = free_mb(path);
	char template[64];
	bool built = newest_image(path, template, sizeof(template)) != 0;

	(void)c;
	if (mb < 0) {
		finding_set(f, LEVEL_MISSING, "%.200s: %s", path, strerror(errno));
		finding_follows(f, "Images live there; set CARREL_CACHE to a directory that can be used.");
		return;
	}
	finding_set(f,
		    mb >= IMAGE_MB ? LEVEL_OK
		    : built        ? LEVEL_WARNING
				   : LEVEL_MISSING,
		    "%.200s: %lld MB free", path, mb);
	if (mb < IMAGE_MB)
		finding_follows(f,
				"Building an image takes about %d MB there: free space, or set CARREL_CACHE.",
				IMAGE_MB);
}

void look_image(struct command *c, struct finding *f)
{
	const char *path = setting("CARREL_CACHE", "/var/cache/carrel");
	char template[64] = "";
	time_t built = newest_image(path, template, sizeof(template));
	long days = (long)((time(NULL) - built) / 86400);

	(void)c;
	if (built == 0) {
		finding_set(f, LEVEL_WARNING, "none in %.200s yet", path);
		finding_follows(f, "The first make run builds one, which takes minutes.");
		return;
	}
	finding_set(f, days > IMAGE_OLD_DAYS ? LEVEL_WARNING : LEVEL_OK, "%s, built %ld day%s ago", template,
		    days, days == 1 ? "" : "s");
	if (days > IMAGE_OLD_DAYS)
		finding_follows(f,
				"It lacks Debian's security updates since then; make image REFRESH=1 builds one from "
				"today's packages, which the next start takes.");
}

/* The first line that a program prints about itself; empty: it is not there. */
static void version_of(const char *command_line, char *ret, size_t size)
{
	FILE *from = popen(command_line, "re");

	ret[0] = '\0';
	if (from && !fgets(ret, (int)size, from))
		ret[0] = '\0';
	if (from)
		pclose(from);
	ret[strcspn(ret, "\r\n")] = '\0';
}

void look_qemu(struct command *c, struct finding *f)
{
	char text[200];
	int major = 0, minor = 0;

	(void)c;
	version_of("qemu-system-x86_64 --version 2>/dev/null", text, sizeof(text));
	if (sscanf(text, "QEMU emulator version %d.%d", &major, &minor) != 2) {
		finding_set(f, LEVEL_MISSING, "no qemu-system-x86_64");
		finding_follows(f, "It runs every sandbox: apt-get install qemu-system-x86.");
		return;
	}
	finding_set(f, LEVEL_OK, "%.150s", text + strlen("QEMU emulator version "));
	if (major > QEMU_MAJOR || (major == QEMU_MAJOR && minor >= QEMU_MINOR))
		return;
	f->level = LEVEL_WARNING;
	finding_follows(f,
			"Carrel is tried with QEMU %d.%d and newer: older ones may lack what snapshots need.",
			QEMU_MAJOR, QEMU_MINOR);
}

void look_nginx(struct command *c, struct finding *f)
{
	char text[200];

	(void)c;
	version_of("PATH=$PATH:/usr/sbin:/sbin nginx -v 2>&1", text, sizeof(text));
	if (strncmp(text, "nginx version: ", 15) != 0) {
		finding_set(f, LEVEL_MISSING, "no nginx");
		finding_follows(f, "It is the appliance's front door: apt-get install nginx.");
		return;
	}
	finding_set(f, LEVEL_OK, "%.150s", text + 15);
}

static int number_in(json_t *object, const char *key)
{
	return (int)json_integer_value(json_object_get(object, key));
}

/* How fast sandboxes start depends on it. */
static void pool_tell(struct command *c, struct finding *f)
{
	json_t *stats = NULL, *pool;
	struct reply reply;

	if (http_json(&c->http, "GET", "/v1/stats", NULL, &stats, &reply) < 0)
		return;
	pool = json_object_get(stats, "pool");
	if (number_in(pool, "max") == 0)
		finding_follows(
			f, "No machines wait for sandboxes (POOL=0): each is cloned when it is asked for.");
	else
		finding_follows(
			f,
			"%d of %d machines wait for sandboxes, %d more are being made; %d were taken, "
			"%d sandboxes found none.",
			number_in(pool, "ready"), number_in(pool, "size"), number_in(pool, "filling"),
			number_in(pool, "claimed"), number_in(pool, "missed"));
	json_decref(stats);
}

/* It is asked where it is known, and not waited for: a host without one is no fault. */
static void ask(struct command *c, struct finding *f)
{
	json_t *health = NULL;
	struct reply reply;
	const char *status, *version, *message;
	bool ready, other;

	c->http.wait_s = APPLIANCE_WAIT_S;
	if (http_json(&c->http, "GET", "/healthz", NULL, &health, &reply) < 0) {
		finding_set(f, reply.unreachable ? LEVEL_OK : LEVEL_WARNING, "%s",
			    reply.unreachable ? "none answers" : reply.message);
		finding_follows(f, "make run starts one.");
		return;
	}
	status = text_of(health, "status");
	version = text_of(health, "version");
	message = text_of(health, "message");
	ready = json_is_true(json_object_get(health, "ready"));
	other = !version || strcmp(version, CARREL_VERSION) != 0;
	finding_set(f, ready && !other ? LEVEL_OK : LEVEL_WARNING, "%.100s: %.50s, version %.50s",
		    c->http.where.url, status ? status : "no status", version ? version : "unknown");
	if (message)
		finding_follows(f, "%s", message);
	else if (other)
		finding_follows(f, "This command is of version %s: use the one that came with the appliance.",
				CARREL_VERSION);
	if (ready && !message && !other)
		pool_tell(c, f);
	json_decref(health);
}

void look_appliance(struct command *c, struct finding *f)
{
	char why[1024];
	int code = where_find(&c->http.where, why, sizeof(why));

	if (code != EXIT_OK) {
		finding_set(f, code == EXIT_UNREACHABLE ? LEVEL_OK : LEVEL_WARNING, "%s",
			    code == EXIT_UNREACHABLE ? "none is known here"
						     : "one is known, without a key for it");
		finding_follows(f, "%.390s", why);
		return;
	}
	if (http_init(&c->http) == 0)
		ask(c, f);
	http_free(&c->http);
}
