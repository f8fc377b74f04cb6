#include "probe.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine_inner.h"
#include "tsc.h"

static int why(char *ret_why, unsigned size, const char *text)
{
	snprintf(ret_why, size, "%s", text);
	return -ENODEV;
}

int probe_tcg(char *ret_why, unsigned size)
{
	if (!qemu_program_path())
		return why(ret_why, size, "QEMU is not installed: install the package qemu-system-x86.");
	if (tsc_khz() == 0)
		return why(ret_why, size, "This processor has no time stamp counter that moves.");
	return 0;
}

/* CPUID leaf 1 ECX (Intel) and leaf 0x80000001 ECX (AMD): the processor virtualises. */
#define CPUID_1_ECX_VMX (1u << 5)
#define CPUID_8000_0001_ECX_SVM (1u << 2)

/* SVM or VMX: paravirtual KVM variants without either make machines, too, but
 * none that an unmodified guest kernel runs in. */
static bool cpu_virtualises(void)
{
	unsigned a, b, c, d;

	if (__get_cpuid(1, &a, &b, &c, &d) && (c & CPUID_1_ECX_VMX))
		return true;
	return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & CPUID_8000_0001_ECX_SVM);
}

/* A node that is there may still not work: in a container, or without the module. */
int probe_kvm(char *ret_why, unsigned size)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1, err;

	/* A right to it would not help there. */
	if (fd < 0 && errno == EACCES && cpu_virtualises())
		return why(ret_why, size, "The service user may not open /dev/kvm: add it to the group kvm.");
	if (!cpu_virtualises()) {
		if (fd >= 0)
			close(fd);
		return why(ret_why, size, "This processor shows neither SVM nor VMX.");
	}
	if (fd < 0)
		return why(ret_why, size,
			   "This host offers no hardware virtualisation (/dev/kvm cannot be opened).");
	if (ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION)
		vm = ioctl(fd, KVM_CREATE_VM, 0);
	err = vm < 0 ? why(ret_why, size, "/dev/kvm is there but makes no virtual machine.") : 0;
	if (vm >= 0)
		close(vm);
	close(fd);
	return err;
}

int probe_kvm_qemu(char *ret_why, unsigned size)
{
	int err = probe_kvm(ret_why, size);

	return err ? err : probe_tcg(ret_why, size);
}
