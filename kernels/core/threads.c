#include "core/threads.h"

#include <signal.h>

enum {
	/* A chunk of text and a packed message on the stack, and libzmq's own use;
	 * the default of 8 MiB counts against a small guest's overcommit. */
	THREAD_STACK = 512 * 1024,
};

int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg, int policy)
{
	const struct sched_param priority = { 0 };
	sigset_t all, old;
	pthread_attr_t attr;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, policy);
	pthread_attr_setschedparam(&attr, &priority);
	err = pthread_create(ret, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	pthread_setname_np(*ret, name);
	return 0;
}

int thread_start_user(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg)
{
	sigset_t none;
	pthread_attr_t attr;
	int err;

	sigemptyset(&none);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &none);
	err = pthread_create(ret, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	if (err)
		return -err;
	pthread_setname_np(*ret, name);
	return 0;
}
