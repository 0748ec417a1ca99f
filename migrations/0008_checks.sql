-- What reports of done stand for, and what the project's checks found.

CREATE TABLE check_runs (
    -- In the order of the reports.
    run_id        TEXT PRIMARY KEY,
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    -- From within which it was reported: it is told of checks that did not pass.
    attempt_id    TEXT REFERENCES attempts (attempt_id),
    -- The commits and the checks to be run on them, as JSON arrays.
    repos         TEXT NOT NULL,
    checks        TEXT NOT NULL,
    -- 1: nothing is other than at the merge base; NULL: it is not known.
    is_empty_diff INTEGER,
    -- 1: the report says that its tests passed.
    claims_passed INTEGER NOT NULL,
    -- 'verified', 'rework', or 'overruled' (the task was changed meanwhile).
    verdict       TEXT,
    planned_at    INTEGER NOT NULL,
    -- NULL: something is left to be done.
    closed_at     INTEGER
) STRICT;
CREATE INDEX check_runs_by_task ON check_runs (task_id, run_id);
CREATE INDEX open_check_runs ON check_runs (run_id) WHERE closed_at IS NULL;

CREATE TABLE receipts (
    run_id      TEXT NOT NULL REFERENCES check_runs (run_id),
    -- The check's.
    name        TEXT NOT NULL,
    command     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    reason      TEXT,
    exit_code   INTEGER,
    exit_signal INTEGER,
    duration_ms INTEGER NOT NULL,
    -- The folder of its output.
    log         TEXT,
    ended_at    INTEGER NOT NULL,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;
