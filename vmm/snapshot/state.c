#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc64.h"
#include "file.h"
#include "vmm/pages.h"

static const char magic[8] = { 'C', 'A', 'R', 'R', 'E', 'L', 'V', 'M' };

size_t state_size(unsigned vcpus)
{
	return sizeof(struct state) + vcpus * sizeof(struct state_vcpu);
}

struct state *state_new(unsigned vcpus)
{
	struct state *s = calloc(1, state_size(vcpus));

	if (s)
		s->header.vcpus = vcpus;
	return s;
}

/* Over a header whose sum is zero, then over the rest: a copy of the header is cheap, of the file not. */
static uint64_t state_sum(const struct state *s, size_t size)
{
	struct state_header h = s->header;

	h.sum = 0;
	return crc64(&h, sizeof(h)) ^ crc64(&s->vm, size - offsetof(struct state, vm));
}

void state_seal(struct state *s)
{
	memcpy(s->header.magic, magic, sizeof(magic));
	s->header.version = STATE_VERSION;
	s->header.size = state_size(s->header.vcpus);
	s->header.sum = state_sum(s, s->header.size);
}

static int header_check(const struct state_header *h, size_t size, struct problem *p)
{
	if (size < sizeof(struct state) || memcmp(h->magic, magic, sizeof(magic)) != 0)
		return problem_set(p, -EINVAL, "this is no machine's state");
	if (h->version != STATE_VERSION)
		return problem_set(p, -EINVAL, "the state has version %u, not %d", h->version, STATE_VERSION);
	if (h->vcpus < 1 || h->vcpus > ACPI_VCPUS_MAX || h->size != size || size != state_size(h->vcpus))
		return problem_set(p, -EINVAL, "the state is cut off");
	return 0;
}

int state_check(const struct state *s, size_t size, struct problem *p)
{
	const struct state_header *h = &s->header;
	int err = header_check(h, size, p);

	if (err)
		return err;
	if (h->sum != state_sum(s, size))
		return problem_set(p, -EINVAL, "the state is damaged");
	if (h->memory_size < MEMORY_MIN || h->memory_size > MEMORY_MAX || h->memory_size % MEMORY_PAGE)
		return problem_set(p, -EINVAL, "the state is of a machine with impossible memory");
	if (h->devices > MACHINE_DEVICES_MAX)
		return problem_set(p, -EINVAL, "the state is of a machine with %u devices", h->devices);
	for (uint32_t i = 0; i < h->vcpus; i++)
		if (s->vcpu[i].cpuid_count > CPUID_ENTRIES_MAX || s->vcpu[i].msr_count > STATE_MSRS_MAX)
			return problem_set(p, -EINVAL, "the state of vCPU %u is larger than itself", i);
	return 0;
}

int state_write(const struct state *s, int fd)
{
	const uint8_t *bytes = (const uint8_t *)s;
	int err;

	if (ftruncate(fd, 0) != 0)
		return -errno;
	err = file_write(fd, bytes + sizeof(s->header), s->header.size - sizeof(s->header),
			 sizeof(s->header));
	return err ? err : file_write(fd, &s->header, sizeof(s->header), 0);
}

int state_read(int fd, struct state **ret, struct problem *p)
{
	struct state *s;
	struct stat st;
	int err;

	if (fstat(fd, &st) != 0)
		return problem_set(p, -errno, "the state file");
	if (st.st_size < (off_t)state_size(1) || st.st_size > (off_t)state_size(ACPI_VCPUS_MAX))
		return problem_set(p, -EINVAL, "this is no machine's state");
	s = malloc((size_t)st.st_size);
	if (!s)
		return problem_set(p, -ENOMEM, "the state file");
	err = pages_read(fd, s, (size_t)st.st_size, 0);
	if (err)
		problem_set(p, err, "the state file cannot be read");
	else
		err = state_check(s, (size_t)st.st_size, p);
	if (err) {
		free(s);
		return err;
	}
	*ret = s;
	return 0;
}
