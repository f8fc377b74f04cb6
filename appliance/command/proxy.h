/* The HTTP proxy between this machine and the appliance, where the environment names one.
 *
 * The rules are curl's, so that requests and WebSockets take the same way: https_proxy or http_proxy by the URL's
 * scheme, then all_proxy; none for this machine's own addresses, nor for what no_proxy lists (names with all below
 * them, addresses, IPv4 networks as 10.0.0.0/8, or "*").
 */
#ifndef CARREL_PROXY_H
#define CARREL_PROXY_H

#include <stdbool.h>
#include <stddef.h>

bool proxy_is_loopback(const char *url);
/* *ret: "host:port", with "user:password@" before it where there is one; "": none.
 * -ENOTSUP: one that speaks no plain HTTP (SOCKS, TLS), told in *ret; -E2BIG. */
int proxy_find(const char *url, char *ret, size_t size);

#endif
