/* The Jupyter wire format: frames, signature. Knows no socket and no language.
 *
 * [identity…, "<IDS|MSG>", hex HMAC-SHA256, header, parent_header, metadata,
 *  content, buffer…]; the signature covers the four JSON frames. An empty key
 * means no signature. The JSON itself is not looked at here.
 */
#ifndef CARREL_WIRE_H
#define CARREL_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
	/* Identities a request may carry: one per hop, and there is one hop. */
	WIRE_IDENTS_MAX = 8,
	/* Buffers of one message, as many as the link's JUPYTER_PARTS_MAX lets through. */
	WIRE_BUFFERS_MAX = 60,
	WIRE_FRAMES_MAX = WIRE_IDENTS_MAX + 2 + 4 + WIRE_BUFFERS_MAX,
	/* Longest key; clients use 36 to 64 characters. */
	WIRE_KEY_MAX = 256,
	WIRE_HEX_LEN = 64,
};

struct slice {
	const void *data;
	size_t len;
};

enum wire_part { WIRE_HEADER, WIRE_PARENT, WIRE_METADATA, WIRE_CONTENT, WIRE_PARTS };

/* A parsed message: points into the frames it was parsed from. */
struct wire_view {
	const struct slice *idents;
	size_t n_idents;
	struct slice part[WIRE_PARTS];
	const struct slice *buffers;
	size_t n_buffers;
};

/* A message ready to send: points into what it was packed from, and itself. */
struct wire_packed {
	struct slice frame[WIRE_FRAMES_MAX];
	size_t n;
	char hex[WIRE_HEX_LEN + 1];
};

/* One key. Not to be shared by threads: each has its own. */
struct wire_signer {
	void *mac; /* EVP_MAC_CTX, NULL when the key is empty */
};

/* -EINVAL: key too long; -ENOMEM. */
int wire_signer_init(struct wire_signer *s, const char *key, size_t len);
void wire_signer_free(struct wire_signer *s);

/* -EBADMSG: not a message; -E2BIG: more frames than the limits above; -EACCES:
 * wrong signature; -EIO: the digest failed. */
int wire_parse(struct wire_signer *s, const struct slice *frames, size_t n, struct wire_view *ret);
/* Points into its arguments until it was sent. Same errors. */
int wire_pack(struct wire_signer *s, const struct slice *idents, size_t n_idents,
	      const struct slice part[WIRE_PARTS], const struct slice *buffers, size_t n_buffers,
	      struct wire_packed *ret);

#endif
