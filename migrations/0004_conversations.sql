-- What executors wait for: permissions they ask for, and limits that ended a turn.

CREATE TABLE approvals (
    approval_id TEXT PRIMARY KEY,
    attempt_id  TEXT NOT NULL REFERENCES attempts (attempt_id),
    process_id  TEXT NOT NULL REFERENCES processes (process_id),
    -- The protocol's own id of the request.
    request_key TEXT NOT NULL,
    request     TEXT NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT,
    asked_at    INTEGER NOT NULL,
    -- Denied then, if nobody has answered; NULL: it waits as long as it takes.
    expires_at  INTEGER,
    decided_at  INTEGER,
    UNIQUE (process_id, request_key)
) STRICT;
CREATE INDEX approvals_by_attempt ON approvals (attempt_id, approval_id);
CREATE INDEX pending_approvals ON approvals (attempt_id, approval_id) WHERE status = 'pending';

-- A rate limit ended the turn: 'ask' (somebody is to resume it) or 'auto'.
ALTER TABLE processes ADD COLUMN quota TEXT;
-- When that limit is over, if the executor told.
ALTER TABLE processes ADD COLUMN resume_at INTEGER;
CREATE INDEX resumable_processes ON processes (resume_at) WHERE quota = 'auto';

DROP VIEW attempt_overview;

-- An attempt with what it belongs to, its latest session, its latest process
-- (`x`: begun, or about to be), its latest turn (`n`: also one that waits for a
-- slot) and the latest turn that has ended (`f`).
CREATE VIEW attempt_overview AS
SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, a.branch,
       a.executor, a.state, a.phase, a.created_at, a.updated_at, a.revision, a.settled_revision,
       a.queue_held,
       (SELECT count(*) FROM follow_ups q WHERE q.session_id = s.session_id) AS queued_follow_ups,
       (SELECT count(*) FROM approvals v
        WHERE v.attempt_id = a.attempt_id AND v.status = 'pending') AS pending_approvals,
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
