#include "fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fault_fill(struct fault *f, int status, const char *code, const char *field, const char *fmt,
		       va_list ap)
{
	*f = (struct fault){ .status = status };
	snprintf(f->code, sizeof(f->code), "%s", code);
	snprintf(f->field, sizeof(f->field), "%s", field);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
}

int fault_set(struct fault *f, int errno_value, int status, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fault_fill(f, status, code, "", fmt, ap);
	va_end(ap);
	return -errno_value;
}

int fault_field(struct fault *f, const char *code, const char *field, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fault_fill(f, 400, code, field, fmt, ap);
	va_end(ap);
	return -22; /* EINVAL */
}

int fault_no_memory(struct fault *f)
{
	return fault_set(f, 12 /* ENOMEM */, 503, "out_of_memory", "Carrel is out of memory; try again later.");
}

int fault_restarting(struct fault *f, const char *message)
{
	int err = fault_set(f, 11 /* EAGAIN */, 503, "restarting", "%s", message);

	f->retry_after_s = 1;
	return err;
}

int fault_wrap(struct fault *f, int err, const char *context)
{
	char whole[sizeof(f->message)];

	snprintf(whole, sizeof(whole), "%s: %.*s", context,
		 (int)(sizeof(whole) - strnlen(context, 128) - 3), f->message);
	memcpy(f->message, whole, sizeof(whole));
	return err;
}
