-- Bytes of its host's memory that an attempt asks for; 0: it is not counted.
ALTER TABLE attempts ADD COLUMN memory BIGINT NOT NULL DEFAULT 0;
-- The epoch in which it was let begin under the limit of its executor: it counts as running, also while
-- it still waits for a slot.
ALTER TABLE attempts ADD COLUMN admitted_epoch BIGINT NOT NULL DEFAULT 0;
-- 1: the copy has been cut down to its end since the last shipment, because it was old.
ALTER TABLE shipped_logs ADD COLUMN trimmed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX untrimmed_logs ON shipped_logs (shipped_at) WHERE trimmed = 0;

-- What runs, on all hosts, of the executors of work. It shows a worker's role the hosts' counts, and no
-- more of their attempts: a view has the rights of its owner.
CREATE VIEW running_attempts AS
    SELECT a.host, a.executor
    FROM attempts a JOIN tasks t ON t.task_id = a.task_id
    WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping') AND a.host <> ''
      AND (a.phase <> 'queued' OR a.admitted_epoch = a.epoch) AND t.kind <> 'answer';
