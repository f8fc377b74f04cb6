#include "keeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int config_receive(struct keeper_config *ret)
{
	struct keeper_config config;
	ssize_t n = recv(KEEPER_FD_PARENT, &config, sizeof(config), 0);

	if (n < 0)
		return -errno;
	if (n != (ssize_t)sizeof(config) || config.version != KEEPER_VERSION)
		return -EPROTO;
	*ret = config;
	return 0;
}

int main(void)
{
	static struct keeper keeper = {
		.ready_fd = KEEPER_FD_READY,
		.console_fd = -1,
		.qemu_fd = -1,
		.console_log = { .fd = KEEPER_FD_CONSOLE_LOG },
		.qemu_log = { .fd = KEEPER_FD_QEMU_LOG },
	};
	char message[SPAWN_MESSAGE_MAX];
	struct stat st;
	int err;

	umask(022);
	keeper.connections[0] = KEEPER_FD_PARENT;
	for (int i = 1; i < KEEPER_CONNECTIONS_MAX; i++)
		keeper.connections[i] = -1;
	if (fstat(KEEPER_FD_PARENT, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr, "carrel-keeper is started by carrel-spawn only.\n");
		return 100;
	}
	err = config_receive(&keeper.config);
	if (err) {
		keeper_reply_started(&keeper, err,
				     "carrel-keeper and carrel-spawn are of different versions.");
		return 1;
	}
	err = keeper_setup(&keeper, message, sizeof(message));
	if (err) {
		keeper_reply_started(&keeper, err, message);
		return 1;
	}
	keeper_run(&keeper);
}
