/* A connection to a unix socket by its path: non-blocking, closed at exec. */
#ifndef CARREL_CONNECT_H
#define CARREL_CONNECT_H

/* type: SOCK_STREAM or SOCK_SEQPACKET. The descriptor, or a negative errno. */
int connect_path(const char *path, int type);

#endif
