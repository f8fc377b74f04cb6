#include "edit.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "http.h"
#include "signals.h"

enum key {
	CTRL_A = 1,
	CTRL_B,
	CTRL_C,
	CTRL_D,
	CTRL_E,
	CTRL_F,
	CTRL_H = 8,
	CTRL_K = 11,
	CTRL_L,
	ENTER,
	CTRL_N,
	CTRL_P = 16,
	CTRL_U = 21,
	CTRL_W = 23,
	ESCAPE = 27,
	BACKSPACE = 127,
	KEY_NONE = 256,
	KEY_DELETE,
	KEY_GONE,
};

struct line {
	struct edit *edit;
	const char *prompt;
	char text[EDIT_LINE_MAX + 1];
	char typed[EDIT_LINE_MAX + 1]; /* what stood here before history was called up */
	size_t len, at;                /* bytes */
	size_t entry;                  /* in history; count: the typed one */
};

static bool continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Columns of a text, where each character takes one. */
static size_t width(const char *text, size_t len)
{
	size_t columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += !continues(text[i]);
	return columns;
}

static size_t before(const struct line *l, size_t at)
{
	while (at > 0 && continues(l->text[--at]))
		;
	return at;
}

static size_t behind(const struct line *l, size_t at)
{
	if (at < l->len)
		at++;
	while (at < l->len && continues(l->text[at]))
		at++;
	return at;
}

static size_t terminal_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

/* One row: a longer line is shown around the cursor. */
static void draw(const struct line *l)
{
	size_t room = terminal_width() - 1, head = width(l->prompt, strlen(l->prompt)), from = 0,
	       end = l->len;

	room = room > head + 10 ? room - head : 10;
	while (width(l->text + from, l->at - from) >= room)
		from = behind(l, from);
	while (width(l->text + from, end - from) > room)
		end = before(l, end);
	printf("\r%s%.*s\033[K\r\033[%zuC", l->prompt, (int)(end - from), l->text + from,
	       head + width(l->text + from, l->at - from));
	fflush(stdout);
}

static int read_byte(struct edit *e)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = signals_fd(), .events = POLLIN } };
	unsigned char byte;
	ssize_t n;

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return KEY_GONE;
		e->signal = signals_take();
		if (e->signal)
			return KEY_GONE;
		if (!fds[0].revents)
			continue;
		n = read(STDIN_FILENO, &byte, 1);
		if (n < 0 && errno == EINTR)
			continue;
		return n == 1 ? byte : KEY_GONE;
	}
}

/* The rest of an escape sequence, as the control key that does the same. */
static int read_sequence(struct edit *e)
{
	int first = read_byte(e), byte, number = 0;

	if (first != '[' && first != 'O')
		return first == KEY_GONE ? KEY_GONE : KEY_NONE;
	do {
		byte = read_byte(e);
		if (byte >= '0' && byte <= '9' && number < 1000)
			number = number * 10 + byte - '0';
	} while (byte != KEY_GONE && byte < '@');
	switch (byte) {
	case 'A':
		return CTRL_P;
	case 'B':
		return CTRL_N;
	case 'C':
		return CTRL_F;
	case 'D':
		return CTRL_B;
	case 'H':
		return CTRL_A;
	case 'F':
		return CTRL_E;
	case '~':
		return number == 3                  ? KEY_DELETE
		       : number == 1 || number == 7 ? CTRL_A
		       : number == 4 || number == 8 ? CTRL_E
						    : KEY_NONE;
	case KEY_GONE:
		return KEY_GONE;
	default:
		return KEY_NONE;
	}
}

static void cut(struct line *l, size_t from, size_t to)
{
	memmove(l->text + from, l->text + to, l->len - to);
	l->len -= to - from;
	l->at = from;
}

static void insert(struct line *l, char byte)
{
	if (l->len == EDIT_LINE_MAX)
		return;
	memmove(l->text + l->at + 1, l->text + l->at, l->len - l->at);
	l->text[l->at++] = byte;
	l->len++;
}

