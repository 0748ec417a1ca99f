-- Which host the repositories of a run of checks are on, and which host's daemon took the call that
-- asked a question. What a daemon takes up by itself is limited to its own host.
ALTER TABLE check_runs ADD COLUMN host TEXT NOT NULL DEFAULT 'local';
ALTER TABLE questions ADD COLUMN host TEXT NOT NULL DEFAULT 'local';
