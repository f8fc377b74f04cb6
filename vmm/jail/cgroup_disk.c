/* Which disk a limit on traffic is for: sysfs knows, see Documentation/ABI/testing/sysfs-dev. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cgroup_ops.h"

int cgroup_disk_of(dev_t dev, dev_t *ret)
{
	char dir[64], file[96], text[32];
	unsigned number[2];
	int err;

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (access(dir, F_OK) != 0)
		return -ENODEV;
	snprintf(file, sizeof(file), "%s/partition", dir);
	err = cgroup_read(dir, access(file, F_OK) == 0 ? "../dev" : "dev", text, sizeof(text));
	if (err)
		return err;
	if (sscanf(text, "%u:%u", &number[0], &number[1]) != 2)
		return -ENODEV;
	*ret = makedev(number[0], number[1]);
	return 0;
}
