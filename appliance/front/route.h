/* The routes: one row each, from which 404, 405 with Allow, the body's bound,
 * rights and the gate follow. */
#ifndef CARREL_FRONT_ROUTE_H
#define CARREL_FRONT_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "front.h"
#include "target.h"

struct request;

enum rights {
	RIGHTS_NONE,
	RIGHTS_KEY,
	RIGHTS_ADMIN,
};

struct route {
	const char *method;
	const char *pattern; /* {id}, {xid}, …: an id; {n}: a number */
	int (*handle)(struct request *r, struct fault *f);
	size_t body_max; /* JSON bytes; 0: the handler reads no JSON */
	enum rights rights;
	enum gate gate;
};

extern const struct route routes[];
extern const size_t route_count;

/* One line a route: method, pattern, rights, bytes of JSON. */
void routes_print(FILE *out);

enum { ROUTE_CAPTURES_MAX = 2 };

struct route_match {
	const struct route *route;
	const char *captures[ROUTE_CAPTURES_MAX]; /* borrowed from the target */
	char allow[64];                           /* with -EPERM: the methods of the path */
};

/* 0; -ENOENT: no such path; -EPERM: not with this method. HEAD counts as GET. */
int route_find(const char *method, const struct target *t, struct route_match *ret);

#endif
