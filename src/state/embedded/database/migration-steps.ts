/** Steps from an empty file to the schema of this version, in order; step n is at index n - 1. Never edit a released step. */
export const migrationSteps: readonly string[] = [
  `CREATE TABLE api_keys (
     id TEXT NOT NULL PRIMARY KEY,
     name TEXT NOT NULL,
     account TEXT NOT NULL,
     scope TEXT NOT NULL,
     hash TEXT NOT NULL UNIQUE,
     prefix TEXT NOT NULL,
     last4 TEXT NOT NULL,
     models_json TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     created_by TEXT NOT NULL,
     expires_at_ms INTEGER,
     revoked_at_ms INTEGER,
     last_used_at_ms INTEGER
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX api_keys_by_newest ON api_keys (created_at_ms DESC, id DESC);
   CREATE TABLE models_seen (
     id TEXT NOT NULL PRIMARY KEY,
     first_seen_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE api_keys ADD COLUMN requests_per_minute INTEGER;
   ALTER TABLE api_keys ADD COLUMN tokens_per_minute INTEGER;
   ALTER TABLE api_keys ADD COLUMN concurrency INTEGER;

   CREATE TABLE sessions (
     id TEXT NOT NULL PRIMARY KEY,
     token_hash TEXT NOT NULL UNIQUE,
     user TEXT NOT NULL,
     role TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     last_seen_at_ms INTEGER NOT NULL,
     expires_at_ms INTEGER NOT NULL,
     address TEXT NOT NULL,
     user_agent TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);

   CREATE TABLE settings (
     name TEXT NOT NULL PRIMARY KEY,
     value TEXT NOT NULL,
     version INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE audit (
     id TEXT NOT NULL PRIMARY KEY,
     at_ms INTEGER NOT NULL,
     actor_kind TEXT NOT NULL,
     actor_id TEXT NOT NULL,
     address TEXT NOT NULL,
     action TEXT NOT NULL,
     target TEXT NOT NULL,
     result TEXT NOT NULL,
     details_json TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX audit_by_newest ON audit (at_ms DESC, id DESC);

   CREATE TABLE limits (
     owner_kind TEXT NOT NULL,
     owner_id TEXT NOT NULL,
     requests_per_minute INTEGER,
     tokens_per_minute INTEGER,
     concurrency INTEGER,
     updated_at_ms INTEGER NOT NULL,
     PRIMARY KEY (owner_kind, owner_id)
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE thresholds (
     id TEXT NOT NULL PRIMARY KEY,
     account TEXT NOT NULL,
     api_key_id TEXT,
     metric TEXT NOT NULL,
     period TEXT NOT NULL,
     limit_value INTEGER NOT NULL,
     percents_json TEXT NOT NULL,
     action TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     updated_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE crossings (
     mark TEXT NOT NULL PRIMARY KEY,
     period_end_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX crossings_by_end ON crossings (period_end_ms);

   CREATE TABLE endpoints (
     account TEXT NOT NULL,
     id TEXT NOT NULL UNIQUE,
     url TEXT NOT NULL,
     description TEXT NOT NULL,
     events_json TEXT NOT NULL,
     status TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     updated_at_ms INTEGER NOT NULL,
     PRIMARY KEY (account, id)
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE deliveries (
     number INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     account TEXT NOT NULL,
     event_id TEXT NOT NULL,
     event_type TEXT NOT NULL,
     endpoint_id TEXT NOT NULL,
     state TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     due_at_ms INTEGER,
     body TEXT NOT NULL
   ) STRICT;
   CREATE INDEX deliveries_by_account ON deliveries (account, number);
   CREATE INDEX deliveries_due ON deliveries (endpoint_id, due_at_ms) WHERE due_at_ms IS NOT NULL;

   CREATE TABLE live_requests (
     request_id TEXT NOT NULL PRIMARY KEY,
     account TEXT NOT NULL,
     key_id TEXT,
     model TEXT NOT NULL,
     operation TEXT NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     admitted_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;

   CREATE TABLE settled (
     request_id TEXT NOT NULL PRIMARY KEY,
     at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX settled_by_time ON settled (at_ms);

   -- Without a key: the administrator's requests.
   CREATE TABLE usage_hours (
     account TEXT NOT NULL,
     start_ms INTEGER NOT NULL,
     key_id TEXT NOT NULL DEFAULT '',
     model TEXT NOT NULL,
     requests INTEGER NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     cached_tokens INTEGER NOT NULL,
     cost_nano INTEGER NOT NULL,
     PRIMARY KEY (account, start_ms, key_id, model)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX usage_hours_by_start ON usage_hours (start_ms);
   CREATE TABLE usage_days (
     account TEXT NOT NULL,
     start_ms INTEGER NOT NULL,
     key_id TEXT NOT NULL DEFAULT '',
     model TEXT NOT NULL,
     requests INTEGER NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     cached_tokens INTEGER NOT NULL,
     cost_nano INTEGER NOT NULL,
     PRIMARY KEY (account, start_ms, key_id, model)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX usage_days_by_start ON usage_days (start_ms);

   CREATE TABLE period_sums (
     account TEXT NOT NULL,
     scope_kind TEXT NOT NULL,
     scope_id TEXT NOT NULL,
     period_kind TEXT NOT NULL,
     start_ms INTEGER NOT NULL,
     requests INTEGER NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     cached_tokens INTEGER NOT NULL,
     cost_nano INTEGER NOT NULL,
     PRIMARY KEY (account, scope_kind, scope_id, period_kind, start_ms)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX period_sums_by_start ON period_sums (start_ms);`,
  `ALTER TABLE endpoints ADD COLUMN disabled_reason TEXT;
   ALTER TABLE endpoints ADD COLUMN max_in_flight INTEGER NOT NULL DEFAULT 8;
   ALTER TABLE endpoints ADD COLUMN secrets_json TEXT NOT NULL DEFAULT '[]';
   ALTER TABLE endpoints ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
   ALTER TABLE endpoints ADD COLUMN last_success_at_ms INTEGER;
   ALTER TABLE endpoints ADD COLUMN last_failure_at_ms INTEGER;
   ALTER TABLE endpoints ADD COLUMN failing_since_ms INTEGER;
   ALTER TABLE endpoints ADD COLUMN failures_in_row INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE endpoints ADD COLUMN permanently_failed INTEGER NOT NULL DEFAULT 0;
   UPDATE endpoints SET disabled_reason = 'by_hand' WHERE status = 'disabled';

   -- One row for each endpoint that has or had deliveries.
   CREATE TABLE queues (
     endpoint_id TEXT NOT NULL PRIMARY KEY,
     account TEXT NOT NULL,
     open INTEGER NOT NULL,
     -- Before this nothing of it can be claimed.
     ready_at_ms INTEGER NOT NULL,
     -- The fence that was the newest when something of it was claimed last.
     turn INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX queues_by_account ON queues (account);
   CREATE INDEX queues_ready ON queues (ready_at_ms) WHERE open > 0;

   -- Claims. One that ran out stays until the delivery is claimed again or ends. Fences only rise.
   CREATE TABLE leases (
     fence INTEGER PRIMARY KEY AUTOINCREMENT,
     delivery_number INTEGER NOT NULL UNIQUE,
     endpoint_id TEXT NOT NULL,
     ends_at_ms INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX leases_by_endpoint ON leases (endpoint_id, ends_at_ms);

   -- due_at_ms and ended_at_ms: always one of the two. The long columns stand last: what is before them is read without them.
   ALTER TABLE deliveries RENAME TO former_deliveries;
   CREATE TABLE deliveries (
     number INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     account TEXT NOT NULL,
     event_id TEXT NOT NULL,
     event_type TEXT NOT NULL,
     endpoint_id TEXT NOT NULL,
     state TEXT NOT NULL,
     reason TEXT,
     created_at_ms INTEGER NOT NULL,
     due_at_ms INTEGER,
     ended_at_ms INTEGER,
     attempts_made INTEGER NOT NULL DEFAULT 0,
     retries_used INTEGER NOT NULL DEFAULT 0,
     is_manual INTEGER NOT NULL DEFAULT 0,
     asked_by TEXT NOT NULL DEFAULT '',
     is_single INTEGER NOT NULL DEFAULT 0,
     replay_id TEXT,
     is_purged INTEGER NOT NULL DEFAULT 0,
     body TEXT NOT NULL,
     attempts_json TEXT NOT NULL DEFAULT '[]'
   ) STRICT;
   INSERT INTO deliveries (number, id, account, event_id, event_type, endpoint_id, state, created_at_ms, due_at_ms, body)
     SELECT number, id, account, event_id, event_type, endpoint_id, state, created_at_ms,
       coalesce(due_at_ms, created_at_ms), body
     FROM former_deliveries;
   DROP TABLE former_deliveries;
   INSERT INTO queues (endpoint_id, account, open, ready_at_ms, turn)
     SELECT endpoint_id, account, count(*), 0, 0 FROM deliveries GROUP BY endpoint_id;
   CREATE INDEX deliveries_by_account ON deliveries (account, number);
   CREATE INDEX deliveries_by_endpoint ON deliveries (endpoint_id, number);
   CREATE INDEX deliveries_by_replay ON deliveries (replay_id, number) WHERE replay_id IS NOT NULL;
   CREATE INDEX deliveries_due ON deliveries (endpoint_id, due_at_ms) WHERE due_at_ms IS NOT NULL;
   CREATE INDEX deliveries_open ON deliveries (number, due_at_ms) WHERE due_at_ms IS NOT NULL;
   CREATE INDEX deliveries_troubled ON deliveries (state, number)
     WHERE state IN ('awaiting_retry', 'permanently_failed');
   CREATE INDEX deliveries_ended ON deliveries (state, is_purged, ended_at_ms) WHERE ended_at_ms IS NOT NULL;`,
  // Lists of the most frequent type need no index, because nearly every row matches.
  `CREATE INDEX deliveries_of_rare_types ON deliveries (event_type, number)
     WHERE event_type IN ('request.failed', 'usage.threshold_reached');
   -- All that a search looks at, so that it passes over keys without reading them.
   CREATE INDEX api_keys_searched
     ON api_keys (created_at_ms DESC, id DESC, account, name, prefix, last4, revoked_at_ms, expires_at_ms);
   DROP INDEX api_keys_by_newest;`,
  // Request ids begin with a time, so the primary key already sorts the oldest markers first.
  "DROP INDEX settled_by_time;",
  // An empty `operation` marks rows of earlier versions, which summed over all operations.
  ["usage_hours", "usage_days"]
    .map(
      (table) => `ALTER TABLE ${table} RENAME TO former_${table};
   CREATE TABLE ${table} (
     account TEXT NOT NULL,
     start_ms INTEGER NOT NULL,
     key_id TEXT NOT NULL DEFAULT '',
     model TEXT NOT NULL,
     operation TEXT NOT NULL DEFAULT '',
     requests INTEGER NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     cached_tokens INTEGER NOT NULL,
     cost_nano INTEGER NOT NULL,
     PRIMARY KEY (account, start_ms, key_id, model, operation)
   ) STRICT, WITHOUT ROWID;
   INSERT INTO ${table}
     SELECT account, start_ms, key_id, model, '', requests, prompt_tokens, completion_tokens, cached_tokens, cost_nano
     FROM former_${table} ORDER BY account, start_ms, key_id, model;
   DROP TABLE former_${table};
   CREATE INDEX ${table}_by_start ON ${table} (start_ms);`,
    )
    .join("\n"),
  `CREATE TABLE upstreams (
     name TEXT NOT NULL PRIMARY KEY,
     version INTEGER NOT NULL,
     record_json TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE drains (
     id TEXT NOT NULL PRIMARY KEY,
     since_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
  // The index has all columns that a filter compares, so that a search can skip records without reading them.
  `CREATE TABLE request_logs (
     number INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     received_at_ms INTEGER NOT NULL,
     account TEXT NOT NULL,
     key_id TEXT,
     model TEXT,
     code TEXT NOT NULL,
     record_json TEXT NOT NULL,
     content_json TEXT
   ) STRICT;
   CREATE INDEX request_logs_searched
     ON request_logs (received_at_ms DESC, id DESC, account, key_id, model, code);`,
  // The table of counts serves the maximum of each account: counting 10,000 rows would take longer than the insert.
  `CREATE TABLE responses (
     number INTEGER PRIMARY KEY,
     account TEXT NOT NULL,
     id TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     previous_id TEXT,
     items INTEGER NOT NULL,
     sealed TEXT NOT NULL,
     UNIQUE (account, id)
   ) STRICT;
   CREATE INDEX responses_by_account ON responses (account, created_at_ms);
   CREATE INDEX responses_by_age ON responses (created_at_ms);
   CREATE TABLE response_counts (
     account TEXT NOT NULL PRIMARY KEY,
     stored INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE TRIGGER response_stored AFTER INSERT ON responses BEGIN
     INSERT INTO response_counts (account, stored) VALUES (new.account, 1)
       ON CONFLICT (account) DO UPDATE SET stored = stored + 1;
   END;
   CREATE TRIGGER response_removed AFTER DELETE ON responses BEGIN
     UPDATE response_counts SET stored = stored - 1 WHERE account = old.account;
     DELETE FROM response_counts WHERE account = old.account AND stored = 0;
   END;`,
  // `receivers_json` is NULL once the deliveries exist, which then share the body. Deliveries of earlier versions each have
  // their own body.
  `CREATE TABLE events (
     number INTEGER PRIMARY KEY,
     account TEXT NOT NULL,
     id TEXT NOT NULL,
     type TEXT NOT NULL,
     at_ms INTEGER NOT NULL,
     receivers_json TEXT,
     body TEXT NOT NULL
   ) STRICT;
   CREATE INDEX events_waiting ON events (account, number) WHERE receivers_json IS NOT NULL;
   ALTER TABLE deliveries ADD COLUMN event_number INTEGER;
   CREATE INDEX deliveries_of_event ON deliveries (event_number) WHERE event_number IS NOT NULL AND is_purged = 0;`,
  // Order in which the requests of a key get slots.
  "ALTER TABLE api_keys ADD COLUMN priority TEXT NOT NULL DEFAULT 'default';",
];
