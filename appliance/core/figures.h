/* What /metrics shows of the core: counters since this process started, and
 * what is there now. Labels are the core's own few words, never an owner's. */
#ifndef CARREL_FIGURES_H
#define CARREL_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TALLY_WORDS_MAX = 16, /* more than there are reasons or statuses */
	TALLY_WORD_MAX = 32,
	FIGURES_STATES_MAX = 8,
	FIGURES_ENGINES_MAX = 8,
};

/* How often each of a few words came up. */
struct tally {
	struct {
		char word[TALLY_WORD_MAX];
		uint64_t count;
	} words[TALLY_WORDS_MAX];
	unsigned count;
};

/* Counts a word up to its first '(': "crashed(SIGSEGV)" is one "crashed". Past
 * the bound, or with other letters than a-z and -, it counts as "other". */
void tally_add(struct tally *t, const char *word);

/* The machines that wait for sandboxes. */
struct pool_figures {
	unsigned size, max; /* wanted now, and at most */
	unsigned ready, filling, memory_mb;
	/* Machines that came up; sandboxes that took one, or went past the pool; machines
	 * that were lost, and that made room for sandboxes. */
	uint64_t filled, claimed, missed, lost, given_up;
};

struct core_figures {
	const char *states[FIGURES_STATES_MAX]; /* ends with NULL */
	struct {
		const char *name;
		unsigned sandboxes[FIGURES_STATES_MAX]; /* live ones, by state */
	} engines[FIGURES_ENGINES_MAX]; /* the appliance's own first; ends with NULL */
	struct tally starts;     /* by clone, boot, … */
	struct tally ends;       /* by reason */
	struct tally executions; /* ended ones, by status */
	struct tally lives;      /* paused, resumed, forked, kept */
	unsigned executions_running, executions_queued, kernels;
	unsigned memory_mb, memory_used_mb;
	double cpus, cpus_used;
	bool template_ready;
	struct pool_figures pool;
};

#endif
