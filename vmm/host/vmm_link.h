/* One connection to carrel-vmm's control socket (vmm/machine/control.h), on the loop.
 *
 * carrel-vmm is in its jail with the guest, so what it says is foreign: sizes,
 * versions and texts are checked here. closed() is called at most once, also
 * from inside vmm_link_ask().
 */
#ifndef CARREL_VMM_LINK_H
#define CARREL_VMM_LINK_H

#include <uv.h>

#include "vmm/machine/control.h"

struct vmm_link;

struct vmm_link_ops {
	void (*reply)(const struct control_reply *reply, void *arg);
	/* -EPIPE: it is gone; -EPROTO: it does not speak our protocol. */
	void (*closed)(int err, const char *message, void *arg);
};

int vmm_link_new(uv_loop_t *loop, const char *path, const struct vmm_link_ops *ops, void *arg, struct vmm_link **ret);
/* Sends it with a serial of its own, and the files that are not -1, which stay the caller's. */
int vmm_link_ask(struct vmm_link *l, struct control_request *request, const int files[CONTROL_FILES]);
/* Accepts NULL; nothing is called any more. */
void vmm_link_free(struct vmm_link *l);

#endif
