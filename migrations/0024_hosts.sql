-- The machines that attempts run on, each with a daemon that has registered it.
CREATE TABLE hosts (
    host_id       TEXT PRIMARY KEY,
    -- Counts its registrations.
    incarnation   INTEGER NOT NULL,
    -- Hash of what its home holds: the proof that a registration comes from the same home.
    secret        TEXT NOT NULL,
    -- JSON: an array of words.
    labels        TEXT NOT NULL,
    -- Attempts that it runs at once.
    slots         INTEGER NOT NULL,
    -- Of the machine, in bytes.
    memory        INTEGER NOT NULL,
    version       TEXT NOT NULL,
    -- 'active', or 'draining': nothing new begins on it.
    state         TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    renewed_at    INTEGER NOT NULL,
    -- NULL: its home's own lock is the lease, and nothing is renewed.
    lease_until   INTEGER
) STRICT;

-- The host that owns the attempt: its worktrees and processes are there.
ALTER TABLE attempts ADD COLUMN host TEXT NOT NULL DEFAULT 'local';

DROP VIEW attempt_overview;

-- An attempt with what it belongs to, its latest session, its latest process
-- (`x`: begun, or about to be), its latest turn (`n`: also one that waits for a
-- slot) and the latest turn that has ended (`f`). Scripts are no turns. It waits for
-- no approval that is of the attempt.
CREATE VIEW attempt_overview AS
SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, a.branch,
       a.executor, a.state, a.phase, a.created_at, a.updated_at, a.revision, a.settled_revision,
       a.queue_held, a.host,
       (SELECT count(*) FROM follow_ups q WHERE q.session_id = s.session_id) AS queued_follow_ups,
       (SELECT count(*) FROM approvals v
        WHERE v.attempt_id = a.attempt_id AND v.status = 'pending' AND v.of_attempt = 0)
           AS pending_approvals,
       CASE WHEN a.phase = 'settled' THEN f.quota END AS quota,
       CASE WHEN a.phase = 'settled' THEN f.resume_at END AS resume_at,
       s.session_id, s.executor AS session_executor,
       n.variant, x.process_id, x.exit_code, x.exit_signal, x.failure_summary, f.final_message,
       coalesce(x.usage, f.usage) AS usage, x.limits
FROM attempts a
JOIN tasks t ON t.task_id = a.task_id
JOIN projects p ON p.project_id = t.project_id
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
LEFT JOIN processes n ON n.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes x ON x.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
      AND (status <> 'planned' OR a.phase IN ('preparing', 'running', 'stopping'))
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes f ON f.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent' AND ended_at IS NOT NULL
    ORDER BY turn DESC, process_id DESC LIMIT 1);
