/* Names for why a sandbox ended. */
#ifndef CARREL_KEEPER_REASON_H
#define CARREL_KEEPER_REASON_H

#include <stddef.h>

/* "crashed(SIGSEGV)" or "crashed(1)" from a wait status; "out-of-memory" when
 * memory_events, the text of the control group's file, counts a kill. */
void reason_of_exit(int wait_status, const char *memory_events, char *ret, size_t size);
/* What there is to say of it to a person: a sentence, or NULL. */
const char *reason_sentence(int wait_status);

#endif
