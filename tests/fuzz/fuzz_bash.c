/* FUZZ: kernels/bash/token.c kernels/bash/record.c kernels/bash/quote.c kernels/core/buf.c LIBS: */
/* A text with a cursor at its end, and the same bytes as records of the shell. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bash/quote.h"
#include "bash/record.h"
#include "bash/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool kept)
{
	if (!kept)
		abort();
}

static void take(void *arg, char *text, size_t len)
{
	char *field[RECORD_FIELDS_MAX];
	size_t n;

	must(strlen(text) == len && len <= RECORD_MAX);
	n = record_split(text, field, RECORD_FIELDS_MAX);
	must(n >= 1 && n <= RECORD_FIELDS_MAX);
	++*(size_t *)arg;
}

/* The words of the kernel's own commands: nothing in a text gets out of its quotes. */
static void quoted(const char *text, size_t n)
{
	BUF_AUTO b = { 0 };
	bool inside = false;
	size_t i;

	quote_put(&b, text, n);
	for (i = 0; i < b.len; i++) {
		if (!inside && b.data[i] == '\\')
			must(b.data[++i] == '\'');
		else if (b.data[i] == '\'')
			inside = !inside;
		else
			must(inside);
	}
	must(!inside);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record_reader r = { .skipping = false };
	size_t cut = size ? data[0] % size : 0, taken = 0, len;
	char *code = malloc(size + 1);
	struct token t;

	memcpy(code, data, size);
	code[size] = '\0';
	len = strlen(code);
	if (token_at(code, len, &t) == 0) {
		must(t.start <= len && t.word.data && strlen(t.word.data) <= len);
		must(!t.quote || t.quote == '"' || t.quote == '\'' || t.quote == '$');
	}
	token_free(&t);
	quoted(code, len);
	record_feed(&r, (const char *)data, cut, take, &taken);
	record_feed(&r, (const char *)data + cut, size - cut, take, &taken);
	buf_free(&r.text);
	free(code);
	return 0;
}
