-- What proves a host's home is apart from the host: where each host has a role of its own at the
-- database, none of them reads that of another one.
CREATE TABLE host_homes (
    host_id TEXT PRIMARY KEY REFERENCES hosts (host_id) ON DELETE CASCADE,
    -- Hash of what the home holds.
    secret  TEXT NOT NULL
) STRICT;
INSERT INTO host_homes SELECT host_id, secret FROM hosts;
ALTER TABLE hosts DROP COLUMN secret;

-- The host whose daemon keeps the answer.
ALTER TABLE requests ADD COLUMN host TEXT NOT NULL DEFAULT 'local';
