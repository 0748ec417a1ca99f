-- What workers found beside their tasks: observations and issues.

CREATE TABLE notes (
    note_id    TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    handle     TEXT NOT NULL,
    -- 'observation' or 'issue'.
    kind       TEXT NOT NULL,
    -- The task in which it was found.
    task_id    TEXT REFERENCES tasks (task_id),
    text       TEXT NOT NULL,
    -- The worker's word for what it is.
    category   TEXT,
    severity   TEXT NOT NULL,
    -- All that was said of it.
    report_id  TEXT REFERENCES reports (report_id),
    -- The task that was made of it.
    new_task   TEXT REFERENCES tasks (task_id),
    -- The alert that it raised.
    alert      TEXT REFERENCES tickets (ticket_id),
    noted_at   INTEGER NOT NULL,
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX notes_by_task ON notes (task_id) WHERE task_id IS NOT NULL;
