#include "schema.h"

/* clang-format off */
/* Times are Unix milliseconds in *_ms; the columns that carry the REST face's
 * names are generated from them, so that a person with sqlite3 reads what a
 * client reads and no value is kept twice. */
#define AT(name, ms)                                                                               \
	name " TEXT GENERATED ALWAYS AS (strftime('%Y-%m-%dT%H:%M:%fZ', " ms " / 1000.0, 'unixepoch')) VIRTUAL"

static const char version_1[] =
	"CREATE TABLE owners ("
	"  id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, quota TEXT,"
	"  created_ms INTEGER NOT NULL, " AT("created_at", "created_ms") ") STRICT;"

	"CREATE TABLE keys ("
	"  id TEXT PRIMARY KEY NOT NULL, owner_id TEXT NOT NULL REFERENCES owners(id) ON DELETE CASCADE,"
	"  name TEXT NOT NULL, hash BLOB NOT NULL UNIQUE, admin INTEGER NOT NULL DEFAULT 0,"
	"  created_ms INTEGER NOT NULL, expires_ms INTEGER, revoked_ms INTEGER,"
	"  " AT("created_at", "created_ms") ", " AT("expires_at", "expires_ms") ","
	"  " AT("revoked_at", "revoked_ms") ") STRICT;"
	"CREATE INDEX keys_owner ON keys(owner_id);"

	"CREATE TABLE sandboxes ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
	"  owner_id TEXT NOT NULL REFERENCES owners(id), state TEXT NOT NULL, engine TEXT, template TEXT,"
	"  image TEXT, started TEXT, end_reason TEXT, message TEXT, created_ms INTEGER NOT NULL,"
	"  deadline_ms INTEGER, ended_ms INTEGER, limits TEXT NOT NULL, metadata TEXT NOT NULL,"
	"  env TEXT NOT NULL, " AT("created_at", "created_ms") ", " AT("deadline", "deadline_ms") ","
	"  " AT("ended_at", "ended_ms") ") STRICT;"
	"CREATE INDEX sandboxes_owner ON sandboxes(owner_id, state);"
	"CREATE INDEX sandboxes_open ON sandboxes(seq) WHERE state <> 'ended';"

	"CREATE TABLE kernels ("
	"  id TEXT PRIMARY KEY NOT NULL, sandbox_id TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE,"
	"  name TEXT NOT NULL, language TEXT NOT NULL, state TEXT NOT NULL,"
	"  execution_count INTEGER NOT NULL, received INTEGER NOT NULL, sent INTEGER NOT NULL) STRICT;"
	"CREATE INDEX kernels_sandbox ON kernels(sandbox_id);"

	"CREATE TABLE executions ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
	"  sandbox_id TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE, kernel_id TEXT NOT NULL,"
	"  status TEXT NOT NULL, code TEXT, reason TEXT, signal TEXT, exit_code INTEGER,"
	"  execution_count INTEGER NOT NULL, queued_ms INTEGER, started_ms INTEGER, ended_ms INTEGER,"
	"  timeout_ms INTEGER, last_seq INTEGER NOT NULL, log_bytes INTEGER NOT NULL,"
	"  execution_id TEXT GENERATED ALWAYS AS (id) VIRTUAL, " AT("queued_at", "queued_ms") ","
	"  " AT("started_at", "started_ms") ", " AT("ended_at", "ended_ms") ") STRICT;"
	"CREATE INDEX executions_sandbox ON executions(sandbox_id, seq);"
	"CREATE INDEX executions_open ON executions(sandbox_id) WHERE status IN ('queued', 'running');"

	"CREATE TABLE outputs ("
	"  execution_id TEXT NOT NULL REFERENCES executions(id) ON DELETE CASCADE, n INTEGER NOT NULL,"
	"  kind TEXT NOT NULL, head TEXT NOT NULL, tail TEXT NOT NULL, bytes INTEGER NOT NULL,"
	"  spooled INTEGER NOT NULL, truncated INTEGER NOT NULL, mime TEXT, data TEXT,"
	/* bytes counts a bundle's main type, which the text beside it need not be. */
	"  text TEXT GENERATED ALWAYS AS (CASE WHEN NOT truncated OR (tail = '' AND data IS NOT NULL) THEN head"
	"    WHEN kind IN ('stdout', 'stderr', 'error') OR mime = 'text/plain' THEN head || char(10) || '[... '"
	"      || (bytes - length(CAST(head AS BLOB)) - length(CAST(tail AS BLOB))) || ' bytes omitted ...]'"
	"      || char(10) || tail"
	"    WHEN tail = '' THEN head ELSE head || char(10) || '[... text omitted ...]' || char(10) || tail"
	"    END) VIRTUAL,"
	"  PRIMARY KEY (execution_id, n)) STRICT, WITHOUT ROWID;"

	"CREATE TABLE audit ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, owner_id TEXT, sandbox_id TEXT,"
	"  action TEXT NOT NULL, detail TEXT, " AT("at", "at_ms") ") STRICT;"
	"CREATE INDEX audit_sandbox ON audit(sandbox_id);"
	"CREATE TRIGGER audit_fixed BEFORE UPDATE ON audit BEGIN"
	"  SELECT RAISE(ABORT, 'audit rows are not changed'); END;"
	"CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN"
	"  SELECT RAISE(ABORT, 'audit rows are not deleted'); END;";

