-- Who may use the HTTP face, and which objects changed last.

CREATE TABLE users (
    name TEXT PRIMARY KEY,
    access TEXT NOT NULL CHECK (access IN ('read', 'write', 'admin')),
    -- SHA-256 of the token, in base64url: the token itself is nowhere.
    token_hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- Links that log a browser in, once.
CREATE TABLE login_links (
    code_hash TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Browsers that are logged in.
CREATE TABLE logins (
    cookie_hash TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last change of each object that a page shows, by one sequence of numbers. Triggers write
-- it, so that no change lacks its number and none has one before it is committed. An object that
-- is deleted keeps its row.
CREATE TABLE changes (
    topic TEXT NOT NULL,
    id TEXT NOT NULL,
    number INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER projects_insert_changes_project AFTER INSERT ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER projects_update_changes_project AFTER UPDATE ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER projects_delete_changes_project AFTER DELETE ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', OLD.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_insert_changes_project AFTER INSERT ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_update_changes_project AFTER UPDATE ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_delete_changes_project AFTER DELETE ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', OLD.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_insert_changes_task AFTER INSERT ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_update_changes_task AFTER UPDATE ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_delete_changes_task AFTER DELETE ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', OLD.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER task_dependencies_insert_changes_task AFTER INSERT ON task_dependencies BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER task_dependencies_delete_changes_task AFTER DELETE ON task_dependencies BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', OLD.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_insert_changes_attempt AFTER INSERT ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_update_changes_attempt AFTER UPDATE ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_delete_changes_attempt AFTER DELETE ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', OLD.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER turn_snapshots_insert_changes_attempt AFTER INSERT ON turn_snapshots BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER finishes_insert_changes_attempt AFTER INSERT ON finishes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER finishes_update_changes_attempt AFTER UPDATE ON finishes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER check_runs_insert_changes_task AFTER INSERT ON check_runs BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER check_runs_update_changes_task AFTER UPDATE ON check_runs BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER approvals_insert_changes_inbox AFTER INSERT ON approvals BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.approval_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER approvals_update_changes_inbox AFTER UPDATE ON approvals BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.approval_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER questions_insert_changes_inbox AFTER INSERT ON questions BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.question_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER questions_update_changes_inbox AFTER UPDATE ON questions BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.question_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tickets_insert_changes_inbox AFTER INSERT ON tickets BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.ticket_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tickets_update_changes_inbox AFTER UPDATE ON tickets BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.ticket_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER notes_insert_changes_inbox AFTER INSERT ON notes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.note_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER failures_insert_changes_inbox AFTER INSERT ON failures BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.failure_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;


-- A comment is a part of its attempt.
CREATE TRIGGER comments_insert_changes_attempt AFTER INSERT ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER comments_update_changes_attempt AFTER UPDATE ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER comments_delete_changes_attempt AFTER DELETE ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', OLD.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;
