#include "core/reply.h"
#include "core/sock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int reply_send_to(void *sock, struct wire_signer *signer, const struct slice *idents, size_t n_idents,
		  const char *header, const struct parent *parent, const char *metadata, struct slice content)
{
	struct slice part[WIRE_PARTS] = {
		[WIRE_HEADER] = { header, strlen(header) },
		[WIRE_PARENT] = parent_slice(parent),
		[WIRE_METADATA] = { metadata, strlen(metadata) },
		[WIRE_CONTENT] = content,
	};
	struct wire_packed packed;
	int err = wire_pack(signer, idents, n_idents, part, NULL, 0, &packed);

	if (err)
		return err;
	return sock_send(sock, packed.frame, packed.n, true);
}

void reply_metadata(const struct request *r, char out[REPLY_METADATA_MAX])
{
	if (r->started[0])
		snprintf(out, REPLY_METADATA_MAX, "{\"started\":\"%s\"}", r->started);
	else
		strcpy(out, "{}");
}

int reply_send(void *sock, struct wire_signer *signer, struct session *session, const struct request *r,
	       const char *type, struct slice content)
{
	char header[MESSAGE_HEADER_MAX], metadata[REPLY_METADATA_MAX];

	session_header(session, type, header);
	reply_metadata(r, metadata);
	return reply_send_to(sock, signer, r->view.idents, r->view.n_idents, header, r->parent, metadata, content);
}

bool reply_is_skipped(int err)
{
	return err == -E2BIG || err == -EBADMSG || err == -EACCES || err == -ENOMEM;
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
