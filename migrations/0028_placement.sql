-- An attempt whose host is '' is on no host: it waits in the queue until one with a free slot
-- claims it. What its executor asks of that host: JSON, an array of labels.
ALTER TABLE attempts ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
CREATE INDEX unplaced_attempts ON attempts (created_at) WHERE host = '';
-- The host that was lost with this turn.
ALTER TABLE processes ADD COLUMN lost_host TEXT;
-- 'all', 'gateway': it runs no attempts, or 'worker': it serves its own attempts alone.
ALTER TABLE hosts ADD COLUMN role TEXT NOT NULL DEFAULT 'all';
