/* UNIT: vmm/jail LIBS: -lseccomp */
/* Properties of QEMU's argument list that the jail and snapshots rely on. */
#include <errno.h>
#include <stdbool.h>

#include "check.h"
#include "vmm/jail/qemu_args.h"

static struct keeper_config config(uint32_t engine, uint32_t mode, uint32_t mask)
{
	struct keeper_config c = { .version = KEEPER_VERSION,
				   .engine = engine,
				   .mode = mode,
				   .fds_mask = mask,
				   .memory_mb = 512,
				   .vcpus = 2,
				   .tsc_khz = 2445406,
				   .id = "one" };

	snprintf(c.program, sizeof(c.program), "/usr/bin/qemu-system-x86_64");
	return c;
}

static struct qemu_args build(uint32_t engine, uint32_t mode)
{
	struct keeper_config c = config(engine, mode, spawn_mode_clones(mode) ? 0x4f : 0x3f);
	struct qemu_args args;

	CHECK_INT(qemu_args_build(&args, &c), 0);
	CHECK(args.argv[args.argc] == NULL);
	return args;
}

/* argv points into its own struct, so a copy is read through offsets. */
static const char *text(const struct qemu_args *a, int i)
{
	const char *p = a->text;

	while (i-- > 0)
		p += strlen(p) + 1;
	return p;
}

static bool has(const struct qemu_args *a, const char *want)
{
	for (int i = 0; i < a->argc; i++)
		if (strcmp(text(a, i), want) == 0)
			return true;
	return false;
}

static bool has_pair(const struct qemu_args *a, const char *name, const char *value)
{
	for (int i = 0; i + 1 < a->argc; i++)
		if (strcmp(text(a, i), name) == 0 && strcmp(text(a, i + 1), value) == 0)
			return true;
	return false;
}

static const char *value_of(const struct qemu_args *a, const char *name)
{
	for (int i = 0; i + 1 < a->argc; i++)
		if (strcmp(text(a, i), name) == 0)
			return text(a, i + 1);
	return "";
}

static void nothing_comes_by_default(void)
{
	struct qemu_args a = build(SPAWN_ENGINE_TCG, SPAWN_CLONE);

	CHECK_STR(text(&a, 0), "/usr/bin/qemu-system-x86_64");
	CHECK(has(&a, "-nodefaults") && has(&a, "-no-user-config") && has(&a, "-no-reboot"));
	CHECK(has_pair(&a, "-display", "none"));
	CHECK(has_pair(&a, "-sandbox",
		       "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"));
	for (int i = 0; i < a.argc; i++)
		CHECK(strstr(text(&a, i), "net") == NULL && strstr(text(&a, i), "nic") == NULL);
}

static void files_come_as_descriptors(void)
{
	static const int modes[] = { SPAWN_BOOT, SPAWN_TEMPLATE, SPAWN_CLONE, SPAWN_RESUME };

	for (size_t m = 0; m < 4; m++) {
		struct qemu_args a = build(SPAWN_ENGINE_TCG, (uint32_t)modes[m]);

		for (int i = 1; i < a.argc; i++) {
			const char *slash = strchr(text(&a, i), '/');

			CHECK(!slash || strncmp(slash, "/dev/fdset/", 11) == 0 ||
			      strncmp(slash, "/carrel/fd/", 11) == 0);
		}
	}
}

static void template_and_clone_are_the_same_machine(void)
{
	struct qemu_args t = build(SPAWN_ENGINE_TCG, SPAWN_TEMPLATE),
			 c = build(SPAWN_ENGINE_TCG, SPAWN_CLONE);
	int same = 0;

	while (same < c.argc && strcmp(text(&t, same), text(&c, same)) == 0)
		same++;
	CHECK_STR(text(&t, same), "-kernel");
	CHECK_STR(text(&c, same), "-incoming");
	CHECK_STR(text(&c, same + 1), "defer");
	CHECK_INT(c.argc, same + 2);
}

static void a_resumed_machine_is_a_clone(void)
{
	struct qemu_args c = build(SPAWN_ENGINE_TCG, SPAWN_CLONE), r = build(SPAWN_ENGINE_TCG, SPAWN_RESUME);

	CHECK_INT(c.argc, r.argc);
	CHECK_INT(c.used, r.used);
	CHECK(memcmp(c.text, r.text, c.used) == 0);
}

static void accelerators_differ_where_they_must(void)
{
	struct qemu_args t = build(SPAWN_ENGINE_TCG, SPAWN_BOOT),
			 k = build(SPAWN_ENGINE_QEMU_KVM, SPAWN_BOOT);

	CHECK(has_pair(&t, "-accel", "tcg,thread=multi,tb-size=32"));
	CHECK(has_pair(&t, "-cpu", "Nehalem,+arat,spec-ctrl=off"));
	CHECK(strstr(value_of(&t, "-append"), "mitigations=off") != NULL);
	CHECK(has_pair(&k, "-accel", "kvm"));
	CHECK(has_pair(&k, "-cpu", "host"));
	CHECK(strstr(value_of(&k, "-append"), "mitigations=off") == NULL);
}

static void guest_gets_its_clock_and_size(void)
{
	struct qemu_args a = build(SPAWN_ENGINE_TCG, SPAWN_BOOT);

	CHECK(strstr(value_of(&a, "-append"), "tsc=reliable tsc_early_khz=2445406") != NULL);
	CHECK(has_pair(&a, "-m", "512M") && has_pair(&a, "-smp", "2"));
	CHECK(strstr(value_of(&a, "-machine"), "microvm,acpi=on,pit=on,pic=on,rtc=on") ==
	      value_of(&a, "-machine"));
}

static void boot_without_a_memory_file_has_private_memory(void)
{
	struct keeper_config c = config(SPAWN_ENGINE_TCG, SPAWN_BOOT, 0x3c);
	struct qemu_args a;

	CHECK_INT(qemu_args_build(&a, &c), 0);
	CHECK(has_pair(&a, "-object", "memory-backend-ram,id=ram,size=512M"));
}

static void longest_path_fits(void)
{
	struct keeper_config c = config(SPAWN_ENGINE_TCG, SPAWN_BOOT, 0x3f);
	struct qemu_args a;

	memset(c.program, 'q', sizeof(c.program) - 1);
	c.program[sizeof(c.program) - 1] = '\0';
	CHECK_INT(qemu_args_build(&a, &c), 0);
	CHECK(a.used < sizeof(a.text));
	CHECK(a.argc < QEMU_ARGS_MAX);
}

int main(void)
{
	nothing_comes_by_default();
	files_come_as_descriptors();
	template_and_clone_are_the_same_machine();
	a_resumed_machine_is_a_clone();
	accelerators_differ_where_they_must();
	guest_gets_its_clock_and_size();
	boot_without_a_memory_file_has_private_memory();
	longest_path_fits();
	return 0;
}
