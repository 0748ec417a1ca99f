-- What becomes of an attempt's work: committed, or merged into a branch.

CREATE TABLE finishes (
    finish_id  TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- What is to be done, with every default resolved, as JSON.
    request    TEXT NOT NULL,
    -- 'open', 'done', 'conflicts', 'checks_failed', or 'refused'.
    state      TEXT NOT NULL,
    -- What has been done so far, as JSON: a finish that was cut off goes on from here.
    receipt    TEXT NOT NULL,
    -- Why it was refused, as JSON.
    error      TEXT,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX open_finishes ON finishes (attempt_id) WHERE state = 'open';

-- The finish whose result is checked. Such a run touches no task.
ALTER TABLE check_runs ADD COLUMN finish_id TEXT REFERENCES finishes (finish_id);
