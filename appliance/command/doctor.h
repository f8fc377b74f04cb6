/* What carrel doctor looks at: one function a thing.
 *
 * Each fills a finding: whether it will do, what was found, and what follows from
 * that for who uses the appliance. Nothing on the host is changed, and nothing
 * here needs an appliance that runs.
 */
#ifndef CARREL_DOCTOR_H
#define CARREL_DOCTOR_H

#include "command.h"

enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_MISSING };

struct finding {
	enum level level;
	char found[300];   /* what is there */
	char follows[400]; /* a sentence */
};

struct check {
	const char *name;
	void (*look)(struct command *c, struct finding *f);
};

void finding_set(struct finding *f, enum level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void finding_follows(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* carrel doctor --config: says what is wrong in the file (NULL: the usual one). An exit code. */
int config_check(struct command *c, const char *path);
/* A setting of `make run`: the environment's, else the configuration file's, else the given one. */
const char *setting(const char *name, const char *otherwise);
/* A whole small file as text, allocated; NULL: it cannot be read. */
char *text_file(const char *path);

void look_processor(struct command *c, struct finding *f);
void look_kvm(struct command *c, struct finding *f);
void look_kernel(struct command *c, struct finding *f);
void look_cgroups(struct command *c, struct finding *f);
void look_namespaces(struct command *c, struct finding *f);
void look_io_uring(struct command *c, struct finding *f);
void look_root(struct command *c, struct finding *f);
void look_memory(struct command *c, struct finding *f);
void look_qemu(struct command *c, struct finding *f);
void look_nginx(struct command *c, struct finding *f);
void look_state(struct command *c, struct finding *f);
void look_cache(struct command *c, struct finding *f);
void look_image(struct command *c, struct finding *f);
void look_appliance(struct command *c, struct finding *f);

#endif
