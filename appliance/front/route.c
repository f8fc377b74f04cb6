#include "route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "handlers.h"
#include "json_in.h"

/* The body of a verb without fields: room for {} and white space. */
enum { EMPTY_BODY_MAX = 1024 };

#define SANDBOX "/v1/sandboxes/{id}"
#define KERNEL "/v1/kernels/{kid}"
#define EXECUTION "/v1/executions/{xid}"
#define JUPYTER "/jupyter/api"

const struct route routes[] = {
	{ "GET", "/healthz", about_health, 0, RIGHTS_NONE, GATE_QUICK },
	{ "GET", "/metrics", about_metrics, 0, RIGHTS_ADMIN, GATE_QUICK },
	{ "GET", "/v1/me", about_me, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", "/v1/stats", about_stats, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", "/v1/templates", about_templates, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", "/v1/templates/{name}", about_template, 0, RIGHTS_KEY, GATE_QUICK },
	{ "POST", "/v1/templates/{name}/build", template_rebuild, EMPTY_BODY_MAX, RIGHTS_ADMIN, GATE_STREAM },
	{ "GET", "/v1/usage", usage_get, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", "/v1/audit", audit_lines, 0, RIGHTS_KEY, GATE_QUICK },
	{ "POST", "/v1/owners", owners_create, JSON_IN_MAX, RIGHTS_ADMIN, GATE_QUICK },
	{ "GET", "/v1/owners", owners_list, 0, RIGHTS_ADMIN, GATE_QUICK },
	{ "PATCH", "/v1/owners/{oid}", owners_change, JSON_IN_MAX, RIGHTS_ADMIN, GATE_QUICK },
	{ "POST", "/v1/owners/{oid}/keys", keys_create, JSON_IN_MAX, RIGHTS_ADMIN, GATE_QUICK },
	{ "GET", "/v1/owners/{oid}/keys", keys_list, 0, RIGHTS_ADMIN, GATE_QUICK },
	{ "DELETE", "/v1/keys/{kid}", keys_delete, 0, RIGHTS_ADMIN, GATE_QUICK },

	{ "POST", "/v1/sandboxes", sandboxes_create, JSON_IN_MAX, RIGHTS_KEY, GATE_START },
	{ "GET", "/v1/sandboxes", sandboxes_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", SANDBOX, sandboxes_get, 0, RIGHTS_KEY, GATE_QUICK },
	{ "DELETE", SANDBOX, sandboxes_delete, 0, RIGHTS_KEY, GATE_VERB },
	{ "POST", SANDBOX "/timeout", sandboxes_timeout, JSON_IN_MAX, RIGHTS_KEY, GATE_VERB },
	{ "POST", SANDBOX "/pause", life_pause, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "POST", SANDBOX "/resume", life_resume, JSON_IN_MAX, RIGHTS_KEY, GATE_VERB },
	{ "POST", SANDBOX "/fork", life_fork, JSON_IN_MAX, RIGHTS_KEY, GATE_START },
	{ "POST", SANDBOX "/snapshots", snapshots_create, JSON_IN_MAX, RIGHTS_KEY, GATE_VERB },
	{ "GET", "/v1/snapshots", snapshots_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", "/v1/snapshots/{id}", snapshots_get, 0, RIGHTS_KEY, GATE_QUICK },
	{ "DELETE", "/v1/snapshots/{id}", snapshots_delete, 0, RIGHTS_KEY, GATE_VERB },

	{ "GET", SANDBOX "/kernels", kernels_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "POST", SANDBOX "/kernels", kernels_create, JSON_IN_MAX, RIGHTS_KEY, GATE_START },
	{ "DELETE", KERNEL, kernels_delete, 0, RIGHTS_KEY, GATE_VERB },
	{ "POST", KERNEL "/restart", kernels_restart, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "POST", KERNEL "/interrupt", kernels_interrupt, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "GET", KERNEL "/connection", kernels_connection, 0, RIGHTS_KEY, GATE_QUICK },

	{ "POST", SANDBOX "/execute", executions_start, JSON_IN_MAX, RIGHTS_KEY, GATE_STREAM },
	{ "GET", SANDBOX "/executions", executions_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", EXECUTION, executions_get, 0, RIGHTS_KEY, GATE_QUICK },
	{ "DELETE", EXECUTION, executions_erase, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", EXECUTION "/stream", executions_stream, 0, RIGHTS_KEY, GATE_STREAM },
	{ "POST", EXECUTION "/interrupt", executions_interrupt, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "GET", EXECUTION "/outputs/{n}/full", executions_full, 0, RIGHTS_KEY, GATE_STREAM },

	{ "PUT", SANDBOX "/files", files_put, 0, RIGHTS_KEY, GATE_STREAM },
	{ "GET", SANDBOX "/files", files_get, 0, RIGHTS_KEY, GATE_STREAM },
	{ "DELETE", SANDBOX "/files", files_delete, 0, RIGHTS_KEY, GATE_STREAM },
	{ "GET", SANDBOX "/files/list", files_list, 0, RIGHTS_KEY, GATE_VERB },

	{ "POST", SANDBOX "/processes", processes_run, JSON_IN_MAX, RIGHTS_KEY, GATE_STREAM },

	{ "GET", JUPYTER "/kernels", jupyter_kernels_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "POST", JUPYTER "/kernels", jupyter_kernels_create, JSON_IN_MAX, RIGHTS_KEY, GATE_START },
	{ "GET", JUPYTER "/kernels/{kid}", jupyter_kernels_get, 0, RIGHTS_KEY, GATE_QUICK },
	{ "DELETE", JUPYTER "/kernels/{kid}", jupyter_kernels_delete, 0, RIGHTS_KEY, GATE_VERB },
	{ "POST", JUPYTER "/kernels/{kid}/interrupt", jupyter_kernels_interrupt, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "POST", JUPYTER "/kernels/{kid}/restart", jupyter_kernels_restart, EMPTY_BODY_MAX, RIGHTS_KEY, GATE_VERB },
	{ "GET", JUPYTER "/kernelspecs", jupyter_specs_list, 0, RIGHTS_KEY, GATE_QUICK },
	{ "GET", JUPYTER "/kernelspecs/{name}", jupyter_specs_get, 0, RIGHTS_KEY, GATE_QUICK },
};

const size_t route_count = sizeof(routes) / sizeof(routes[0]);

void routes_print(FILE *out)
{
	static const char *const rights[] = {
		[RIGHTS_NONE] = "none", [RIGHTS_KEY] = "key", [RIGHTS_ADMIN] = "admin"
	};

	for (size_t i = 0; i < route_count; i++)
		fprintf(out, "%s %s %s %zu\n", routes[i].method, routes[i].pattern, rights[routes[i].rights],
			routes[i].body_max);
}

/* Ids name rows and directories: what could never be one names nothing. */
static bool id_ok(const char *s)
{
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return len > 0 && len < STORE_ID_MAX && s[len] == '\0';
}

static bool number_ok(const char *s)
{
	size_t len = strspn(s, "0123456789");

	return len > 0 && len <= 6 && s[len] == '\0';
}

static bool segment_match(const char *pattern, size_t len, const char *segment, const char ***capture)
{
	if (*pattern != '{')
		return strlen(segment) == len && !memcmp(pattern, segment, len);
	if (!(pattern[1] == 'n' && pattern[2] == '}' ? number_ok(segment) : id_ok(segment)))
		return false;
	*(*capture)++ = segment;
	return true;
}

static bool pattern_match(const char *pattern, const struct target *t, const char **captures)
{
	for (unsigned i = 0; i < t->segment_count; i++) {
		size_t len;

		if (*pattern++ != '/')
			return false;
		len = strcspn(pattern, "/");
		if (!segment_match(pattern, len, t->segments[i], &captures))
			return false;
		pattern += len;
	}
	return *pattern == '\0';
}

int route_find(const char *method, const struct target *t, struct route_match *ret)
{
	struct route_match m = { .route = NULL };

	if (!strcmp(method, "HEAD"))
		method = "GET";
	for (size_t i = 0; i < route_count; i++) {
		const char *captures[ROUTE_CAPTURES_MAX] = { NULL };

		if (!pattern_match(routes[i].pattern, t, captures))
			continue;
		if (!strcmp(routes[i].method, method)) {
			m.route = &routes[i];
			memcpy(m.captures, captures, sizeof(captures));
			*ret = m;
			return 0;
		}
		snprintf(m.allow + strlen(m.allow), sizeof(m.allow) - strlen(m.allow), "%s%s%s",
			 *m.allow ? ", " : "", routes[i].method,
			 strcmp(routes[i].method, "GET") ? "" : ", HEAD");
	}
	if (!*m.allow)
		return -ENOENT;
	*ret = m;
	return -EPERM;
}
