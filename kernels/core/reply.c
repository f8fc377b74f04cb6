#include "core/reply.h"
#include "core/sock.h"

#include <errno.h>
#include <string.h>

int reply_send(void *sock, struct wire_signer *signer, struct session *session, const struct slice *idents,
	       size_t n_idents, const char *type, const struct parent *parent, struct slice content)
{
	char header[MESSAGE_HEADER_MAX];
	struct slice part[WIRE_PARTS] = {
		[WIRE_HEADER] = { header, session_header(session, type, header) },
		[WIRE_PARENT] = parent_slice(parent),
		[WIRE_METADATA] = { "{}", 2 },
		[WIRE_CONTENT] = content,
	};
	struct wire_packed packed;
	int err = wire_pack(signer, idents, n_idents, part, NULL, 0, &packed);

	if (err)
		return err;
	return sock_send(sock, packed.frame, packed.n);
}

const char *reply_skip_reason(int err)
{
	switch (err) {
	case -EBADMSG:
		return "it is not a Jupyter message";
	case -EACCES:
		return "its signature is wrong";
	case -E2BIG:
		return "it has more frames than a message may have";
	default:
		return strerror(-err);
	}
}
