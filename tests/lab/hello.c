/* A guest for the lab's tests, alone in its initramfs: says on the console what it
 * sees of its machine, one fact a line, and powers off. Static. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void file_line(const char *name, const char *path)
{
	char line[256] = "?\n";
	FILE *f = fopen(path, "re");

	if (f) {
		if (!fgets(line, sizeof(line), f))
			snprintf(line, sizeof(line), "?\n");
		fclose(f);
	}
	printf("hello: %s %s", name, line);
}

static void flags(void)
{
	static const char *const looked_for[] = { "svm", "vmx",        "xsave",
						  "avx", "hypervisor", "tsc_deadline_timer" };
	char line[4096] = "";
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && fgets(line, sizeof(line), f) && strncmp(line, "flags", 5) != 0)
		;
	printf("hello: flags");
	for (size_t i = 0; i < sizeof(looked_for) / sizeof(*looked_for); i++) {
		char word[32];

		snprintf(word, sizeof(word), " %s ", looked_for[i]);
		line[strcspn(line, "\n")] = ' ';
		if (strstr(line, word))
			printf(" %s", looked_for[i]);
	}
	printf("\n");
	if (f)
		fclose(f);
}

static void sleeps(void)
{
	struct timespec before, after, pause = { .tv_nsec = 50 * 1000 * 1000 };

	clock_gettime(CLOCK_MONOTONIC, &before);
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("hello: slept %ld ms\n",
	       (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

int main(void)
{
	struct sysinfo info;

	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	file_line("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	printf("hello: processors %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
	sysinfo(&info);
	printf("hello: memory %lu MiB\n", info.totalram >> 20);
	printf("hello: time %ld\n", (long)time(NULL));
	flags();
	sleeps();
	printf("hello: bye\n");
	tcdrain(STDOUT_FILENO);
	reboot(RB_POWER_OFF);
	return 1;
}
