#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

void init_fail(int error, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	if (error != 0)
		dprintf(STDERR_FILENO, "carrel-init: %s: %s\n", sentence,
			strerror(error < 0 ? -error : error));
	else
		dprintf(STDERR_FILENO, "carrel-init: %s\n", sentence);
	sync();
	reboot(RB_POWER_OFF);
	/* A machine without a way to power off ends by reset, which its monitor
	 * takes for an end as well. */
	reboot(RB_AUTOBOOT);
	_exit(1);
}
