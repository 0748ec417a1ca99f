-- When another daemon has given this host's attempts away, because its lease was over: nothing of
-- this incarnation may write any more. The next registration clears it.
ALTER TABLE hosts ADD COLUMN fenced_at INTEGER;

-- What the daemons of a board have in common: one row.
CREATE TABLE cluster (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    -- Made once, so that a home knows its board again.
    board_id        TEXT NOT NULL,
    -- Counts the restorations of the board from a backup.
    generation      INTEGER NOT NULL,
    -- When a host renewed its lease last: a gap shows that the engine was away.
    seen_at         INTEGER NOT NULL,
    -- No host counts as lost before that: after a gap, each host gets the time to renew its lease.
    no_sweep_before INTEGER NOT NULL
) STRICT;
INSERT INTO cluster (one, board_id, generation, seen_at, no_sweep_before)
VALUES (1, lower(hex(randomblob(16))), 1, 0, 0);
