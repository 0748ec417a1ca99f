-- What pages look at: closed tasks by when they changed, work that was verified and may still be
-- merged, turns by when they ended, and the checks of an attempt.

CREATE INDEX closed_tasks ON tasks (updated_at, project_id, kind, status, standing)
WHERE status IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX verified_tasks ON tasks (project_id, task_id)
WHERE status = 'done' AND standing = 'verified' AND deleted_at IS NULL;
CREATE INDEX turns_by_end ON processes (ended_at) WHERE run_reason = 'coding_agent';
CREATE INDEX check_runs_by_attempt ON check_runs (attempt_id, run_id) WHERE attempt_id IS NOT NULL;