static void recall(struct line *l, size_t entry)
{
	if (entry > l->edit->count)
		return;
	if (l->entry == l->edit->count) {
		memcpy(l->typed, l->text, l->len);
		l->typed[l->len] = '\0';
	}
	l->entry = entry;
	snprintf(l->text, sizeof(l->text), "%s",
		 entry == l->edit->count ? l->typed : l->edit->history[entry]);
	l->len = l->at = strlen(l->text);
}

static size_t word_start(const struct line *l)
{
	size_t at = l->at;

	while (at > 0 && l->text[at - 1] == ' ')
		at--;
	while (at > 0 && l->text[at - 1] != ' ')
		at--;
	return at;
}

static void edit_key(struct line *l, int key)
{
	switch (key) {
	case CTRL_A:
		l->at = 0;
		break;
	case CTRL_E:
		l->at = l->len;
		break;
	case CTRL_B:
		l->at = before(l, l->at);
		break;
	case CTRL_F:
		l->at = behind(l, l->at);
		break;
	case CTRL_H:
	case BACKSPACE:
		cut(l, before(l, l->at), l->at);
		break;
	case CTRL_D:
	case KEY_DELETE:
		cut(l, l->at, behind(l, l->at));
		break;
	case CTRL_K:
		l->len = l->at;
		break;
	case CTRL_U:
		cut(l, 0, l->at);
		break;
	case CTRL_W:
		cut(l, word_start(l), l->at);
		break;
	case CTRL_L:
		fputs("\033[H\033[2J", stdout);
		break;
	case CTRL_P:
		recall(l, l->entry - 1);
		break;
	case CTRL_N:
		recall(l, l->entry + 1);
		break;
	default:
		if (key == '\t' || (key >= ' ' && key < KEY_NONE))
			insert(l, key == '\t' ? ' ' : (char)key);
	}
}

/* False when there will be no line. */
static bool type(struct line *l)
{
	for (;;) {
		int key;

		draw(l);
		key = read_byte(l->edit);
		if (key == ESCAPE)
			key = read_sequence(l->edit);
		if (key == KEY_GONE || (key == CTRL_D && l->len == 0))
			return false;
		if (key == ENTER || key == '\n')
			return true;
		if (key == CTRL_C) {
			fputs("^C", stdout);
			l->len = 0;
			return true;
		}
		edit_key(l, key);
	}
}

static void remember(struct edit *e, const char *text)
{
	char *copy;

	if (!*text || (e->count > 0 && strcmp(e->history[e->count - 1], text) == 0))
		return;
	copy = strdup(text);
	if (!copy)
		return;
	if (e->count == EDIT_HISTORY_MAX) {
		free(e->history[0]);
		memmove(e->history, e->history + 1, (EDIT_HISTORY_MAX - 1) * sizeof(*e->history));
		e->count--;
	}
	e->history[e->count++] = copy;
}

char *edit_line(struct edit *e, const char *prompt)
{
	struct line *l = calloc(1, sizeof(*l));
	struct termios before_it, raw;
	char *text = NULL;
	bool got;

	if (!l || tcgetattr(STDIN_FILENO, &before_it) < 0) {
		free(l);
		return NULL;
	}
	l->edit = e;
	l->prompt = prompt;
	l->entry = e->count;
	raw = before_it;
	raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	got = type(l);
	fputs("\n", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before_it);
	l->text[l->len] = '\0';
	if (got) {
		text = strdup(l->text);
		remember(e, l->text);
	}
	free(l);
	return text;
}

char *edit_read(struct edit *e)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int byte = KEY_GONE;

	/* Longer than a request may be: the rest is a line of its own, which the appliance refuses, too. */
	for (size_t len = 0; to && len <= HTTP_BODY_MAX; len++) {
		byte = read_byte(e);
		if (byte == KEY_GONE || byte == '\n')
			break;
		fputc(byte, to);
	}
	if (!to || fclose(to) != 0 || e->signal || (byte == KEY_GONE && size == 0)) {
		free(text);
		return NULL;
	}
	return text;
}

void edit_free(struct edit *e)
{
	while (e->count > 0)
		free(e->history[--e->count]);
}
