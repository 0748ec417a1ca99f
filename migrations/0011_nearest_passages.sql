-- The passages of plans, found by the stems that SQLite makes of their words: what is shown
-- where no passage answers a question for certain.

-- A row is section_id * 64 + the passage's number in its section. `plan` holds `p` and the
-- plan's id; `place` holds the words of the headings above.
CREATE VIRTUAL TABLE plan_passages USING fts5 (
    plan, place, said,
    content = '', contentless_delete = 1, detail = full,
    tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Which version of the indexing made the plan's index; an older one is made anew.
ALTER TABLE plans ADD COLUMN index_version INTEGER NOT NULL DEFAULT 0;

-- The alert that a test failure raised.
ALTER TABLE failures ADD COLUMN alert TEXT REFERENCES tickets (ticket_id);

-- What was kept of a report under a handle.
CREATE INDEX notes_by_report ON notes (report_id) WHERE report_id IS NOT NULL;
CREATE INDEX failures_by_report ON failures (report_id);
CREATE INDEX failures_by_alert ON failures (alert) WHERE alert IS NOT NULL;
