/* How the guest's first process ends when it cannot go on.
 *
 * Nobody is there to read a status: the console is the only witness. Every
 * failure prints one sentence there and powers the machine off, so that the
 * host sees an end at once instead of a hang.
 */
#ifndef CARREL_INIT_FAIL_H
#define CARREL_INIT_FAIL_H

/* Prints "carrel-init: FORMAT: strerror(error)" (without the last part if
 * error is 0) and powers off. `error` is a positive or negative errno. */
__attribute__((noreturn, format(printf, 2, 3))) void init_fail(int error, const char *format, ...);

#endif
