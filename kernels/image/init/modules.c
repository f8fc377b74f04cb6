#include "modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"

static void module_load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		init_fail(errno, "cannot open the kernel module %s", path);
	if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
		init_fail(errno, "the kernel refuses the module %s", path);
	close(fd);
	unlink(path);
}

void modules_load(const char *list)
{
	char path[256];
	FILE *file = fopen(list, "re");

	if (file == NULL)
		init_fail(errno, "cannot read the list of modules %s", list);
	while (fgets(path, sizeof(path), file) != NULL) {
		path[strcspn(path, "\n")] = '\0';
		if (path[0] != '\0')
			module_load(path);
	}
	fclose(file);
	unlink(list);
}
