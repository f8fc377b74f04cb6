/* Who may open a WebSocket: the key, the kernel, the owner. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../front/auth.h"
#include "../store/ids.h"
#include "door_inner.h"

/* name: with its "="; false: it is not there, or too long. */
static bool query_of(struct lws *wsi, const char *name, char *ret, size_t size)
{
	char text[512];
	const char *value = lws_get_urlarg_by_name(wsi, name, text, sizeof(text));

	return value && (size_t)snprintf(ret, size, "%s", value) < size;
}

/* As front/auth.c for FastCGI; a browser cannot send headers with a WebSocket, so the key may stand in the
 * query, which is never logged. */
static bool key_of(struct lws *wsi, char *ret, size_t size)
{
	static const char *const schemes[] = { "Bearer ", "token " };
	char header[AUTH_KEY_MAX + 16];
	size_t i;

	if (lws_hdr_copy(wsi, header, sizeof(header), WSI_TOKEN_HTTP_AUTHORIZATION) > 0) {
		for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
			size_t len = strlen(schemes[i]);

			if (strncasecmp(header, schemes[i], len) != 0)
				continue;
			return (size_t)snprintf(ret, size, "%s", header + len + strspn(header + len, " ")) <
			       size;
		}
	}
	return query_of(wsi, "token=", ret, size);
}

/* "/jupyter/api/kernels/ID/channels" */
static bool kernel_id_of(struct lws *wsi, char ret[STORE_ID_MAX])
{
	static const char before[] = "/jupyter/api/kernels/", after[] = "/channels";
	char path[256];
	size_t len;

	if (lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_GET_URI) <= 0 ||
	    strncmp(path, before, sizeof(before) - 1) != 0)
		return false;
	len = strcspn(path + sizeof(before) - 1, "/");
	if (len >= STORE_ID_MAX || strcmp(path + sizeof(before) - 1 + len, after) != 0)
		return false;
	snprintf(ret, STORE_ID_MAX, "%.*s", (int)len, path + sizeof(before) - 1);
	return id_valid(ret);
}

struct kernel *connection_kernel(const struct connection *c)
{
	return kernel_of_owner(c->door->core, c->owner, c->kernel_id);
}

static void session_of(struct lws *wsi, struct connection *c)
{
	char number[24];

	if (!query_of(wsi, "session_id=", c->session, sizeof(c->session)) || !c->session[0])
		id_new("session", c->session);
	if (query_of(wsi, "carrel_received=", number, sizeof(number))) {
		c->resumes = true;
		c->received = strtoull(number, NULL, 10);
	}
}

int upgrade_check(struct door *d, struct lws *wsi, struct connection **ret)
{
	char key[AUTH_KEY_MAX + 1] = "";
	struct connection *c;
	struct kernel *k;
	bool admin;

	if (d->stopping || d->count >= DOOR_CONNECTIONS_MAX)
		return HTTP_STATUS_SERVICE_UNAVAILABLE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return HTTP_STATUS_SERVICE_UNAVAILABLE;
	c->door = d;
	c->wsi = wsi;
	/* A read of one indexed row, a tenth of a millisecond: the hub can afford it once a connection. */
	if (!key_of(wsi, key, sizeof(key)) || store_key_check(d->store, key, c->owner, c->key_id, &admin) < 0) {
		free(c);
		return HTTP_STATUS_FORBIDDEN;
	}
	k = kernel_id_of(wsi, c->kernel_id) ? connection_kernel(c) : NULL;
	if (!k) {
		free(c);
		return HTTP_STATUS_NOT_FOUND;
	}
	snprintf(c->sandbox_id, sizeof(c->sandbox_id), "%s", k->sandbox->id);
	session_of(wsi, c);
	c->next = d->connections;
	d->connections = c;
	d->count++;
	*ret = c;
	return 0;
}

void connection_free(struct connection *c)
{
	struct connection **at = &c->door->connections;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->door->count--;
	buf_free(&c->in);
	free(c);
}
