/* Owners and keys. A key is 256 random bits and only its SHA-256 is stored, so a
 * stolen database opens nothing and a lookup by hash tells a clock nothing. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ids.h"
#include "reader.h"

enum { KEY_RANDOM_BYTES = 32 };

static void key_hash(const char *key, uint8_t ret[SHA256_DIGEST_LENGTH])
{
	SHA256((const unsigned char *)key, strlen(key), ret);
}

static void key_make(char ret[STORE_KEY_MAX])
{
	uint8_t random[KEY_RANDOM_BYTES];
	int at = snprintf(ret, STORE_KEY_MAX, "e2b_");

	_Static_assert(4 + 2 * KEY_RANDOM_BYTES < STORE_KEY_MAX, "a key fits");
	random_fill(random, sizeof(random));
	for (unsigned i = 0; i < sizeof(random); i++)
		at += snprintf(ret + at, STORE_KEY_MAX - at, "%02x", random[i]);
	explicit_bzero(random, sizeof(random));
}

int store_key_check(struct store *s, const char *key, char ret_owner[STORE_ID_MAX], char ret_id[STORE_ID_MAX],
		    bool *ret_admin)
{
	static const char sql[] = "SELECT owner_id, admin, id FROM keys WHERE hash = ?1 AND revoked_ms IS NULL"
				  " AND (expires_ms IS NULL OR expires_ms > ?2)";
	uint8_t hash[SHA256_DIGEST_LENGTH];
	struct query q;
	int err = query_begin(&q, s, sql);

	if (err)
		return err;
	key_hash(key, hash);
	query_blob(&q, hash, sizeof(hash));
	query_int(&q, now_ms());
	err = query_step(&q);
	if (err == 1) {
		snprintf(ret_owner, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
		*ret_admin = sqlite3_column_int(q.st, 1);
		snprintf(ret_id, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 2));
		err = 0;
	} else if (err == 0) {
		err = -EACCES;
	}
	query_end(&q);
	return err;
}

static void txn_key(struct store_txn *t, const char *id, const char *owner_id, const char *name,
		    const char *key, bool admin, int64_t expires_ms)
{
	static const char sql[] = "INSERT INTO keys (id, owner_id, name, hash, admin, created_ms, expires_ms)"
				  " VALUES (?, ?, ?, ?, ?, ?, ?)";
	uint8_t hash[SHA256_DIGEST_LENGTH];
	struct step *step = txn_row(t, sql);

	key_hash(key, hash);
	step_text(t, step, id);
	step_text(t, step, owner_id);
	step_text(t, step, name);
	step_blob(t, step, hash, sizeof(hash));
	step_int(step, admin);
	step_int(step, now_ms());
	step_int_or_null(step, expires_ms, 0);
}

int store_key_new(struct store *s, const char *by, const char *owner_id, const char *name, bool admin,
		  int64_t expires_ms, char ret_id[STORE_ID_MAX], char ret_key[STORE_KEY_MAX], struct fault *f)
{
	struct store_txn *t = store_txn_new(s);
	char id[STORE_ID_MAX], key[STORE_KEY_MAX];
	json_t *detail;
	int err;

	id_new("key", id);
	key_make(key);
	detail = json_pack("{s:s, s:s}", "key_id", id, "owner_id", owner_id);
	txn_key(t, id, owner_id, name, key, admin, expires_ms);
	store_txn_audit(t, by, NULL, "key_new", detail);
	err = store_txn_wait(t, f);
	json_decref(detail);
	if (err)
		return err;
	memcpy(ret_id, id, STORE_ID_MAX);
	memcpy(ret_key, key, STORE_KEY_MAX);
	return 0;
}

static int token_path(const char *state_dir, const char *suffix, char ret[STORE_PATH_MAX])
{
	return snprintf(ret, STORE_PATH_MAX, "%s/token%s", state_dir, suffix);
}

static bool token_key_lives(struct store *s)
{
	static const char sql[] = "SELECT 1 FROM keys WHERE name = 'token file' AND revoked_ms IS NULL";
	struct query q;
	int got;

	if (query_begin(&q, s, sql) < 0)
		return false;
	got = query_step(&q);
	query_end(&q);
	return got == 1;
}

/* True when the file holds a key that opens the store; or may: once it was given
 * to the person who started the appliance, carreld may not be able to read it. */
