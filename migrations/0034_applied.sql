-- A finish that applies work to an attempt of another host: the host that does so, once it has begun, and
-- when it had done its part. Then the host of the finished attempt ends it.
ALTER TABLE finishes ADD COLUMN applied_by TEXT;
ALTER TABLE finishes ADD COLUMN applied_at INTEGER;
