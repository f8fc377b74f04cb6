#include "router.h"

#include "agent.h"
#include "events.h"
#include "files.h"
#include "health.h"
#include "identity.h"
#include "kernel.h"
#include "process.h"
#include "stats.h"
#include "util.h"

static void not_found(struct request *rq)
{
	request_fail(rq, 404, "not_found", "There is no such route.");
}

static void wrong_method(struct request *rq)
{
	request_fail(rq, 405, "bad_request", "This route does not take that method.");
}

static void bad_id(struct request *rq)
{
	request_fail(rq, 404, "not_found", "There is nothing under that id.");
}

static const struct route routes[] = {
	{ "GET", "/health", ROUTE_NONE, health_get },
	{ "PUT", "/identity", ROUTE_JSON, identity_put },
	{ "PUT", "/clock", ROUTE_JSON, identity_put_clock },
	{ "POST", "/kernels", ROUTE_JSON, kernel_post },
	{ "GET", "/kernels", ROUTE_NONE, kernel_list },
	{ "DELETE", "/kernels/{id}", ROUTE_NONE, kernel_delete },
	{ "POST", "/kernels/{id}/interrupt", ROUTE_NONE, kernel_interrupt },
	{ "POST", "/kernels/{id}/restart", ROUTE_NONE, kernel_restart },
	{ "POST", "/kernels/{id}/channel", ROUTE_STREAM, kernel_attach },
	{ "POST", "/processes", ROUTE_JSON, process_post },
	{ "POST", "/processes/{id}/channel", ROUTE_STREAM, process_attach },
	{ "POST", "/processes/{id}/signal", ROUTE_JSON, process_signal },
	{ "DELETE", "/processes/{id}", ROUTE_NONE, process_delete },
	{ "PUT", "/files", ROUTE_STREAM, files_put },
	{ "GET", "/files", ROUTE_STREAM, files_get },
	{ "DELETE", "/files", ROUTE_NONE, files_delete },
	{ "GET", "/files/list", ROUTE_NONE, files_list },
	{ "GET", "/stats", ROUTE_NONE, stats_get },
	{ "POST", "/freeze", ROUTE_NONE, health_freeze },
	{ "POST", "/events/channel", ROUTE_STREAM, events_attach },
};

static const struct route none = { .body = ROUTE_NONE, .handler = not_found };
static const struct route method = { .body = ROUTE_NONE, .handler = wrong_method };
static const struct route id_wrong = { .body = ROUTE_NONE, .handler = bad_id };

/* id: room for AGENT_ID_MAX + 1, filled where the pattern has "{id}"; an id
 * that cannot be one becomes "". */
static bool path_matches(const char *pattern, const char *path, char *id)
{
	while (*pattern && *path) {
		if (strncmp(pattern, "{id}", 4) == 0) {
			size_t len = strcspn(path, "/");

			if (len <= AGENT_ID_MAX) {
				memcpy(id, path, len);
				id[len] = '\0';
			}
			pattern += 4;
			path += len;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return !*pattern && !*path;
}

void router_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	char id[AGENT_ID_MAX + 1] = "";
	const struct route *found = &none;
	size_t i;

	(void)l;
	for (i = 0; i < ARRAY_SIZE(routes); i++) {
		if (!path_matches(routes[i].path, rq->path, id))
			continue;
		found = &method;
		if (strcmp(routes[i].method, rq->method) != 0)
			continue;
		found = strstr(routes[i].path, "{id}") && !id_is_valid(id) ? &id_wrong : &routes[i];
		break;
	}
	request_new(arg, st, found, id, rq->query);
}
