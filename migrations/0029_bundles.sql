-- What another host needs to go on with an attempt: which hosts have a repository at its path, and
-- commits as files of `git bundle`.

CREATE TABLE repo_hosts (
    repo_id TEXT NOT NULL REFERENCES repos (repo_id),
    host    TEXT NOT NULL,
    PRIMARY KEY (repo_id, host)
) STRICT, WITHOUT ROWID;

-- The snapshot of an attempt's newest turn, with all commits since the attempt's base commit.
CREATE TABLE turn_bundles (
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    turn       INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    -- The commit that a repository has to have before; NULL: it holds the whole history.
    needs      TEXT,
    -- Of the content; NULL: it has more bytes than are kept.
    sha256     TEXT,
    bytes      INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, repo)
) STRICT, WITHOUT ROWID;

-- Commits that attempts begin from and that no remote has.
CREATE TABLE base_bundles (
    repo_id    TEXT NOT NULL REFERENCES repos (repo_id),
    commit_id  TEXT NOT NULL,
    needs      TEXT,
    sha256     TEXT,
    bytes      INTEGER NOT NULL,
    made_at    INTEGER NOT NULL,
    PRIMARY KEY (repo_id, commit_id)
) STRICT, WITHOUT ROWID;

-- The contents, in base64 and in parts, so that none is held in memory whole.
CREATE TABLE bundle_parts (
    sha256  TEXT NOT NULL,
    part    INTEGER NOT NULL,
    content TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (sha256, part)
) STRICT, WITHOUT ROWID;

-- The epoch in which the attempt came to its host; 0: it has always been there. Worktrees that
-- were made there before are not those of the attempt any more.
ALTER TABLE attempts ADD COLUMN placed_epoch INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER attempts_placed AFTER UPDATE OF host ON attempts WHEN NEW.host <> OLD.host BEGIN
    UPDATE attempts SET placed_epoch = NEW.epoch WHERE attempt_id = NEW.attempt_id;
END;
