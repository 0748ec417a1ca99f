-- Why the snapshot of a turn that is due can't be made now: the turn counts as settled all the same.
ALTER TABLE processes ADD COLUMN snapshot_failed TEXT;
-- Of the error that a turn failed by.
ALTER TABLE processes ADD COLUMN error_type TEXT;
