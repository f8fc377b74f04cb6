#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	DEFAULT_PORT = 1080, /* curl's, where the variable has none */
};

static const char *host_of(const char *url)
{
	const char *host = strstr(url, "://");

	return host ? host + 3 : url;
}

/* Without the brackets of an IPv6 address. */
static size_t host_length(const char **host)
{
	if (**host != '[')
		return strcspn(*host, ":/");
	(*host)++;
	return strcspn(*host, "]");
}

bool proxy_is_loopback(const char *url)
{
	const char *host = host_of(url);
	size_t len = host_length(&host);

	return strncmp(host, "127.", 4) == 0 || (len == 3 && strncmp(host, "::1", 3) == 0) ||
	       (len == 9 && strncasecmp(host, "localhost", 9) == 0);
}

/* -- no_proxy -- */

static bool in_network(const char *entry, const char *host)
{
	char network[INET_ADDRSTRLEN];
	const char *slash = strchr(entry, '/');
	struct in_addr address, base;
	int bits = slash ? atoi(slash + 1) : 0;

	if (bits < 1 || bits > 32 || (size_t)(slash - entry) >= sizeof(network))
		return false;
	snprintf(network, sizeof(network), "%.*s", (int)(slash - entry), entry);
	if (inet_pton(AF_INET, network, &base) != 1 || inet_pton(AF_INET, host, &address) != 1)
		return false;
	return (ntohl(address.s_addr) ^ ntohl(base.s_addr)) >> (32 - bits) == 0;
}

static bool entry_fits(const char *entry, const char *host)
{
	size_t len, host_len = strlen(host);

	entry += *entry == '.';
	len = strlen(entry);
	if (strcmp(entry, "*") == 0 || in_network(entry, host))
		return true;
	if (!len || len > host_len || strcasecmp(host + host_len - len, entry) != 0)
		return false;
	return len == host_len || host[host_len - len - 1] == '.';
}

static bool is_listed(const char *list, const char *host)
{
	char *copy = strdup(list), *rest = copy, *entry;
	bool found = false;

	while (!found && (entry = strsep(&rest, ", ")) != NULL)
		found = entry_fits(entry, host);
	free(copy);
	return found;
}

/* -- the proxy -- */

static const char *variable(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	if ((!value || !*value) && upper)
		value = getenv(upper);
	return value && *value ? value : NULL;
}

static const char *named(const char *url)
{
	bool tls = strncasecmp(url, "https:", 6) == 0;
	/* HTTP_PROXY is a header that a client sent, where this runs in a CGI script. */
	const char *proxy = tls ? variable("https_proxy", "HTTPS_PROXY") : variable("http_proxy", NULL);

	return proxy ? proxy : variable("all_proxy", "ALL_PROXY");
}

static bool is_direct(const char *url)
{
	const char *list = variable("no_proxy", "NO_PROXY"), *host = host_of(url);
	size_t len = host_length(&host);
	char name[256];

	if (proxy_is_loopback(url))
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)len, host);
	return list && is_listed(list, name);
}

int proxy_find(const char *url, char *ret, size_t size)
{
	const char *proxy = is_direct(url) ? NULL : named(url), *at, *host;
	int n;

	ret[0] = '\0';
	if (!proxy)
		return 0;
	at = host_of(proxy);
	if (at != proxy && strncasecmp(proxy, "http://", 7) != 0) {
		snprintf(ret, size, "%s", proxy);
		return -ENOTSUP;
	}
	host = strrchr(at, '@') ? strrchr(at, '@') + 1 : at;
	host += *host == '[' ? strcspn(host, "]") : 0;
	n = strchr(host, ':') ? snprintf(ret, size, "%.*s", (int)strcspn(at, "/"), at) :
				snprintf(ret, size, "%.*s:%d", (int)strcspn(at, "/"), at, DEFAULT_PORT);
	return (size_t)n < size ? 0 : -E2BIG;
}
