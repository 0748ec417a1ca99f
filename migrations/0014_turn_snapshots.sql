-- What the worktrees of an attempt had when a turn had ended.

CREATE TABLE turn_snapshots (
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    turn       INTEGER NOT NULL,
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    commit_id  TEXT NOT NULL,
    tree_id    TEXT NOT NULL,
    -- The merge base with the target branch at that time: "turn 0".
    base_id    TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, turn, repo)
) STRICT, WITHOUT ROWID;

-- 1: the turn has ended, and its snapshot is still to be made. Turns that ended before this
-- migration get none: people may have changed their worktrees since.
ALTER TABLE processes ADD COLUMN snapshot_due INTEGER NOT NULL DEFAULT 0;
CREATE INDEX due_snapshots ON processes (attempt_id, turn) WHERE snapshot_due = 1;

-- The attempt, and its turn, whose snapshot this one began from.
ALTER TABLE attempts ADD COLUMN forked_from TEXT REFERENCES attempts (attempt_id);
ALTER TABLE attempts ADD COLUMN forked_turn INTEGER;

-- Whether the newest snapshots of two attempts, or of one and its target branch, merge.
CREATE TABLE probes (
    attempt_id   TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The other attempt, whose id is the larger one of the two; '': the target branch.
    other_id     TEXT NOT NULL,
    -- The repository's path.
    repo         TEXT NOT NULL,
    commit_id    TEXT NOT NULL,
    other_commit TEXT NOT NULL,
    -- The merged tree; with conflict markers where there are conflicts.
    tree_id      TEXT NOT NULL,
    -- The first paths in conflict, as a JSON array, and how many there are; 0: they merge.
    paths        TEXT NOT NULL,
    path_count   INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, other_id, repo)
) STRICT, WITHOUT ROWID;
CREATE INDEX probes_by_other ON probes (other_id);
