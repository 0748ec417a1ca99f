-- The board, the attempts, and what makes a retried call the same call.
-- Times are milliseconds since 1970; ids are UUIDv7 in text; append-only: later
-- changes come in migrations of their own.

CREATE TABLE projects (
    project_id TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE repos (
    repo_id               TEXT PRIMARY KEY,
    project_id            TEXT NOT NULL REFERENCES projects (project_id),
    name                  TEXT NOT NULL,
    path                  TEXT NOT NULL,
    default_target_branch TEXT NOT NULL,
    created_at            INTEGER NOT NULL,
    UNIQUE (project_id, name)
) STRICT;

CREATE TABLE tasks (
    task_id     TEXT PRIMARY KEY,
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    title       TEXT NOT NULL,
    description TEXT,
    status      TEXT NOT NULL,
    priority    TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- A deleted task's attempts stay readable, so its row stays.
    deleted_at  INTEGER
) STRICT;
CREATE INDEX tasks_by_project ON tasks (project_id, task_id);

CREATE TABLE task_dependencies (
    task_id    TEXT NOT NULL REFERENCES tasks (task_id),
    depends_on TEXT NOT NULL REFERENCES tasks (task_id),
    PRIMARY KEY (task_id, depends_on)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    attempt_id TEXT PRIMARY KEY,
    task_id    TEXT NOT NULL REFERENCES tasks (task_id),
    branch     TEXT NOT NULL,
    folder     TEXT NOT NULL,
    executor   TEXT NOT NULL,
    phase      TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- Counts the starts; every change is conditional on it.
    epoch      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX attempts_by_task ON attempts (task_id, created_at);
CREATE INDEX attempts_by_phase ON attempts (phase);

CREATE TABLE attempt_repos (
    attempt_id    TEXT NOT NULL REFERENCES attempts (attempt_id),
    position      INTEGER NOT NULL,
    repo_id       TEXT NOT NULL REFERENCES repos (repo_id),
    name          TEXT NOT NULL,
    path          TEXT NOT NULL,
    target_branch TEXT NOT NULL,
    base_commit   TEXT NOT NULL,
    PRIMARY KEY (attempt_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session_id          TEXT PRIMARY KEY,
    attempt_id          TEXT NOT NULL REFERENCES attempts (attempt_id),
    executor            TEXT NOT NULL,
    -- The executor's own id of the conversation, once it was seen.
    executor_session_id TEXT,
    created_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_attempt ON sessions (attempt_id, session_id);

CREATE TABLE processes (
    process_id      TEXT PRIMARY KEY,
    session_id      TEXT NOT NULL REFERENCES sessions (session_id),
    attempt_id      TEXT NOT NULL REFERENCES attempts (attempt_id),
    run_reason      TEXT NOT NULL,
    turn            INTEGER NOT NULL,
    prompt          TEXT NOT NULL,
    variant         TEXT,
    status          TEXT NOT NULL,
    -- Identity: a pid means nothing without its start time and boot.
    pid             INTEGER,
    start_time      INTEGER,
    boot_id         TEXT,
    exit_code       INTEGER,
    exit_signal     INTEGER,
    failure_summary TEXT,
    final_message   TEXT,
    usage           TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    -- 1: nothing of it is alive and its log is whole; it needs no owner any more.
    closed          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX processes_by_attempt ON processes (attempt_id, process_id);

CREATE TABLE requests (
    tool         TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    -- NULL: an intent whose effect lies outside the database and is not known yet.
    answer       TEXT,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (tool, request_id)
) STRICT, WITHOUT ROWID;

-- An attempt with what it belongs to, its latest session and its latest process.
CREATE VIEW attempt_overview AS
SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, a.branch,
       a.executor, a.state, a.phase, a.created_at, a.updated_at,
       s.session_id, s.executor AS session_executor,
       x.variant, x.process_id, x.exit_code, x.exit_signal, x.failure_summary, x.final_message,
       x.usage
FROM attempts a
JOIN tasks t ON t.task_id = a.task_id
JOIN projects p ON p.project_id = t.project_id
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
LEFT JOIN processes x ON x.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason <> 'dev_server'
    ORDER BY process_id DESC LIMIT 1);

-- A task that is on the board, with its latest attempt and that one's session.
CREATE VIEW task_overview AS
SELECT t.task_id, t.project_id, t.title, t.description, t.status, t.priority, t.created_at,
       t.updated_at, a.attempt_id, a.branch, a.state, s.session_id, s.executor AS session_executor,
       EXISTS (SELECT 1 FROM attempts r
               WHERE r.task_id = t.task_id AND r.state = 'running') AS in_progress
FROM tasks t
LEFT JOIN attempts a ON a.attempt_id = (
    SELECT attempt_id FROM attempts WHERE task_id = t.task_id
    ORDER BY created_at DESC, attempt_id ASC LIMIT 1)
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
WHERE t.deleted_at IS NULL;
