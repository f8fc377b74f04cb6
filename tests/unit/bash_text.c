/* UNIT: kernels/bash kernels/core LIBS: -ljansson -lzmq -lcrypto */
/* What the Bash kernel reads of texts: tokens at a cursor, records, quoting, history, names of files. */
#include "bash/history.h"
#include "bash/paths.h"
#include "bash/quote.h"
#include "bash/record.h"
#include "bash/token.h"
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct expected {
	const char *code;
	enum token_kind kind;
	int start;
	const char *word;
	char quote;
};

static const struct expected tokens[] = {
	{ "", TOKEN_COMMAND, 0, "", 0 },
	{ "ech", TOKEN_COMMAND, 0, "ech", 0 },
	{ "  ech", TOKEN_COMMAND, 2, "ech", 0 },
	{ "echo fi", TOKEN_FILE, 5, "fi", 0 },
	{ "echo ", TOKEN_FILE, 5, "", 0 },
	{ "a; b", TOKEN_COMMAND, 3, "b", 0 },
	{ "a | b", TOKEN_COMMAND, 4, "b", 0 },
	{ "a && b", TOKEN_COMMAND, 5, "b", 0 },
	{ "a\nb", TOKEN_COMMAND, 2, "b", 0 },
	{ "(b", TOKEN_COMMAND, 1, "b", 0 },
	{ "if b", TOKEN_COMMAND, 3, "b", 0 },
	{ "while ! b", TOKEN_COMMAND, 8, "b", 0 },
	{ "A=1 b", TOKEN_COMMAND, 4, "b", 0 },
	{ "A=$(x y) b", TOKEN_COMMAND, 9, "b", 0 },
	{ "A=/e", TOKEN_FILE, 2, "/e", 0 },
	{ "ls --a=/e", TOKEN_FILE, 7, "/e", 0 },
	{ "a > f", TOKEN_FILE, 4, "f", 0 },
	{ "> f b", TOKEN_COMMAND, 4, "b", 0 },
	{ "a 2>&1 b", TOKEN_FILE, 7, "b", 0 },
	{ "a &> f", TOKEN_FILE, 5, "f", 0 },
	{ "cat a\\ b", TOKEN_FILE, 4, "a b", 0 },
	{ "cat \"a b", TOKEN_FILE, 4, "a b", '"' },
	{ "cat 'a b", TOKEN_FILE, 4, "a b", '\'' },
	{ "cat x'a b", TOKEN_FILE, 4, "xa b", '\'' },
	{ "cat 'it'\\''s' b", TOKEN_FILE, 14, "b", 0 },
	{ "cat \"a\\\"b", TOKEN_FILE, 4, "a\"b", '"' },
	{ "echo $HO", TOKEN_VARIABLE, 5, "HO", 0 },
	{ "echo a$HO", TOKEN_VARIABLE, 6, "HO", 0 },
	{ "echo \"$HO", TOKEN_VARIABLE, 6, "HO", 0 },
	{ "echo ${HO", TOKEN_BRACED, 5, "HO", 0 },
	{ "echo ${a:-$HO", TOKEN_VARIABLE, 10, "HO", 0 },
	{ "echo '$HO", TOKEN_FILE, 5, "$HO", '\'' },
	{ "echo $", TOKEN_VARIABLE, 5, "", 0 },
	{ "$(ech", TOKEN_COMMAND, 2, "ech", 0 },
	{ "echo \"$(cat fi", TOKEN_FILE, 12, "fi", 0 },
	{ "`ech", TOKEN_COMMAND, 1, "ech", 0 },
	{ "echo $(a) fi", TOKEN_FILE, 10, "fi", 0 },
	{ "echo \"$(a \"b\")\" fi", TOKEN_FILE, 16, "fi", 0 },
	{ "echo $HOME/x", TOKEN_NONE, -1, NULL, 0 },
	{ "echo $(a)b", TOKEN_NONE, -1, NULL, 0 },
	{ "echo `a`/b", TOKEN_NONE, -1, NULL, 0 },
	{ "echo ${a}b", TOKEN_NONE, -1, NULL, 0 },
	{ "echo $'a\\'b", TOKEN_NONE, -1, NULL, 0 },
	{ "# ech", TOKEN_NONE, -1, NULL, 0 },
	{ "echo a#b", TOKEN_FILE, 5, "a#b", 0 },
	{ "# a\nb", TOKEN_COMMAND, 4, "b", 0 },
	{ "x; then_ b", TOKEN_FILE, 9, "b", 0 },
	{ "echo $(if) b", TOKEN_FILE, 11, "b", 0 },
};

static void token(void)
{
	struct token t;
	size_t i;

	for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		const struct expected *e = &tokens[i];

		CHECK_INT(token_at(e->code, strlen(e->code), &t), 0);
		if (t.kind != e->kind || (e->word && (strcmp(t.word.data, e->word) || t.quote != e->quote ||
						      (int)t.start != e->start))) {
			fprintf(stderr, "<%s>: kind %d start %zu word <%s> quote %d\n", e->code, t.kind,
				t.start, t.word.data ? t.word.data : "", t.quote);
			exit(1);
		}
		token_free(&t);
	}
	CHECK_INT(token_at("ls ~/a", 6, &t), 0);
	CHECK(t.tilde && t.kind == TOKEN_FILE);
	token_free(&t);
	CHECK_INT(token_at("ls \\~/a", 7, &t), 0);
	CHECK(!t.tilde);
	token_free(&t);
}

static void depth(void)
{
	char code[4 * TOKEN_DEPTH_MAX + 1];
	struct token t;
	size_t i;

	for (i = 0; i < 2 * TOKEN_DEPTH_MAX; i++)
		memcpy(code + 2 * i, "$(", 2);
	CHECK_INT(token_at(code, 4 * TOKEN_DEPTH_MAX, &t), 0);
	CHECK_INT(t.kind, TOKEN_NONE);
	token_free(&t);
}

