-- Calls that the daemon of one host has the daemon of another one carry out. A row is deleted once
-- its answer is old.
CREATE TABLE host_calls (
    call_id     TEXT PRIMARY KEY,
    -- The host that carries it out, and the one whose daemon waits for the answer.
    host        TEXT NOT NULL,
    asked_by    TEXT NOT NULL,
    -- JSON: the tool or method, the caller as the asking daemon knows it, the arguments and the
    -- client's id of the call.
    call        TEXT NOT NULL,
    asked_at    INTEGER NOT NULL,
    -- It is not taken after that.
    deadline    INTEGER NOT NULL,
    -- The incarnation of the host that has taken it: a later one takes it again.
    taken_by    INTEGER,
    -- JSON.
    answer      TEXT,
    answered_at INTEGER
) STRICT;
CREATE INDEX open_host_calls ON host_calls (host) WHERE answered_at IS NULL;
