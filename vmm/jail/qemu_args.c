#include "qemu_args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "jail_limits.h"
#include "vmm/qemu_revision.h"

enum { FDSET_ROOTFS = 1, FDSET_SCRATCH, FDSET_CONSOLE };

void qemu_args_add(struct qemu_args *a, const char *fmt, ...)
{
	size_t room = sizeof(a->text) - a->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(a->text + a->used, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room || a->argc >= QEMU_ARGS_MAX) {
		a->error = -E2BIG;
		return;
	}
	a->argv[a->argc++] = a->text + a->used;
	a->argv[a->argc] = NULL;
	a->used += (size_t)n + 1;
}

static void option(struct qemu_args *a, const char *name, const char *value)
{
	qemu_args_add(a, "%s", name);
	qemu_args_add(a, "%s", value);
}

static int has_file(const struct keeper_config *c, enum spawn_fd fd)
{
	return (c->fds_mask & (1u << fd)) != 0;
}

/* Nothing that QEMU would add by itself, no way out but the descriptors. */
static void args_process(struct qemu_args *a, const struct keeper_config *c)
{
	qemu_args_add(a, "%s", c->program);
	qemu_args_add(a, "-nodefaults");
	qemu_args_add(a, "-no-user-config");
	option(a, "-display", "none");
	qemu_args_add(a, "-no-reboot");
	option(a, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
}

static void args_machine(struct qemu_args *a, const struct keeper_config *c)
{
	option(a, "-machine",
	       "microvm,acpi=on,pit=on,pic=on,rtc=on,mem-merge=off,dump-guest-core=off,memory-backend=ram");
	qemu_args_add(a, "-accel");
	if (c->engine == SPAWN_ENGINE_QEMU_KVM)
		qemu_args_add(a, "kvm");
	else
		qemu_args_add(a, "tcg,thread=multi,tb-size=%d", QEMU_TB_MB);
	/* spec-ctrl: not emulated; named, QEMU does not warn that it is left out. */
	option(a, "-cpu", c->engine == SPAWN_ENGINE_QEMU_KVM ? QEMU_CPU_KVM : QEMU_CPU_TCG ",spec-ctrl=off");
	qemu_args_add(a, "-m");
	qemu_args_add(a, "%uM", c->memory_mb);
	qemu_args_add(a, "-smp");
	qemu_args_add(a, "%u", c->vcpus);
	qemu_args_add(a, "-object");
	/* share=on for a clone too: with x-ignore-shared it keeps RAM out of
	 * the device state. Its mapping is made private by the preload. */
	if (has_file(c, SPAWN_FD_RAM))
		qemu_args_add(a, "memory-backend-file,id=ram,size=%uM,mem-path=/carrel/fd/%d,share=on", c->memory_mb,
		    KEEPER_FD_FILES + SPAWN_FD_RAM);
	else
		qemu_args_add(a, "memory-backend-ram,id=ram,size=%uM", c->memory_mb);
	option(a, "-global", "virtio-mmio.force-legacy=false");
}

/* Locks on a descriptor that several machines share would collide. A flush of
 * the scratch disk means nothing: its machine does not outlive the host. An
 * error, a full host disk above all, is the guest's to see: by default QEMU
 * would stop the machine without a word. */
static void args_disks(struct qemu_args *a)
{
	qemu_args_add(a, "-add-fd");
	qemu_args_add(a, "fd=%d,set=%d", KEEPER_FD_FILES + SPAWN_FD_ROOTFS, FDSET_ROOTFS);
	qemu_args_add(a, "-blockdev");
	qemu_args_add(a,
	    "driver=raw,node-name=rootfs,read-only=on,file.driver=file,file.filename=/dev/fdset/%d,"
	    "file.locking=off",
	    FDSET_ROOTFS);
	option(a, "-device", "virtio-blk-device,id=vda,drive=rootfs,rerror=report,werror=report");

	qemu_args_add(a, "-add-fd");
	qemu_args_add(a, "fd=%d,set=%d", KEEPER_FD_FILES + SPAWN_FD_SCRATCH, FDSET_SCRATCH);
	qemu_args_add(a, "-blockdev");
	qemu_args_add(a,
	    "driver=raw,node-name=scratch,discard=unmap,cache.no-flush=on,file.driver=file,"
	    "file.filename=/dev/fdset/%d,file.locking=off,file.discard=unmap,file.cache.no-flush=on",
	    FDSET_SCRATCH);
	option(a, "-device", "virtio-blk-device,id=vdb,drive=scratch,rerror=report,werror=report");
}

static void args_channels(struct qemu_args *a)
{
	qemu_args_add(a, "-chardev");
	qemu_args_add(a, "socket,id=agent,fd=%d,server=on,wait=off", KEEPER_FD_AGENT);
	option(a, "-device", "virtio-serial-device,id=ports,max_ports=4");
	option(a, "-device", "virtserialport,bus=ports.0,nr=1,chardev=agent,name=carrel.agent");

	qemu_args_add(a, "-chardev");
	qemu_args_add(a, "socket,id=qmp,fd=%d,server=on,wait=off", KEEPER_FD_MONITOR);
	option(a, "-mon", "chardev=qmp,mode=control");

	qemu_args_add(a, "-add-fd");
	qemu_args_add(a, "fd=%d,set=%d", KEEPER_FD_CONSOLE, FDSET_CONSOLE);
	qemu_args_add(a, "-chardev");
	qemu_args_add(a, "file,id=console,path=/dev/fdset/%d,append=on", FDSET_CONSOLE);
	option(a, "-serial", "chardev:console");
}

static void args_rest(struct qemu_args *a)
{
	option(a, "-object", "rng-builtin,id=rng");
	option(a, "-device", "virtio-rng-device,id=rng0,rng=rng");
	option(a, "-device", "virtio-balloon-device,id=balloon0,deflate-on-oom=on");
}

/* tsc_early_khz: on a loaded host the guest cannot measure the TSC and hangs
 * or falls to a clock of 4 ms steps. In software emulation besides, measured on
 * warm cells: mitigations=off, since the page table switches cost most of a system
 * call, and no speculation of the host's is the guest's to steer; no huge pages,
 * since QEMU forgets all translations of addresses when one page inside one changes;
 * no pressure figures (psi), which every switch of tasks would count. */
#define GUEST_EMULATED " mitigations=off transparent_hugepage=never psi=0"

static void args_boot(struct qemu_args *a, const struct keeper_config *c)
{
	qemu_args_add(a, "-kernel");
	qemu_args_add(a, "/carrel/fd/%d", KEEPER_FD_FILES + SPAWN_FD_KERNEL);
	qemu_args_add(a, "-initrd");
	qemu_args_add(a, "/carrel/fd/%d", KEEPER_FD_FILES + SPAWN_FD_INITRD);
	qemu_args_add(a, "-append");
	qemu_args_add(a, "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable tsc_early_khz=%u random.trust_cpu=on%s",
	    c->tsc_khz, c->engine == SPAWN_ENGINE_TCG ? GUEST_EMULATED : "");
}

int qemu_args_build(struct qemu_args *ret, const struct keeper_config *c)
{
	*ret = (struct qemu_args){ 0 };
	args_process(ret, c);
	args_machine(ret, c);
	args_disks(ret);
	args_channels(ret);
	args_rest(ret);
	if (spawn_mode_clones(c->mode))
		option(ret, "-incoming", "defer");
	else
		args_boot(ret, c);
	return ret->error;
}
