/* carrel-init: the first program of a microVM, alone in its initramfs.
 *
 * Loads the few modules that Debian's kernel does not have built in, puts the
 * sandbox's root together and becomes the agent. Static, without a shell:
 * whatever goes wrong ends in a sentence on the console and a powered-off
 * machine.
 *
 * The kernel command line may hold `carrel.sh`: then a shell on the console
 * takes the agent's place, for a look around a machine that does not start.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disks.h"
#include "fail.h"
#include "modules.h"
#include "root.h"

#define AGENT "/usr/lib/carrel/carrel-agent"
#define SHELL "/bin/sh"

static bool shell_wanted(void)
{
	char line[4096] = "";
	char *saved = NULL;
	FILE *file = fopen("/proc/cmdline", "re");

	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	fclose(file);
	for (char *word = strtok_r(line, " \n", &saved); word != NULL; word = strtok_r(NULL, " \n", &saved))
		if (strcmp(word, "carrel.sh") == 0)
			return true;
	return false;
}

static void program_become(const char *program)
{
	const char *const argv[] = { program, NULL };
	const char *const envp[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
		NULL,
	};

	execve(program, (char *const *)argv, (char *const *)envp);
	init_fail(errno, "cannot start %s", program);
}

int main(void)
{
	char root_disk[16];
	char scratch_disk[16];
	bool shell;

	umask(022);
	mount_or_fail("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("sysfs", "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("devtmpfs", "dev", "/dev", MS_NOSUID, "mode=755");
	shell = shell_wanted();
	modules_load("/modules/list");
	disk_wait(DISK_LABEL_ROOT, root_disk, sizeof(root_disk));
	disk_wait(DISK_LABEL_SCRATCH, scratch_disk, sizeof(scratch_disk));
	root_switch(root_disk, scratch_disk);
	program_become(shell ? SHELL : AGENT);
	return 1;
}
