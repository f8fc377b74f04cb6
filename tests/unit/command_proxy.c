/* UNIT: appliance/command/proxy.c LIBS: */
/* Which proxy the environment names for which appliance, as curl would take it. */
#include "../../appliance/command/proxy.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

static const char *const names[] = { "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", NULL };

static const struct row {
	const char *name, *value, *no_proxy, *url, *want;
	int code;
} rows[] = {
	{ "http_proxy", "http://p:3128", "", "http://carrel.example", "p:3128", 0 },
	{ "http_proxy", "http://p:3128/", "", "http://carrel.example:80/x", "p:3128", 0 },
	{ "http_proxy", "p:3128", "", "https://carrel.example", "", 0 },
	{ "HTTP_PROXY", "p:3128", "", "http://carrel.example", "", 0 },
	{ "https_proxy", "http://u:s@p", "", "https://carrel.example", "u:s@p:1080", 0 },
	{ "HTTPS_PROXY", "http://[fd00::1]:80", "", "https://carrel.example", "[fd00::1]:80", 0 },
	{ "HTTPS_PROXY", "[fd00::1]", "", "https://carrel.example", "[fd00::1]:1080", 0 },
	{ "ALL_PROXY", "p:1", "", "http://carrel.example", "p:1", 0 },
	{ "all_proxy", "socks5://p:1", "", "http://carrel.example", "socks5://p:1", -ENOTSUP },
	{ "all_proxy", "https://p:1", "", "http://carrel.example", "https://p:1", -ENOTSUP },
	{ "all_proxy", "socks5://p:1", "", "http://127.1.2.3:8080", "", 0 },
	{ "all_proxy", "p:1", "", "https://[::1]:8080", "", 0 },
	{ "all_proxy", "p:1", "", "https://localhost", "", 0 },
	{ "all_proxy", "p:1", "", "https://localhost.example", "p:1", 0 },
	{ "all_proxy", "p:1", "*", "https://carrel.example", "", 0 },
	{ "all_proxy", "p:1", "other, .example", "https://carrel.example:8443/a", "", 0 },
	{ "all_proxy", "p:1", "CARREL.example", "https://carrel.example", "", 0 },
	{ "all_proxy", "p:1", "arrel.example", "https://carrel.example", "p:1", 0 },
	{ "all_proxy", "p:1", ",,", "https://carrel.example", "p:1", 0 },
	{ "all_proxy", "p:1", "10.0.0.0/8", "https://10.9.8.7", "", 0 },
	{ "all_proxy", "p:1", "10.0.0.0/8", "https://11.9.8.7", "p:1", 0 },
	{ "all_proxy", "p:1", "0.0.0.0/0,x/99,/8", "https://11.9.8.7", "p:1", 0 },
	{ "all_proxy", "p:1", "fd00::1", "https://[fd00::1]:8443", "", 0 },
};

int main(void)
{
	char got[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		for (size_t n = 0; names[n]; n++)
			unsetenv(names[n]);
		setenv(rows[i].name, rows[i].value, 1);
		setenv("no_proxy", rows[i].no_proxy, 1);
		if (proxy_find(rows[i].url, got, sizeof(got)) != rows[i].code || strcmp(got, rows[i].want) != 0) {
			fprintf(stderr, "row %zu: got \"%s\", want \"%s\"\n", i, got, rows[i].want);
			CHECK(false);
		}
	}
	setenv("all_proxy", "a-long-name:8080", 1);
	CHECK(proxy_find("https://carrel.example", got, 8) == -E2BIG);
	return 0;
}
