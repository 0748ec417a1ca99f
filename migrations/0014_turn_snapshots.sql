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

-- When a person removed the project. Its rows stay: its attempts stay readable.
ALTER TABLE projects ADD COLUMN deleted_at INTEGER;

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

-- The newest snapshots of the attempts whose work is still to be merged: their tasks are open, and
-- they were not merged or discarded since their last turn.
CREATE VIEW contestants AS
SELECT n.attempt_id, n.commit_id, n.base_id, n.made_at, a.folder, r.path, r.name AS repo_name, r.position,
       r.target_branch
FROM turn_snapshots n
JOIN attempts a ON a.attempt_id = n.attempt_id
JOIN tasks t ON t.task_id = a.task_id
JOIN attempt_repos r ON r.attempt_id = n.attempt_id AND r.name = n.repo
WHERE n.turn = (SELECT max(m.turn) FROM turn_snapshots m WHERE m.attempt_id = n.attempt_id)
  AND t.deleted_at IS NULL AND t.status NOT IN ('done', 'cancelled') AND t.kind <> 'answer'
  AND NOT EXISTS (
      SELECT 1 FROM finishes f
      WHERE f.attempt_id = n.attempt_id AND f.state = 'done'
        AND f.request ->> 'action' IN ('merge', 'discard')
        AND f.created_at >= (SELECT coalesce(max(x.ended_at), 0) FROM processes x
                             WHERE x.attempt_id = n.attempt_id
                               AND x.run_reason = 'coding_agent'));
CREATE INDEX finishes_by_attempt ON finishes (attempt_id);
