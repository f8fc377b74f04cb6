/* UNIT: LIBS: */
/* The keeper's bounded logs and the names of ends. */
#include <stdbool.h>
#include <unistd.h>

#include "check.h"

/* Alone: the rest of vmm/keeper is a program. */
#include "vmm/keeper/log.c"
#include "vmm/keeper/reason.c"

static struct log log_new(void)
{
	char path[] = "/tmp/carrel-log-XXXXXX";
	struct log log = { .fd = mkstemp(path) };

	CHECK(log.fd >= 0);
	unlink(path);
	return log;
}

static void log_keeps_the_end_and_stays_small(void)
{
	struct log log = log_new();
	char line[64], text[KEEPER_LOG_MAX + 1];
	ssize_t n;

	for (int i = 0; i < 20000; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		log_append(&log, line, strlen(line));
		CHECK(log.size <= KEEPER_LOG_MAX);
	}
	n = pread(log.fd, text, sizeof(text), 0);
	CHECK_INT(n, log.size);
	CHECK(n >= KEEPER_LOG_MAX / 2);
	text[n] = '\0';
	CHECK(strcmp(text + n - 11, "line 19999\n") == 0);
	close(log.fd);
}

static void one_piece_larger_than_the_log(void)
{
	static char big[3 * KEEPER_LOG_MAX + 17];
	struct log log = log_new();

	memset(big, 'a', sizeof(big));
	big[sizeof(big) - 1] = 'z';
	log_append(&log, big, sizeof(big));
	CHECK(log.size <= KEEPER_LOG_MAX && log.size >= KEEPER_LOG_MAX / 2);
	CHECK_INT(pread(log.fd, big, 1, (off_t)log.size - 1), 1);
	CHECK_INT(big[0], 'z');
	close(log.fd);
}

static void last_line_is_printable(void)
{
	struct log log = log_new();
	char line[32];

	log_last_line(&log, line, sizeof(line));
	CHECK_STR(line, "");
	log_append(&log, "one\ntwo \x1b[31mred\n\r\n \n", 20);
	log_last_line(&log, line, sizeof(line));
	CHECK_STR(line, "two ?[31mred");
	log_append(&log, "a line that is longer than the room there is", 44);
	log_last_line(&log, line, sizeof(line));
	CHECK_INT(strlen(line), sizeof(line) - 1);
	close(log.fd);
}

static void failing_writes_lose_text_only(void)
{
	struct log log = { .fd = -1 };
	char line[8];

	log_append(&log, "text", 4);
	CHECK_INT(log.size, 0);
	log_last_line(&log, line, sizeof(line));
	CHECK_STR(line, "");
}

static void reasons_have_names(void)
{
	static const char v1[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
	static const char v1_killed[] = "oom_kill_disable 0\nunder_oom 1\noom_kill 2\n";
	static const char v2_killed[] = "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n";
	char reason[64];

	reason_of_exit(0, v1, reason, sizeof(reason));
	CHECK_STR(reason, "crashed(0)");
	reason_of_exit(3 << 8, v1_killed, reason, sizeof(reason));
	CHECK_STR(reason, "crashed(3)");
	reason_of_exit(11, v1_killed, reason, sizeof(reason));
	CHECK_STR(reason, "crashed(SIGSEGV)");
	reason_of_exit(9, v1, reason, sizeof(reason));
	CHECK_STR(reason, "crashed(SIGKILL)");
	reason_of_exit(9, v1_killed, reason, sizeof(reason));
	CHECK_STR(reason, "out-of-memory");
	reason_of_exit(9, v2_killed, reason, sizeof(reason));
	CHECK_STR(reason, "out-of-memory");
	reason_of_exit(9, "", reason, sizeof(reason));
	CHECK_STR(reason, "crashed(SIGKILL)");
	reason_of_exit(31, "", reason, sizeof(reason));
	CHECK_STR(reason, "crashed(SIGSYS)");
	CHECK(strstr(reason_sentence(31), "filter") != NULL);
	CHECK(reason_sentence(0) == NULL && reason_sentence(9) == NULL);
}

int main(void)
{
	log_keeps_the_end_and_stays_small();
	one_piece_larger_than_the_log();
	last_line_is_printable();
	failing_writes_lose_text_only();
	reasons_have_names();
	return 0;
}
