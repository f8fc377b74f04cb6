/* carrel-vmm: one microVM on KVM, asked for over a control socket. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve.h"
#include "trace.h"

static const char help[] =
	"usage: carrel-vmm --control FD [--kvm FD] [--agent FD] [--console FD]\n"
	"                  [--trace-steps]\n"
	"\n"
	"Runs one virtual machine on KVM. What machine, and what becomes of it, is asked\n"
	"for over a control socket (vmm/machine/control.h); carrel-spawn starts this\n"
	"program, people do not.\n"
	"\n"
	"  --control FD  a unix socket of type SOCK_SEQPACKET: connected, then the machine ends\n"
	"                when its other end closes; or listening, then it does not\n"
	"  --kvm FD      an open /dev/kvm; without it the monitor opens it itself\n"
	"  --agent FD    the listening socket behind the guest's port carrel.agent\n"
	"  --console FD  where boot messages go\n"
	"  --trace-steps how long each step of a start takes, on stderr\n"
	"  --help        this text\n"
	"\n"
	"Exit code: 0 the guest ended or the owner asked, 1 the machine failed, 100 usage.\n";

enum { EXIT_USAGE = 100 };

/* A descriptor number that is open, or -1. */
static int descriptor(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || n < 0 || n > 1 << 20 || fcntl((int)n, F_GETFD) < 0)
		return -1;
	return (int)n;
}

static int options_read(int argc, char **argv, struct serve_fds *ret)
{
	static const struct option known[] = { { "control", required_argument, NULL, 'c' },
					       { "kvm", required_argument, NULL, 'k' },
					       { "agent", required_argument, NULL, 'a' },
					       { "console", required_argument, NULL, 'o' },
					       { "trace-steps", no_argument, NULL, 't' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	int c;

	*ret = (struct serve_fds){ -1, -1, -1, -1 };
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		int *to = c == 'c'   ? &ret->control
			  : c == 'k' ? &ret->kvm
			  : c == 'a' ? &ret->agent
			  : c == 'o' ? &ret->console
				     : NULL;

		if (c == 'h') {
			fputs(help, stdout);
			exit(0);
		}
		if (c == 't') {
			trace_begin();
			continue;
		}
		if (!to)
			return -EINVAL;
		*to = descriptor(optarg);
		if (*to < 0) {
			fprintf(stderr, "carrel-vmm: %s is no open descriptor\n", optarg);
			return -EBADF;
		}
	}
	return optind == argc && ret->control >= 0 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct serve_fds fds;

	if (options_read(argc, argv, &fds) != 0) {
		fputs("carrel-vmm is started by carrel-spawn; carrel-vmm --help says how.\n", stderr);
		return EXIT_USAGE;
	}
	if (fds.kvm < 0)
		fds.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (fds.kvm < 0) {
		fprintf(stderr, "carrel-vmm: /dev/kvm: %s\n", strerror(errno));
		return 1;
	}
	return serve(&fds) ? 1 : 0;
}
