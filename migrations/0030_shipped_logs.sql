-- The copies of attempts' logs, of a board that hosts share: what a host has shipped outlives it. A
-- file's board has none. No trigger counts changes of these tables.
CREATE TABLE shipped_logs (
    attempt_id       TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- 'normalized' or 'raw'.
    channel          TEXT NOT NULL,
    -- The host whose log it is of, and what proves its home: hosts.secret.
    host             TEXT NOT NULL,
    home             TEXT NOT NULL,
    -- The entries that it has: from this one on, to before the next.
    oldest           INTEGER NOT NULL,
    next_entry       INTEGER NOT NULL,
    -- Bytes of text before that.
    next_offset      INTEGER NOT NULL,
    last_activity_at INTEGER,
    shipped_at       INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, channel)
) STRICT;

-- Runs of entries, as they are on file at their host.
CREATE TABLE log_chunks (
    attempt_id   TEXT NOT NULL,
    channel      TEXT NOT NULL,
    first_entry  INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    entries      INTEGER NOT NULL,
    -- Length of the text.
    bytes        INTEGER NOT NULL,
    -- The text: a frame of zstd in base64.
    data         TEXT NOT NULL,
    PRIMARY KEY (attempt_id, channel, first_entry)
) STRICT;
