/* The warm snapshot that a sandbox's memory lies on: what was saved of a sandbox is
 * of no use without it. Named by the snapshot's key and the hash of its memory file,
 * because a spoilt snapshot is made again under the same key.
 *
 * A pin is an empty file pin-NAME in the snapshot's directory: while one is there,
 * nobody who cleans the cache removes it. All calls but base_text() and base_parse()
 * block for a few small files.
 */
#ifndef CARREL_BASE_H
#define CARREL_BASE_H

#include <stdbool.h>

#include "../fault.h"

enum {
	BASE_KEY_MAX = 40, /* 32 hex digits */
	BASE_RAM_MAX = 65, /* SHA-256 in hex */
	BASE_TEXT_MAX = BASE_KEY_MAX + BASE_RAM_MAX,
	BASE_PATH_MAX = 640,
	/* A pin that no start of its appliance has renewed for so long is of a state
	 * directory that was removed: longer than paused sandboxes are kept by default,
	 * and than anybody leaves a machine off. */
	BASE_PIN_DAYS = 90,
};

struct base {
	char key[BASE_KEY_MAX]; /* "": none, it was booted */
	char ram[BASE_RAM_MAX];
};

/* "KEY RAM", as a row keeps it; "" for none. */
void base_text(const struct base *b, char ret[BASE_TEXT_MAX]);
/* False and none for what base_text() did not write. */
bool base_parse(const char *text, struct base *ret);
/* Its directory below snapshots_dir: the one under its key, or one put aside. -ENOENT with a sentence. */
int base_find(const char *snapshots_dir, const struct base *b, char ret[BASE_PATH_MAX], struct fault *f);
/* Pins it, or renews the pin. -ENOENT: there is no such snapshot any more. */
int base_pin(const char *snapshots_dir, const struct base *b, const char *name, struct fault *f);
void base_unpin(const char *snapshots_dir, const struct base *b, const char *name);
/* Whether the snapshot in dir has a pin that counts. */
bool base_pinned(const char *dir);
/* Where a snapshot at path is put when another takes its place. */
void base_aside(const char *path, const char *ram, char ret[BASE_PATH_MAX]);

#endif
