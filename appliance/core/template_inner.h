/* The making of one warm snapshot: what template_build.c (the machine) and template_warm.c (what runs in it)
 * share. */
#ifndef CARREL_TEMPLATE_INNER_H
#define CARREL_TEMPLATE_INNER_H

#include "guest.h"
#include "identity.h"
#include "template.h"
#include "warmup.h"

enum build_step {
	STEP_FILES,
	STEP_BOOT,
	STEP_IDENTITY,
	STEP_KERNEL,
	STEP_WARMUP,
	STEP_FREEZE,
	STEP_PAUSE,
	STEP_SAVE,
	STEP_STOP,
	STEP_SEAL
};

struct template_build {
	struct core *core;
	struct template *template;
	char id[STORE_ID_MAX];
	enum build_step step;
	int64_t began_ms, step_ms;
	struct snapshot snapshot;
	bool has_files, vm_over, failed, working, work_failed;
	struct fault fault;
	struct vm *vm;
	struct guest *guest;
	struct identity *identity;
	struct warmup *warmup;
	size_t language; /* whose default kernel is being started, and then warmed up */
	bool kernel_made;
	struct hub_timer *timer;
	struct hub_item finish, next;
	bool next_waits; /* that next is called */
};

/* template_build.c */
void build_step(struct template_build *b, enum build_step step);
/* The first reason stands. Legal from every callback. */
void build_fail(struct template_build *b, const char *message);
/* Frees it once nothing works on it any more. */
void build_finish(void *arg);
/* Everything that was to run in it has. */
void build_freeze(struct template_build *b);

/* template_warm.c: starts a kernel of each language, warms them up, and then calls build_freeze(). */
void template_warm_begin(struct template_build *b);
/* The link was cut and is back. */
void template_warm_attach(struct template_build *b);

#endif
