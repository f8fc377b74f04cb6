/* HMAC-SHA256 signatures of Jupyter messages, in lower-case hex. */
#ifndef CARREL_AGENT_SIGN_H
#define CARREL_AGENT_SIGN_H

#include <stdbool.h>

#include "wire.h"

enum { SIGN_HEX = 64 };

struct signer;

struct signer *signer_new(const char *key);
void signer_free(struct signer *s);
/* Over the first four parts; writes SIGN_HEX characters, no NUL. */
void signer_sign(struct signer *s, const struct wire_message *m, char *hex);
/* In constant time. */
bool signer_check(struct signer *s, const struct wire_message *m, const void *hex, size_t len);

#endif
