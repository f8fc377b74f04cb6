/* Why something failed, as a sentence for the log of whoever started the
 * monitor. Functions that take one return 0, or a negative errno with the
 * sentence filled in; on success it is untouched. NULL: nobody wants to know.
 */
#ifndef CARREL_MACHINE_PROBLEM_H
#define CARREL_MACHINE_PROBLEM_H

enum { PROBLEM_MAX = 192 };

struct problem {
	char text[PROBLEM_MAX];
};

/* Returns err (negative errno); its own text follows the sentence. */
int problem_set(struct problem *p, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
