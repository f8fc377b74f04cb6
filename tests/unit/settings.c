/* UNIT: appliance LIBS: */
/* Settings: defaults, the command line, the configuration file, and what is refused. */
#include <errno.h>
#include <unistd.h>

#include "appliance/settings.h"
#include "check.h"

static int parse(struct settings *s, struct fault *f, char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return settings_parse(s, argc, argv, f);
}

#define PARSE(s, f, ...) parse(s, f, (char *[]){ (char *)"carreld", __VA_ARGS__, NULL })
#define ARG(text) ((char *)text)

static void test_command_line(void)
{
	struct settings s = { .short_threads = 0 };
	struct fault f = { .status = 0 };

	CHECK_INT(PARSE(&s, &f, ARG("--image"), ARG("/i"), ARG("--state"), ARG("/s"), ARG("--stream-threads"), ARG("5")), 0);
	CHECK_STR(s.state, "/s");
	CHECK_STR(s.run, "/s/run");
	CHECK_STR(s.engine, "auto");
	CHECK_STR(s.allow_jail, "no");
	CHECK_INT(s.short_threads, 8);
	CHECK_INT(s.stream_threads, 5);
	CHECK_INT(s.memory_mb, 0);
	CHECK_INT(s.sandboxes_per_owner, 20);
}

static void refused(struct settings *s, const char *option, const char *value, const char *says)
{
	struct settings before = *s;
	struct fault f = { .status = 0 };

	CHECK_INT(PARSE(s, &f, ARG("--image"), ARG("/i"), ARG(option), ARG(value)), -EINVAL);
	CHECK(strstr(f.message, says) != NULL);
	CHECK(!memcmp(s, &before, sizeof(before)));
}

static void test_refused(void)
{
	static char longer[600];
	struct settings s = { .short_threads = 77 };
	struct fault f = { .status = 0 };

	memset(longer, 'x', sizeof(longer) - 1);
	refused(&s, "--colour", "blue", "colour");
	refused(&s, "state", "x", "state");
	refused(&s, "--short-threads", "0", "from 1");
	refused(&s, "--short-threads", "8x", "8x");
	refused(&s, "--memory-mb", "-1", "-1");
	refused(&s, "--memory-mb", "99999999999999999999", "from 0");
	refused(&s, "--engine", "", "engine");
	refused(&s, "--allow-jail", "maybe", "maybe");
	refused(&s, "--state", longer, "state");
	refused(&s, "--state", NULL, "value");
	CHECK_INT(PARSE(&s, &f, ARG("--state"), ARG("/s")), -EINVAL);
	CHECK_STR(f.field, "image");
}

static void test_file(void)
{
	char path[] = "/tmp/carrel-settings-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	struct settings s;
	struct fault f = { .status = 0 };

	CHECK(file != NULL);
	fputs("# a comment\n\n image = /file \nshort-threads=3\n\tengine\t=\ttcg\n", file);
	fclose(file);
	CHECK_INT(PARSE(&s, &f, ARG("--short-threads"), ARG("4"), ARG("--config"), ARG(path)), 0);
	CHECK_STR(s.image, "/file");
	CHECK_STR(s.engine, "tcg");
	CHECK_INT(s.short_threads, 4);

	file = fopen(path, "a");
	fputs("nonsense\n", file);
	fclose(file);
	CHECK_INT(PARSE(&s, &f, ARG("--config"), ARG(path)), -EINVAL);
	CHECK(strstr(f.message, "line 6") != NULL);
	unlink(path);
	CHECK_INT(PARSE(&s, &f, ARG("--config"), ARG(path)), -ENOENT);
}

int main(void)
{
	test_command_line();
	test_refused();
	test_file();
	return 0;
}
