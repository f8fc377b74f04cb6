/* What a language publishes. */
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void core_flush(struct core *c)
{
	capture_drain(&c->capture);
}

bool core_wait_room(struct core *c)
{
	/* Only while a client does not read: how long a waiting print may take to
	 * notice an interrupt that came as a plain signal. */
	return iopub_wait_room(&c->iopub, 100) == 0;
}

int core_publish_about(struct core *c, struct parent *parent, bool quiet, const char *type, json_t *content,
		       json_t *metadata, struct iopub_buffer *buffers, size_t n_buffers)
{
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	char *meta = metadata ? json_dumps(metadata, JSON_COMPACT) : NULL;
	size_t i;

	json_decref(content);
	json_decref(metadata);
	capture_drain(&c->capture);
	if (text && !quiet)
		return iopub_put(&c->iopub, type, parent, text, strlen(text), meta, buffers, n_buffers);
	for (i = 0; i < n_buffers; i++)
		free(buffers[i].data);
	free(buffers);
	free(meta);
	free(text);
	return quiet ? 0 : -ENOMEM;
}

int core_publish(struct core *c, const char *type, json_t *content, json_t *metadata,
		 struct iopub_buffer *buffers, size_t n_buffers)
{
	bool quiet;
	struct parent *parent = capture_parent(&c->capture, &quiet);
	int err = core_publish_about(c, parent, quiet, type, content, metadata, buffers, n_buffers);

	parent_unref(parent);
	return err;
}

int core_put_text(struct core *c, int stream, struct parent *parent, const char *text, size_t len)
{
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO clean = { 0 };
	size_t n;
	int err = 0;

	capture_drain(&c->capture);
	while (len > 0 && !err) {
		n = len < CAPTURE_CHUNK ? len : CAPTURE_CHUNK;
		utf8_feed(&u, text, n, &clean);
		text += n;
		len -= n;
		if (len == 0)
			utf8_end(&u, &clean);
		if (clean.len > 0)
			err = iopub_put_text(&c->iopub, stream, parent, clean.data, clean.len);
		clean.len = 0;
	}
	return clean.failed ? -ENOMEM : err;
}
