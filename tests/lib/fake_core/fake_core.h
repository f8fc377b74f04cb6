/* Shared by the files of the core's stand-in; see fake_core.c. */
#ifndef CARREL_TESTS_FAKE_CORE_H
#define CARREL_TESTS_FAKE_CORE_H

#include <pthread.h>

#include "appliance/core/core.h"

struct fake_run {
	struct fake_run *next;
	struct core *core;
	struct xlog *log;
	char id[STORE_ID_MAX], sandbox_id[STORE_ID_MAX], code[64];
	bool interrupted;
};

struct fake_file {
	struct fake_file *next;
	char *path, *bytes;
	size_t len;
};

struct core {
	const struct settings *settings;
	struct store *store;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stopping;
	unsigned threads;
	struct fake_run *runs;
	struct fake_file *files;
	int64_t gone_ms; /* CLOCK_REALTIME when a process's client was last seen gone */
};

void fake_thread(struct core *c, void *(*run)(void *), void *arg);
void fake_thread_end(struct core *c);
int fake_sandbox_check(struct core *c, const char *owner, const char *id, struct fault *f);
void fake_files_free(struct core *c);

#endif
