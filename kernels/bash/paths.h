/* Names of files that begin with a text, read from folders and never expanded. */
#ifndef CARREL_BASH_PATHS_H
#define CARREL_BASH_PATHS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	/* Entries of one folder that are looked at, and names that are given. */
	PATHS_ENTRIES_MAX = 100 * 1000,
	PATHS_MAX = 1000,
};

struct paths {
	const char *base; /* folder that relative names start from */
	bool tilde;       /* a ~ at the beginning stands for a home */
	bool executables; /* only folders and what may be executed */
};

/* take gets each name as it would be typed, folders with a / at their end. */
void paths_find(const struct paths *p, const char *word, void (*take)(void *arg, const char *name),
		void *arg);

#endif
