#include "spawn.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Past any disk; so that four times it is a number still. */
enum { WRITE_MB_S_MAX = 1024 * 1024 };

#define QEMU_NAME "qemu-system-x86_64"

static const char usage[] =
	"usage: carrel-spawn --socket PATH --run-dir DIR --client-uid UID --uid-base N\n"
	"                    --keeper PATH --preload PATH [--qemu PATH] [--vmm PATH]\n"
	"                    [--jail [--jail-read-only]] [--write-mb-s N] [--stop-on-exit]\n"
	"\n"
	"  --socket        where carreld connects\n"
	"  --run-dir       runtime directory of the sandboxes, root's\n"
	"  --client-uid    the user carreld runs as\n"
	"  --uid-base      first of the user ids that belong to the sandboxes only: 2048, and\n"
	"                  65536 more for each sandbox of the engine jail\n"
	"  --vmm           carrel-vmm, for the engine kvm\n"
	"  --jail          sandboxes of the engine jail may be started: code on this host's kernel\n"
	"  --jail-read-only  and write below /home, /tmp, /var/tmp, /run and /dev/shm only\n"
	"  --write-mb-s    what one sandbox may write to the disk in a second, MiB; reading four\n"
	"                  times that; 0, the default: not limited\n"
	"  --stop-on-exit  SIGTERM ends every sandbox; without it they run on for the next start\n";

static int number(const char *text, unsigned long max, unsigned *ret)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || n > max || *text == '-')
		return -EINVAL;
	*ret = (unsigned)n;
	return 0;
}

/* Below /usr, because that is what the jail shows QEMU while it loads. */
static int qemu_find(const char *given, char *ret)
{
	static const char *const dirs[] = { "/usr/bin", "/usr/local/bin" };
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s", given ? given : "");
	for (size_t i = 0; !given && i < sizeof(dirs) / sizeof(*dirs); i++) {
		snprintf(path, sizeof(path), "%s/" QEMU_NAME, dirs[i]);
		if (access(path, X_OK) == 0)
			break;
	}
	if (!realpath(path, real) || access(real, X_OK) != 0) {
		fprintf(stderr, "carrel-spawn: %s: %s: install qemu-system-x86, or name it with --qemu\n",
			path, strerror(errno));
		return -ENOENT;
	}
	if (strncmp(real, "/usr/", 5) != 0 || strlen(real) >= KEEPER_PATH_MAX) {
		fprintf(stderr, "carrel-spawn: %s: QEMU must be installed below /usr\n", real);
		return -EINVAL;
	}
	snprintf(ret, KEEPER_PATH_MAX, "%s", real);
	return 0;
}

static int files_check(const struct spawn_options *o)
{
	if (access(o->keeper, X_OK) != 0 || o->keeper[0] != '/') {
		fprintf(stderr, "carrel-spawn: --keeper %s must be the absolute path of a program\n",
			o->keeper);
		return -EINVAL;
	}
	if (access(o->preload, R_OK) != 0 || o->preload[0] != '/' || strlen(o->preload) >= KEEPER_PATH_MAX) {
		fprintf(stderr, "carrel-spawn: --preload %s must be the absolute path of a readable file\n",
			o->preload);
		return -EINVAL;
	}
	if (o->vmm && (access(o->vmm, X_OK) != 0 || o->vmm[0] != '/' || strlen(o->vmm) >= KEEPER_PATH_MAX)) {
		fprintf(stderr, "carrel-spawn: --vmm %s must be the absolute path of a program\n", o->vmm);
		return -EINVAL;
	}
	return 0;
}

int options_parse(struct spawn_options *ret, int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "run-dir", required_argument, NULL, 'r' },
		{ "client-uid", required_argument, NULL, 'c' },
		{ "uid-base", required_argument, NULL, 'u' },
		{ "keeper", required_argument, NULL, 'k' },
		{ "preload", required_argument, NULL, 'p' },
		{ "qemu", required_argument, NULL, 'q' },
		{ "vmm", required_argument, NULL, 'v' },
		{ "jail", no_argument, NULL, 'j' },
		{ "jail-read-only", no_argument, NULL, 'o' },
		{ "write-mb-s", required_argument, NULL, 'w' },
		{ "stop-on-exit", no_argument, NULL, 'e' },
		{ 0 },
	};
	struct spawn_options o = { .client_uid = (uid_t)-1 };
	const char *qemu = NULL;
	const struct passwd *user;
	int c, bad = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			o.socket = optarg;
			break;
		case 'r':
			o.run_dir = optarg;
			break;
		case 'k':
			o.keeper = optarg;
			break;
		case 'p':
			o.preload = optarg;
			break;
		case 'q':
			qemu = optarg;
			break;
		case 'v':
			o.vmm = optarg;
			break;
		case 'j':
			o.jail = true;
			break;
		case 'o':
			o.jail_read_only = true;
			break;
		case 'e':
			o.stop_on_exit = true;
			break;
		case 'w':
			bad |= number(optarg, WRITE_MB_S_MAX, &o.write_mb_s);
			break;
		case 'c':
			bad |= number(optarg, UINT_MAX - 1, &o.client_uid);
			break;
		case 'u':
			bad |= number(optarg, UINT_MAX - SPAWN_UIDS, &o.uid_base);
			break;
		default:
			bad = 1;
		}
	}
	if (bad || optind != argc || !o.socket || !o.run_dir || !o.keeper || !o.preload ||
	    o.uid_base < 1000 || o.client_uid == (uid_t)-1) {
		fputs(usage, stderr);
		return -EINVAL;
	}
	user = getpwuid(o.client_uid);
	o.client_gid = user ? user->pw_gid : o.client_uid;
	/* Where machines are carrel-vmm's, QEMU may be missing. */
	if (files_check(&o) != 0 || (qemu_find(qemu, o.qemu) != 0 && (qemu || !o.vmm)))
		return -EINVAL;
	*ret = o;
	return 0;
}
