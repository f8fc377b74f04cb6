#include "filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter_rules.h"

static struct sock_fprog programs[FILTERS];

static int rule_add(scmp_filter_ctx filter, const struct filter_rule *r)
{
	uint32_t action = r->error ? SCMP_ACT_ERRNO((uint16_t)r->error) : SCMP_ACT_ALLOW;

	if (!r->mask)
		return seccomp_rule_add(filter, action, r->call, 0);
	return seccomp_rule_add(filter, action, r->call, 1,
				SCMP_CMP(r->arg, SCMP_CMP_MASKED_EQ, r->mask, r->value));
}

static int rules_add(scmp_filter_ctx filter, enum filter which)
{
	int err = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	for (unsigned i = 0; !err && i < filter_rules_count; i++)
		if (which == FILTER_START || filter_rules[i].in & 1u << which)
			err = rule_add(filter, &filter_rules[i]);
	return err;
}

/* The library hands a program out into a file only. */
static int program_read(int fd, struct sock_fprog *ret)
{
	struct stat st;
	void *code;

	if (fstat(fd, &st) != 0)
		return -errno;
	code = malloc((size_t)st.st_size);
	if (!code)
		return -ENOMEM;
	if (pread(fd, code, (size_t)st.st_size, 0) != st.st_size) {
		free(code);
		return -EIO;
	}
	*ret = (struct sock_fprog){ .len = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter)),
				    .filter = code };
	return 0;
}

static int build(enum filter which, struct sock_fprog *ret)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int fd, err;

	if (!filter)
		return -ENOMEM;
	fd = memfd_create("filter", MFD_CLOEXEC);
	err = fd < 0 ? -errno : rules_add(filter, which);
	if (!err)
		err = seccomp_export_bpf(filter, fd);
	if (!err)
		err = program_read(fd, ret);
	if (fd >= 0)
		close(fd);
	seccomp_release(filter);
	return err;
}

int filters_build(void)
{
	int err = 0;

	for (int i = 0; !err && i < FILTERS; i++)
		err = build((enum filter)i, &programs[i]);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		err = -errno;
	return err;
}

int filter_enter(enum filter which)
{
	if (!programs[which].filter)
		return -EINVAL;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &programs[which]) != 0 ? -errno : 0;
}

const struct sock_fprog *filter_program(enum filter which)
{
	return &programs[which];
}
