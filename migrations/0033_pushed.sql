-- What a remote has of the snapshots of turns.
-- 'due': nothing yet; 'failed': nothing yet, and the attempt's log says why; 'there'; 'unwanted': it is to
-- be removed there; 'removed'.
ALTER TABLE turn_bundles ADD COLUMN pushed TEXT NOT NULL DEFAULT 'due';
-- The remote's name, once a push has begun.
ALTER TABLE turn_bundles ADD COLUMN remote TEXT;
-- What the board does not keep any more, no remote gets; the others are larger than the board keeps.
UPDATE turn_bundles SET pushed = 'removed' WHERE sha256 IS NULL AND bytes <= 67108864;
CREATE INDEX pushes ON turn_bundles (pushed);
