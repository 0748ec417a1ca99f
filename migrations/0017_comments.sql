-- Comments on the lines that attempts changed, and the follow-ups that carry them.

CREATE TABLE reviews (
    review_id    TEXT PRIMARY KEY,
    attempt_id   TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The follow-up: it has a row of follow_ups while it waits, and then a process.
    queue_id     TEXT NOT NULL UNIQUE,
    message      TEXT,
    submitted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX reviews_by_attempt ON reviews (attempt_id, review_id);

CREATE TABLE comments (
    comment_id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    -- <repo>/<path>, as the change is listed.
    path       TEXT NOT NULL,
    -- The same of the version that is commented on, which a rename gave another name.
    file       TEXT NOT NULL,
    side       TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL,
    -- The turn whose snapshot has the change.
    turn       INTEGER NOT NULL,
    blob_id    TEXT NOT NULL,
    -- The text of the lines, cut.
    quoted     TEXT NOT NULL,
    text       TEXT NOT NULL,
    -- draft, sent or resolved. What came after sent is seen by the follow-up and the snapshots.
    state      TEXT NOT NULL,
    -- Counts the changes of a draft.
    version    INTEGER NOT NULL,
    review_id  TEXT REFERENCES reviews (review_id),
    author     TEXT NOT NULL,
    -- The attempt inside which it was written.
    author_id  TEXT REFERENCES attempts (attempt_id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX comments_by_attempt ON comments (attempt_id, comment_id);
CREATE INDEX comments_by_review ON comments (review_id) WHERE review_id IS NOT NULL;

-- The follow-up whose prompt it runs; of an attempt's first turn, and of older rows, none.
ALTER TABLE processes ADD COLUMN queue_id TEXT;
CREATE INDEX processes_by_follow_up ON processes (queue_id) WHERE queue_id IS NOT NULL;
