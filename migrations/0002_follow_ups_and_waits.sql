-- Turns after the first, the queue of those that wait, and what waiters look at.

-- Follow-ups that wait for the running turn to end, first in, first out.
CREATE TABLE follow_ups (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id   TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (session_id),
    prompt     TEXT NOT NULL,
    variant    TEXT,
    queued_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX follow_ups_by_session ON follow_ups (session_id, position);

-- 1: a stop holds the queue; the next send or queue lets it go on.
ALTER TABLE attempts ADD COLUMN queue_held INTEGER NOT NULL DEFAULT 0;

-- One count over all attempts: the number of the change that a row holds. What
-- has a larger one than a waiter has seen is news to it.
ALTER TABLE attempts ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
-- The change by which nothing was running or waiting any more; 0: it never was so.
ALTER TABLE attempts ADD COLUMN settled_revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX attempts_by_revision ON attempts (revision);
UPDATE attempts SET settled_revision = 1, revision = 1 WHERE phase IN ('settled', 'idle');

-- What an intent without an answer is to bring about, as JSON: enough to do so
-- when nobody asks again.
ALTER TABLE requests ADD COLUMN intent TEXT;
-- What the payload came to, with all defaults: other words may mean the same call.
ALTER TABLE requests ADD COLUMN resolved_hash TEXT;

-- Turns order the processes of an attempt; a clock that was set back does not.
CREATE INDEX processes_by_turn ON processes (attempt_id, turn, process_id);

DROP VIEW attempt_overview;

-- An attempt with what it belongs to, its latest session, its latest process
-- (`x`: begun, or about to be), its latest turn (`n`: also one that waits for a
-- slot) and the latest turn that has ended (`f`).
CREATE VIEW attempt_overview AS
SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, a.branch,
       a.executor, a.state, a.phase, a.created_at, a.updated_at, a.revision, a.settled_revision,
       a.queue_held,
       (SELECT count(*) FROM follow_ups q WHERE q.session_id = s.session_id) AS queued_follow_ups,
       s.session_id, s.executor AS session_executor,
       n.variant, x.process_id, x.exit_code, x.exit_signal, x.failure_summary, f.final_message,
       coalesce(x.usage, f.usage) AS usage
FROM attempts a
JOIN tasks t ON t.task_id = a.task_id
JOIN projects p ON p.project_id = t.project_id
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
LEFT JOIN processes n ON n.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason <> 'dev_server'
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes x ON x.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason <> 'dev_server'
      AND (status <> 'planned' OR a.phase IN ('preparing', 'running', 'stopping'))
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes f ON f.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent' AND ended_at IS NOT NULL
    ORDER BY turn DESC, process_id DESC LIMIT 1);
