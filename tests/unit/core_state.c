/* UNIT: appliance appliance/core appliance/store vmm/host kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* The sandbox's states: every allowed step, and nothing else. */
#include "appliance/core/state.h"
#include "appliance/core/template.h"
#include "check.h"

static void steps(void)
{
	static const char *const allowed[] = { "creating>running", "creating>ending", "running>paused",
					       "running>ending",   "paused>running",  "paused>ending",
					       "ending>ended" };
	char step[64];
	unsigned from, to, i, n = 0;

	for (from = 0; from < SANDBOX_STATES; from++) {
		for (to = 0; to < SANDBOX_STATES; to++) {
			bool expected = false;

			snprintf(step, sizeof(step), "%s>%s", sandbox_state_name(from),
				 sandbox_state_name(to));
			for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
				expected |= strcmp(step, allowed[i]) == 0;
			if (sandbox_state_may(from, to) != expected) {
				fprintf(stderr, "%s should %s be allowed\n", step, expected ? "" : "not");
				exit(1);
			}
			n += expected;
		}
	}
	CHECK_INT(n, 7);
}

static void limits(void)
{
	CHECK(sandbox_state_limit_ms(SANDBOX_CREATING, false) > 0);
	CHECK(sandbox_state_limit_ms(SANDBOX_CREATING, true) >
	      sandbox_state_limit_ms(SANDBOX_CREATING, false));
	CHECK(sandbox_state_limit_ms(SANDBOX_ENDING, false) > 0);
	CHECK_INT(sandbox_state_limit_ms(SANDBOX_RUNNING, false), 0);
}

static void classes(void)
{
	struct vm_class cls;

	CHECK(template_class(256, 0.1, 64, &cls));
	CHECK_INT(cls.memory_mb, 512);
	CHECK_INT(cls.vcpus, 1);
	CHECK_INT(cls.disk_mb, 1024);
	CHECK(template_class(1025, 1.5, 4097, &cls));
	CHECK_INT(cls.memory_mb, 2048);
	CHECK_INT(cls.vcpus, 2);
	CHECK_INT(cls.disk_mb, 16384);
	CHECK(!template_class(5000, 1, 64, &cls));
	CHECK_INT(cls.memory_mb, 5000);
	CHECK(!template_class(512, 4.5, 64, &cls));
	CHECK_INT(cls.vcpus, 5);
}

int main(void)
{
	steps();
	limits();
	classes();
	return 0;
}
