/* Writes ACPI's machine language: the few terms our DSDT needs, into a buffer of
 * fixed size. Past its end nothing is written and `full` stays set, so a caller
 * looks once, at the end.
 *
 * Terms that contain others are opened and closed: aml_open() leaves room for
 * the length, aml_close() fills it in.
 */
#ifndef CARREL_MACHINE_AML_H
#define CARREL_MACHINE_AML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aml {
	uint8_t *bytes;
	size_t size, used;
	bool full;
};

/* Kinds of what is opened. */
enum aml_kind { AML_SCOPE, AML_DEVICE, AML_METHOD, AML_PACKAGE, AML_BUFFER, AML_IF };

void aml_bytes(struct aml *a, const void *bytes, size_t size);
void aml_byte(struct aml *a, uint8_t value);

/* name: four characters, "_SB_"; NULL for the kinds without one. count: a
 * method's arguments, a package's elements. Returns what aml_close() wants. */
size_t aml_open(struct aml *a, enum aml_kind kind, const char *name, uint8_t count);
void aml_close(struct aml *a, size_t opened);

/* Name(name, …): a value follows. */
void aml_name(struct aml *a, const char *name);
void aml_integer(struct aml *a, uint64_t value);
void aml_string(struct aml *a, const char *text);
/* "PNP0501": seven characters in four bytes. */
void aml_eisa_id(struct aml *a, const char *id);

/* A resource template: open a buffer, add descriptors, close it with aml_resources_close(). */
size_t aml_resources_open(struct aml *a);
void aml_resource_memory(struct aml *a, uint32_t base, uint32_t size);
void aml_resource_port(struct aml *a, uint16_t base, uint8_t size);
/* Edge-triggered, active-high, one device's alone. */
void aml_resource_interrupt(struct aml *a, uint32_t gsi);
void aml_resources_close(struct aml *a, size_t opened);

#endif
