/* carrel-python: CPython and IPython as a Jupyter kernel.
 *
 *   carrel-python -f CONNECTION_FILE   one kernel, as a kernelspec starts it
 *   carrel-python --parent             the prepared parent, talking on descriptor 3
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/connection.h"
#include "python/embed.h"
#include "python/parent.h"
#include "python/run.h"

static int usage(void)
{
	fputs("usage: carrel-python -f CONNECTION_FILE | --parent\n"
	      "  -f        serve one kernel on the addresses of the connection file\n"
	      "  --parent  import and warm up everything, then fork a kernel for each request on descriptor "
	      "3\n",
	      stderr);
	return 2;
}

static int fail(const char *why)
{
	fprintf(stderr, "carrel-python: %s\n", why);
	return 1;
}

static int serve_one(const char *path)
{
	struct connection conn;
	struct python py = { 0 };
	char why[500];
	int saved;

	if (connection_from_file(path, &conn, why, sizeof(why)))
		return fail(why);
	saved = fcntl(2, F_DUPFD_CLOEXEC, 10);
	if (saved < 0)
		return fail(strerror(errno));
	/* Its own group, so that an interrupt reaches what the code started and
	 * nothing else. Refused when it leads one already. */
	setpgid(0, 0);
	if (embed_start(&py, false, why, sizeof(why)))
		return fail(why);
	run_kernel(&py, &conn, saved, -1);
}

int main(int argc, char **argv)
{
	/* Clients add options that are meant for ipykernel: they change nothing here. */
	if (argc >= 3 && !strcmp(argv[1], "-f"))
		return serve_one(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--parent"))
		return parent_main();
	return usage();
}
