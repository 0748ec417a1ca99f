-- Tests that failed, as workers reported them.

CREATE TABLE failures (
    failure_id    TEXT PRIMARY KEY,
    project_id    TEXT NOT NULL REFERENCES projects (project_id),
    handle        TEXT NOT NULL,
    -- The task in which it failed.
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    report_id     TEXT NOT NULL REFERENCES reports (report_id),
    test_name     TEXT NOT NULL,
    test_file     TEXT NOT NULL,
    -- The error without what differs from run to run.
    signature     TEXT NOT NULL,
    -- The task that finds out why, once there is one.
    investigation TEXT REFERENCES tasks (task_id),
    failed_at     INTEGER NOT NULL,
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX failures_by_test ON failures (project_id, test_file, test_name);
CREATE INDEX failures_by_signature ON failures (project_id, signature);
