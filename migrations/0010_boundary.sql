-- Who started an attempt, and which tasks stand where a start or a follow-up put them.

-- The attempt inside which the start was asked for; NULL: outside of all.
ALTER TABLE attempts ADD COLUMN parent_id TEXT REFERENCES attempts (attempt_id);
CREATE INDEX attempts_by_parent ON attempts (parent_id) WHERE parent_id IS NOT NULL;

-- The newest revision of all attempts when a start or a follow-up made the task
-- 'inprogress'; NULL: somebody else has set its status since.
ALTER TABLE tasks ADD COLUMN begun_revision INTEGER;
