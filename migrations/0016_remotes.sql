-- Where the remotes of a repository lead to, as a person has seen it: an agent can write the
-- repository's configuration, so only what is recorded here is pushed to.

CREATE TABLE remotes (
    repo_id TEXT NOT NULL REFERENCES repos (repo_id),
    name    TEXT NOT NULL,
    url     TEXT NOT NULL,
    PRIMARY KEY (repo_id, name)
) STRICT, WITHOUT ROWID;
