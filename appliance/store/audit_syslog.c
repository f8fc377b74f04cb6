#include "audit_syslog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "reader.h"

enum {
	PAGE = 200,       /* rows between two notes of where it stands */
	AGAIN_S = 1,      /* until a daemon that was away or full is tried again */
	MESSAGE_MAX = 8000, /* what rsyslog takes by default, with its header */
};

struct audit_syslog {
	struct store *store;
	struct sockaddr_un to;
	int fd; /* -1: not connected */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool news, stopping;
	bool away; /* said once, not at each try */
};

static void on_commit(void *arg)
{
	struct audit_syslog *a = arg;

	pthread_mutex_lock(&a->lock);
	a->news = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

static int reconnect(struct audit_syslog *a)
{
	struct timeval patience = { .tv_sec = AGAIN_S };

	if (a->fd >= 0)
		close(a->fd);
	a->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (a->fd < 0)
		return -errno;
	/* A daemon that is behind makes this thread wait, and a stop of carreld no longer than that. */
	setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(a->fd, (struct sockaddr *)&a->to, sizeof(a->to)) == 0)
		return 0;
	close(a->fd);
	a->fd = -1;
	return -ENOTCONN;
}

/* Long details are left out, and the row says so: the table has them. */
static char *message_of(json_t *row)
{
	char stamp[32], *json = json_dumps(row, JSON_COMPACT | JSON_ENSURE_ASCII), *message = NULL;
	time_t now = time(NULL);
	struct tm tm;

	if (json && strlen(json) > MESSAGE_MAX) {
		free(json);
		json_object_set_new(row, "detail", json_pack("{s:b}", "too_long", 1));
		json = json_dumps(row, JSON_COMPACT | JSON_ENSURE_ASCII);
	}
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%b %e %T", &tm);
	if (json && asprintf(&message, "<%d>%s carrel-audit[%d]: %s", LOG_AUTHPRIV | LOG_INFO, stamp, getpid(), json) < 0)
		message = NULL;
	free(json);
	return message;
}

static int row_send(struct audit_syslog *a, json_t *row)
{
	char *message = message_of(row);
	int err = message ? 0 : -ENOMEM;

	for (int tries = 0; !err && tries < 2; tries++) {
		if (a->fd >= 0 && send(a->fd, message, strlen(message), MSG_NOSIGNAL) >= 0)
			break;
		/* Full: its turn comes again. Gone: a new one may listen there. */
		err = a->fd >= 0 && (errno == EAGAIN || errno == ENOBUFS) ? -errno : tries ? -EIO : reconnect(a);
	}
	free(message);
	return err;
}

/* Rows from *at on, until none is left or one does not go. */
static int page_send(struct audit_syslog *a, int64_t *at)
{
	static const char sql[] = AUDIT_SELECT " WHERE seq > ? ORDER BY seq LIMIT ?";
	struct query q;
	json_t *row;
	int got, err = query_begin(&q, a->store, sql);

	if (err)
		return err;
	query_int(&q, *at);
	query_int(&q, PAGE);
	while ((got = query_step(&q)) == 1) {
		int64_t seq = sqlite3_column_int64(q.st, 0);

		got = query_row(&q, &row);
		if (got)
			break;
		got = row_send(a, row);
		json_decref(row);
		if (got)
			break;
		*at = seq;
	}
	query_end(&q);
	return got;
}

static int position_get(struct store *s, int64_t *ret)
{
	static const char sql[] = "SELECT syslogged FROM sweep";
	struct query q;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	got = query_step(&q);
	if (got == 1)
		*ret = sqlite3_column_int64(q.st, 0);
	query_end(&q);
	return got == 1 ? 0 : got < 0 ? got : -EUCLEAN;
}

static int position_set(struct store *s, int64_t at)
{
	static const char sql[] = "UPDATE sweep SET syslogged = ?";
	struct store_txn *t = store_txn_new(s);
	struct fault f;

	store_txn_soft(t);
	step_int(txn_row(t, sql), at);
	return store_txn_wait(t, &f);
}

/* All there is. False: to be tried again. */
static bool follow(struct audit_syslog *a)
{
	int64_t at = 0, before;
	int err = position_get(a->store, &at);

	do {
		before = at;
		if (!err)
			err = page_send(a, &at);
		if (at != before)
			position_set(a->store, at);
	} while (!err && at != before);
	if (err && !a->away)
		fprintf(stderr, "carreld: audit: %s takes nothing now (%s); it is tried again.\n", a->to.sun_path,
			strerror(-err));
	a->away = err != 0;
	return err == 0;
}

static void *syslog_main(void *arg)
{
	struct audit_syslog *a = arg;
	bool stopping, done = false;
	struct timespec until;

	do {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += AGAIN_S;
		pthread_mutex_lock(&a->lock);
		while (!a->news && !a->stopping) {
			if (done)
				pthread_cond_wait(&a->wake, &a->lock);
			else if (pthread_cond_timedwait(&a->wake, &a->lock, &until) == ETIMEDOUT)
				break;
		}
		a->news = false;
		stopping = a->stopping;
		pthread_mutex_unlock(&a->lock);
		done = follow(a);
	} while (!stopping);
	return NULL;
}

int audit_syslog_start(struct store *s, const char *path, struct audit_syslog **ret)
{
	struct audit_syslog *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	*a = (struct audit_syslog){ .store = s, .to.sun_family = AF_UNIX, .fd = -1, .news = true };
	snprintf(a->to.sun_path, sizeof(a->to.sun_path), "%s", path);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	err = pthread_create(&a->thread, NULL, syslog_main, a);
	if (err) {
		free(a);
		return -err;
	}
	store_on_commit(s, on_commit, a);
	*ret = a;
	return 0;
}

void audit_syslog_stop(struct audit_syslog *a)
{
	if (!a)
		return;
	store_on_commit(a->store, NULL, NULL);
	pthread_mutex_lock(&a->lock);
	a->stopping = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	if (a->fd >= 0)
		close(a->fd);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->wake);
	free(a);
}
