-- The worker's side of the board: what tasks are called and carry, who has one in
-- hand, what was reported, and what stands in the way.

-- How many of each kind a project has given a handle: TASK, OBS, TK, ….
CREATE TABLE handles (
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    prefix     TEXT NOT NULL,
    last       INTEGER NOT NULL,
    PRIMARY KEY (project_id, prefix)
) STRICT, WITHOUT ROWID;

-- What people and workers call it: `TASK-001`, unique in its project.
ALTER TABLE tasks ADD COLUMN handle TEXT;
-- 'work', 'verification', 'investigation', or 'answer' (a question put to an executor).
ALTER TABLE tasks ADD COLUMN kind TEXT NOT NULL DEFAULT 'work';
-- The task that this one verifies or investigates.
ALTER TABLE tasks ADD COLUMN about TEXT REFERENCES tasks (task_id);
-- Why a report made it.
ALTER TABLE tasks ADD COLUMN reason TEXT;
-- What is to be known to do it, as JSON.
ALTER TABLE tasks ADD COLUMN brief TEXT;
-- What the last report made of it: 'reported' (its checks run), 'verified', 'rework',
-- 'failed', 'blocked' or 'paused'; NULL: nothing that the status does not say.
ALTER TABLE tasks ADD COLUMN standing TEXT;
ALTER TABLE tasks ADD COLUMN blocked_reason TEXT;
-- Percent.
ALTER TABLE tasks ADD COLUMN progress INTEGER;

UPDATE tasks SET handle = (
    SELECT printf('TASK-%03d', n.number) FROM (
        SELECT task_id, row_number() OVER (PARTITION BY project_id ORDER BY task_id) AS number
        FROM tasks) n
    WHERE n.task_id = tasks.task_id);
INSERT INTO handles (project_id, prefix, last)
SELECT project_id, 'TASK', count(*) FROM tasks GROUP BY project_id;
CREATE UNIQUE INDEX tasks_by_handle ON tasks (project_id, handle);
-- What the queue looks at.
CREATE INDEX open_tasks ON tasks (project_id, task_id)
WHERE status NOT IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX task_dependents ON task_dependencies (depends_on);
CREATE INDEX tasks_about ON tasks (about) WHERE about IS NOT NULL;

-- Who took a task from the queue. It lives with the attempt, or until it expires.
CREATE TABLE leases (
    task_id    TEXT PRIMARY KEY REFERENCES tasks (task_id),
    agent      TEXT NOT NULL,
    attempt_id TEXT REFERENCES attempts (attempt_id),
    taken_at   INTEGER NOT NULL,
    -- NULL: it lives as long as the attempt does something.
    expires_at INTEGER
) STRICT;
CREATE INDEX leases_by_attempt ON leases (attempt_id) WHERE attempt_id IS NOT NULL;

-- Who has a task in hand now: a live lease, or a live attempt of the task itself.
CREATE VIEW task_holders AS
SELECT l.task_id, l.agent, l.attempt_id
FROM leases l LEFT JOIN attempts a ON a.attempt_id = l.attempt_id
WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping')
   OR (l.attempt_id IS NULL AND l.expires_at > unixepoch('subsec') * 1000)
UNION
SELECT task_id, attempt_id, attempt_id FROM attempts
WHERE phase IN ('queued', 'preparing', 'running', 'stopping');

-- Every report as it was given.
CREATE TABLE reports (
    report_id   TEXT PRIMARY KEY,
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    task_id     TEXT REFERENCES tasks (task_id),
    attempt_id  TEXT REFERENCES attempts (attempt_id),
    agent       TEXT NOT NULL,
    tool        TEXT NOT NULL,
    -- What it says of the task, in the tool's own word.
    status      TEXT,
    body        TEXT NOT NULL,
    -- What is odd about it, as a JSON array of sentences.
    warnings    TEXT,
    reported_at INTEGER NOT NULL
) STRICT;
CREATE INDEX reports_by_task ON reports (task_id, report_id) WHERE task_id IS NOT NULL;

-- What somebody has to see to.
CREATE TABLE tickets (
    ticket_id      TEXT PRIMARY KEY,
    project_id     TEXT NOT NULL REFERENCES projects (project_id),
    handle         TEXT NOT NULL,
    -- 'ticket', 'investigation', 'blocker' or 'alert' (a person is to see it).
    kind           TEXT NOT NULL,
    title          TEXT NOT NULL,
    description    TEXT,
    priority       TEXT NOT NULL,
    status         TEXT NOT NULL,
    -- The task whose doing resolves it.
    task_id        TEXT REFERENCES tasks (task_id),
    -- The task that waits for it.
    blocks_task_id TEXT REFERENCES tasks (task_id),
    attempt_id     TEXT REFERENCES attempts (attempt_id),
    agent          TEXT NOT NULL,
    resolution     TEXT,
    -- Who resolved it: 'person' or 'orchestrator'; NULL where a task did.
    resolved_by    TEXT,
    opened_at      INTEGER NOT NULL,
    resolved_at    INTEGER,
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX open_tickets ON tickets (project_id, ticket_id) WHERE status = 'open';
CREATE INDEX tickets_resolved_by ON tickets (task_id) WHERE status = 'open';
CREATE INDEX blocking_tickets ON tickets (blocks_task_id) WHERE status = 'open';

DROP VIEW task_overview;

-- A task that is on the board, with its latest attempt and that one's session.
CREATE VIEW task_overview AS
SELECT t.task_id, t.project_id, t.handle, t.title, t.description, t.status, t.priority, t.kind,
       t.brief, t.standing, t.created_at, t.updated_at, a.attempt_id, a.branch, a.state,
       s.session_id, s.executor AS session_executor,
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
