/* The rows of filter_rules.c. */
#ifndef CARREL_MACHINE_FILTER_RULES_H
#define CARREL_MACHINE_FILTER_RULES_H

#include <stdint.h>

struct filter_rule {
	const char *name; /* of the call, or of what it asks of KVM */
	int call;
	unsigned in;          /* bits by enum filter */
	unsigned arg;         /* the argument that must be… */
	uint64_t mask, value; /* …value in the bits of mask; 0: any */
	int error;            /* 0: it is allowed; else it is not made, and fails with this */
};

extern const struct filter_rule filter_rules[];
extern const unsigned filter_rules_count;

#endif