static bool token_works(struct store *s, const char *state_dir)
{
	char path[STORE_PATH_MAX], key[STORE_KEY_MAX] = "", owner[STORE_ID_MAX], id[STORE_ID_MAX];
	bool admin = false;
	FILE *file;

	token_path(state_dir, "", path);
	file = fopen(path, "re");
	if (!file)
		return errno == EACCES && token_key_lives(s);
	if (!fgets(key, sizeof(key), file))
		key[0] = '\0';
	fclose(file);
	key[strcspn(key, "\r\n")] = '\0';
	return key[0] && store_key_check(s, key, owner, id, &admin) == 0 && admin;
}

static int token_write_temp(const char *path, const char *key)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) < 0 || dprintf(fd, "%s\n", key) < 0 || fsync(fd) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int token_write(const char *state_dir, const char *key, struct fault *f)
{
	char temp[STORE_PATH_MAX], path[STORE_PATH_MAX];
	int dir, err;

	token_path(state_dir, ".new", temp);
	token_path(state_dir, "", path);
	err = token_write_temp(temp, key);
	if (!err && rename(temp, path) < 0)
		err = -errno;
	dir = err ? -1 : open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!err && (dir < 0 || fsync(dir) < 0))
		err = -errno;
	if (dir >= 0)
		close(dir);
	if (!err)
		return 0;
	unlink(temp);
	return fault_set(f, -err, 500, "token_not_written", "The key file %s cannot be written: %s.", path,
			 strerror(-err));
}

/* The owner's id; a new one when there is none yet. */
static int admin_owner(struct store *s, char ret[STORE_ID_MAX], bool *ret_new)
{
	static const char sql[] = "SELECT id FROM owners WHERE name = 'admin' ORDER BY created_ms LIMIT 1";
	struct query q;
	int got = query_begin(&q, s, sql);

	if (got)
		return got;
	got = query_step(&q);
	*ret_new = got != 1;
	if (got == 1)
		snprintf(ret, STORE_ID_MAX, "%s", (const char *)sqlite3_column_text(q.st, 0));
	else
		id_new("own", ret);
	query_end(&q);
	return got < 0 ? got : 0;
}

int store_first_owner(struct store *s, const char *state_dir, struct fault *f)
{
	static const char new_owner[] = "INSERT INTO owners (id, name, created_ms) VALUES (?, 'admin', ?)";
	/* Who removes the file means its key to be gone. */
	static const char revoke[] =
		"UPDATE keys SET revoked_ms = ? WHERE name = 'token file' AND revoked_ms IS NULL";
	char owner[STORE_ID_MAX], id[STORE_ID_MAX], key[STORE_KEY_MAX];
	struct store_txn *t;
	struct step *step;
	bool new;
	int err;

	if (token_works(s, state_dir))
		return 0;
	err = admin_owner(s, owner, &new);
	if (err)
		return fault_set(f, -err, 500, "store_failed", "The owners cannot be read: %s.",
				 strerror(-err));
	id_new("key", id);
	key_make(key);
	t = store_txn_new(s);
	step = new ? txn_row(t, new_owner) : NULL;
	step_text(t, step, owner);
	step_int(step, now_ms());
	step = txn_row(t, revoke);
	step_int(step, now_ms());
	txn_key(t, id, owner, "token file", key, true, 0);
	store_txn_audit(t, owner, NULL, "first_key", NULL);
	err = store_txn_wait(t, f);
	return err ? err : token_write(state_dir, key, f);
}