struct taken {
	size_t n, len;
	char last[64];
};

static void take(void *arg, char *text, size_t len)
{
	struct taken *t = arg;

	t->n++;
	t->len = len;
	snprintf(t->last, sizeof(t->last), "%s", text);
}

static void record(void)
{
	struct record_reader r = { .skipping = false };
	struct taken t = { .n = 0 };
	char *large = calloc(1, RECORD_MAX + 10), *field[3];
	char text[] = "R\x1f"
		      "1\x1fone\x1etwo\x1fthree";

	record_feed(&r, "ab", 2, take, &t);
	CHECK_INT(t.n, 0);
	record_feed(&r, "c\0d\0\0e", 6, take, &t);
	CHECK_INT(t.n, 3);
	CHECK_INT(t.len, 0);
	record_feed(&r, "f", 2, take, &t);
	CHECK_STR(t.last, "ef");
	/* Too long: left out, the next is whole. */
	memset(large, 'x', RECORD_MAX + 1);
	record_feed(&r, large, RECORD_MAX + 1, take, &t);
	record_feed(&r, "yz\0next", 8, take, &t);
	CHECK_STR(t.last, "next");
	CHECK_INT(t.n, 5);
	buf_free(&r.text);
	free(large);
	CHECK_INT(record_split(text, field, 3), 3);
	CHECK_STR(field[0], "R");
	CHECK_STR(field[1], "1");
	CHECK_STR(field[2], "one\ntwo\x1fthree");
}

static void take_name(void *arg, const char *name)
{
	struct taken *t = arg;

	t->n++;
	snprintf(t->last, sizeof(t->last), "%s", name);
}

static void quote(void)
{
	static const char odd[] = "a b'c\"$`\\\n*";
	BUF_AUTO b = { 0 };

	quote_put(&b, odd, sizeof(odd) - 1);
	buf_put(&b, "", 1);
	CHECK_STR(b.data, "'a b'\\''c\"$`\\\n*'");
	b.len = 0;
	quote_put_in(&b, odd, sizeof(odd) - 1, 0);
	buf_put(&b, "", 1);
	CHECK_STR(b.data, "a\\ b\\'c\\\"\\$\\`\\\\$'\\n'\\*");
	b.len = 0;
	quote_put_in(&b, odd, sizeof(odd) - 1, '"');
	buf_put(&b, "", 1);
	CHECK_STR(b.data, "a b'c\\\"\\$\\`\\\\\n*");
}

static size_t rows(const struct history *h, const char *request, const char *last)
{
	json_t *content = json_loads(request, 0, NULL), *reply = history_reply(h, content);
	json_t *list = json_object_get(reply, "history");
	size_t n = json_array_size(list);

	CHECK(content && list);
	if (n > 0)
		CHECK_STR(json_string_value(json_array_get(json_array_get(list, n - 1), 2)), last);
	json_decref(content);
	json_decref(reply);
	return n;
}

static void history(void)
{
	struct history h = { .n = 0 };
	char code[32];
	int i;

	history_add(&h, 1, "echo a", 6);
	history_add(&h, 2, "ls", 2);
	history_add(&h, 3, "echo a", 6);
	CHECK_INT(rows(&h, "{\"hist_access_type\":\"tail\",\"n\":2}", "echo a"), 2);
	CHECK_INT(rows(&h, "{\"hist_access_type\":\"range\",\"start\":1,\"stop\":3,\"session\":0}", "ls"), 2);
	CHECK_INT(rows(&h, "{\"hist_access_type\":\"range\",\"start\":1,\"stop\":3,\"session\":7}", ""), 0);
	CHECK_INT(rows(&h, "{\"hist_access_type\":\"search\",\"pattern\":\"echo*\",\"n\":9}", "echo a"), 2);
	CHECK_INT(
		rows(&h, "{\"hist_access_type\":\"search\",\"pattern\":\"echo*\",\"unique\":true}", "echo a"),
		1);
	CHECK_INT(rows(&h, "{\"hist_access_type\":\"nonsense\"}", ""), 0);
	for (i = 0; i < HISTORY_CELLS_MAX + 100; i++) {
		snprintf(code, sizeof(code), "%d", i);
		history_add(&h, i + 4, code, strlen(code));
	}
	CHECK(h.n <= HISTORY_CELLS_MAX);
	CHECK_STR(h.cells[h.n - 1].code, code);
	history_free(&h);
}

static void paths(void)
{
	char folder[] = "/tmp/bash_text.XXXXXX", name[300];
	struct paths p = { .base = folder };
	struct taken t = { .n = 0 };
	int fd;

	CHECK(mkdtemp(folder));
	snprintf(name, sizeof(name), "%s/sub dir", folder);
	CHECK_INT(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/sub dir/file", folder);
	fd = open(name, O_CREAT | O_WRONLY, 0600);
	CHECK(fd >= 0);
	close(fd);
	paths_find(&p, "su", take_name, &t);
	CHECK_INT(t.n, 1);
	CHECK_STR(t.last, "sub dir/");
	paths_find(&p, "sub dir/f", take_name, &t);
	CHECK_STR(t.last, "sub dir/file");
	p.executables = true;
	t.n = 0;
	paths_find(&p, "sub dir/f", take_name, &t);
	CHECK_INT(t.n, 0);
	unlink(name);
	snprintf(name, sizeof(name), "%s/sub dir", folder);
	rmdir(name);
	rmdir(folder);
}

int main(void)
{
	token();
	depth();
	record();
	quote();
	history();
	paths();
	return 0;
}
