/* Ctrl-C and friends as something to wait for. */
#ifndef CARREL_SIGNALS_H
#define CARREL_SIGNALS_H

/* Catches SIGINT, SIGTERM and SIGHUP from now on; ignores SIGPIPE. 0 or a negative errno. */
int signals_init(void);
/* Readable when a signal came. */
int signals_fd(void);
/* The oldest signal that came, or 0. */
int signals_take(void);

#endif