/* A queued execution survives a restart with its environment. */
static const char version_2[] = "ALTER TABLE executions ADD COLUMN env TEXT;";

/* What a restart must not forget: that a cell ran in a fresh kernel, or that the next one will. */
static const char version_3[] =
	"ALTER TABLE executions ADD COLUMN kernel_restarted INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE kernels ADD COLUMN restarted INTEGER NOT NULL DEFAULT 0;";

/* Processes that somebody reads: after a restart nobody does, and they are ended. */
static const char version_4[] =
	"CREATE TABLE processes ("
	"  id TEXT PRIMARY KEY NOT NULL, sandbox_id TEXT NOT NULL REFERENCES sandboxes(id) ON DELETE CASCADE) STRICT;"
	"CREATE INDEX processes_sandbox ON processes(sandbox_id);";

/* Pause, fork and named snapshots. base: the warm snapshot that a sandbox's memory lies on. paused_ms: since when
 * it is paused; of an execution: how long it was, which its time limit does not count. agent_id: a kernel's name
 * inside where the host's is another. */
static const char version_5[] =
	"ALTER TABLE sandboxes ADD COLUMN timeout_ms INTEGER;"
	"ALTER TABLE sandboxes ADD COLUMN on_timeout TEXT NOT NULL DEFAULT 'kill';"
	"ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN paused_ms INTEGER;"
	"ALTER TABLE sandboxes ADD COLUMN base TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN " AT("paused_at", "paused_ms") ";"
	"ALTER TABLE kernels ADD COLUMN agent_id TEXT;"
	"ALTER TABLE executions ADD COLUMN paused_ms INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE snapshots ("
	"  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
	"  owner_id TEXT NOT NULL REFERENCES owners(id), name TEXT, sandbox_id TEXT NOT NULL, engine TEXT NOT NULL,"
	"  template TEXT NOT NULL, image TEXT NOT NULL, limits TEXT NOT NULL, env TEXT NOT NULL,"
	"  bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL, " AT("created_at", "created_ms") ") STRICT;"
	"CREATE INDEX snapshots_owner ON snapshots(owner_id, seq);";

/* The event lines of an execution that said little, in place of a file of its own. */
static const char version_6[] = "ALTER TABLE executions ADD COLUMN events TEXT;";

/* Executions of Jupyter clients: what came beside the code, so that answers find their way after a restart; and
 * where the code's frame stands among others. */
static const char version_7[] = "ALTER TABLE executions ADD COLUMN asked TEXT;"
				"ALTER TABLE executions ADD COLUMN sent_seq INTEGER;";

/* The audit says by which key, and how it ended; it is read by owner. Rows go only inside a transaction that says so
 * itself, as the sweep does (sweep.c): for everybody else the flag is 0. */
static const char version_8[] =
	"ALTER TABLE audit ADD COLUMN key_id TEXT;"
	"ALTER TABLE audit ADD COLUMN result TEXT NOT NULL DEFAULT 'ok';"
	"DROP INDEX audit_sandbox;"
	"CREATE INDEX audit_owner ON audit(owner_id, seq);"
	"CREATE TABLE sweep ("
	"  id INTEGER PRIMARY KEY CHECK (id = 1), open INTEGER NOT NULL, syslogged INTEGER NOT NULL) STRICT;"
	"INSERT INTO sweep VALUES (1, 0, 0);"
	"DROP TRIGGER audit_kept;"
	"CREATE TRIGGER audit_kept BEFORE DELETE ON audit WHEN NOT (SELECT open FROM sweep) BEGIN"
	"  SELECT RAISE(ABORT, 'audit rows are not deleted'); END;";

/* What is kept of history, in bytes: of each execution that is over and was counted (sweep.c), and of each owner.
 * erasing: their rows are gone, their spool is on its way. */
static const char version_9[] =
	"ALTER TABLE executions ADD COLUMN stored INTEGER;"
	"CREATE INDEX executions_uncounted ON executions(seq) WHERE stored IS NULL;"
	"CREATE TABLE history (owner_id TEXT PRIMARY KEY NOT NULL, bytes INTEGER NOT NULL) STRICT;"
	"CREATE TABLE erasing (execution_id TEXT PRIMARY KEY NOT NULL) STRICT;";

/* What sandboxes cost, by the hour, and how far each was accounted for (usage.h). */
static const char version_10[] =
	"CREATE TABLE usage_of ("
	"  sandbox_id TEXT PRIMARY KEY NOT NULL, owner_id TEXT NOT NULL, tags TEXT NOT NULL,"
	"  at_ms INTEGER NOT NULL, counter_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE usage ("
	"  hour_ms INTEGER NOT NULL, sandbox_id TEXT NOT NULL, cpu_us INTEGER NOT NULL, mib_ms INTEGER NOT NULL,"
	"  ended TEXT, PRIMARY KEY (hour_ms, sandbox_id)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX usage_sandbox ON usage(sandbox_id);";

/* Of the counter, what a sandbox's limit counts: since it first ran; -1: it has not been read since. */
static const char version_11[] = "ALTER TABLE usage_of ADD COLUMN life_us INTEGER NOT NULL DEFAULT -1;";

/* Entry i takes a store of version i to version i + 1. Never change one that was released: add one. */
const char *const schema_steps[] = { version_1, version_2, version_3, version_4, version_5, version_6, version_7,
					     version_8, version_9, version_10, version_11 };
const int schema_version = sizeof(schema_steps) / sizeof(schema_steps[0]);
