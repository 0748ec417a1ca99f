-- A finish that applies work to an attempt of another host: the host that does so, once it has begun, and
-- when it had done its part. Then the host of the finished attempt ends it.
ALTER TABLE finishes ADD COLUMN applied_by TEXT COLLATE "C";
ALTER TABLE finishes ADD COLUMN applied_at BIGINT;

-- The host of an attempt applies the work of others to it. What it may change of such a row is granted by
-- the column: not what is asked for.
CREATE POLICY worker_sees_applied ON finishes FOR SELECT
    USING (is_mine(json_text(request, 'onto')));
CREATE POLICY worker_applies ON finishes FOR UPDATE
    USING (is_mine(json_text(request, 'onto')));
