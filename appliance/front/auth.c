#include "auth.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "../store/audit.h"

static const char *auth_key(const struct request *r)
{
	static const char scheme[] = "Bearer ", jupyter[] = "token ";
	const char *bearer = FCGX_GetParam("HTTP_AUTHORIZATION", r->fcgi->envp), *key;
	bool is_jupyter = !strcmp(r->target.segments[0], "jupyter");
	struct fault ignored;

	if (bearer && !strncasecmp(bearer, scheme, sizeof(scheme) - 1))
		return bearer + sizeof(scheme) - 1 + strspn(bearer + sizeof(scheme) - 1, " ");
	if (bearer && is_jupyter && !strncasecmp(bearer, jupyter, sizeof(jupyter) - 1))
		return bearer + sizeof(jupyter) - 1 + strspn(bearer + sizeof(jupyter) - 1, " ");
	key = FCGX_GetParam("HTTP_X_API_KEY", r->fcgi->envp);
	/* Jupyter's way where no header can be sent; the query is never logged. */
	if (!key && is_jupyter && target_query(&r->target, "token", &key, &ignored) < 0)
		return NULL;
	return key;
}

int auth_check(struct request *r, struct fault *f)
{
	const char *key = auth_key(r);
	int err;

	if (r->route->rights == RIGHTS_NONE)
		return 0;
	if (!key || !*key)
		return fault_set(
			f, EACCES, 401, "unauthorized",
			"A key is needed: send \"Authorization: Bearer KEY\" or \"X-API-KEY: KEY\".");
	err = strnlen(key, AUTH_KEY_MAX + 1) > AUTH_KEY_MAX
		      ? -EACCES
		      : store_key_check(r->store, key, r->owner, r->key_id, &r->admin);
	if (err == -EACCES)
		return fault_set(f, EACCES, 401, "unauthorized", "This key is unknown, expired or revoked.");
	if (err)
		return fault_set(f, -err, 500, "store_failed", "The keys could not be read: %s.",
				 strerror(-err));
	audit_asker_set(r->key_id);
	store_key_used(r->store, r->key_id, r->owner, request_address(r));
	if (r->route->rights == RIGHTS_ADMIN && !r->admin)
		return fault_set(f, EACCES, 403, "forbidden", "This needs an admin key.");
	return 0;
}
