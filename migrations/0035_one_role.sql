-- When the daemon of a host ended with nothing running; its next registration clears it. Roles and row
-- policies of hosts, which go with this migration, are of PostgreSQL alone.
ALTER TABLE hosts ADD COLUMN ended_at INTEGER;
