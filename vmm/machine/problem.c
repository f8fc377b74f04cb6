#include "problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int problem_set(struct problem *p, int err, const char *fmt, ...)
{
	size_t used;
	va_list ap;

	if (!p)
		return err;
	va_start(ap, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
	used = strlen(p->text);
	snprintf(p->text + used, sizeof(p->text) - used, ": %s", strerror(-err));
	return err;
}
