-- What the role of one host may do at the database. `provost cluster role` makes such roles and grants
-- them what `store/rights.rs` lists; the policies here say on which rows. None of this binds the owner of
-- the tables.

-- What proves a host's home is apart from the host: no host reads that of another one.
CREATE TABLE host_homes (
    host_id TEXT PRIMARY KEY REFERENCES hosts (host_id) ON DELETE CASCADE,
    -- Hash of what the home holds.
    secret  TEXT NOT NULL
);
INSERT INTO host_homes SELECT host_id, secret FROM hosts;
ALTER TABLE hosts DROP COLUMN secret;

-- The host whose daemon keeps the answer.
ALTER TABLE requests ADD COLUMN host TEXT NOT NULL DEFAULT 'local';

-- Whose role is whose. Only the owner writes it.
CREATE TABLE host_roles (
    role TEXT PRIMARY KEY,
    host TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('gateway', 'worker'))
);

-- The projects that a host has had attempts of.
CREATE TABLE host_projects (
    host       TEXT NOT NULL,
    project_id TEXT NOT NULL,
    PRIMARY KEY (host, project_id)
);
INSERT INTO host_projects
SELECT DISTINCT a.host, t.project_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
WHERE a.host <> '';

-- The functions see all rows, whoever calls them. They say nothing of other hosts' rows but what is
-- said here. `session_user` is who has logged in.

CREATE FUNCTION note_project() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO host_projects
    SELECT NEW.host, t.project_id FROM tasks t WHERE t.task_id = NEW.task_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$;
CREATE TRIGGER attempts_of_hosts AFTER INSERT OR UPDATE OF host ON attempts
    FOR EACH ROW WHEN (NEW.host <> '') EXECUTE FUNCTION note_project();

-- The host whose role this is; NULL: it is no host's.
CREATE FUNCTION own_host() RETURNS TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT r.host FROM host_roles r WHERE r.role = CAST(session_user AS TEXT));
END;
$$;

CREATE FUNCTION is_gateway() RETURNS BOOLEAN LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM host_roles r
                   WHERE r.role = CAST(session_user AS TEXT) AND r.kind = 'gateway');
END;
$$;

-- What this host is to carry out. A call of a worker gives its host no right (policy `asks`).
CREATE FUNCTION given() RETURNS SETOF JSONB LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT json_of(c.call) FROM host_calls c
    WHERE c.host = own_host() AND c.answered_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM host_roles r WHERE r.host = c.asked_by AND r.kind = 'worker');
END;
$$;

-- The ids in the arguments of these calls.
CREATE FUNCTION named() RETURNS SETOF TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT lower(v.value)
    FROM given() g,
         LATERAL jsonb_each_text((g -> 'arguments') || coalesce(g #> '{arguments, page}', '{}')) v
    WHERE length(v.value) = 36;
END;
$$;

-- The keys that these calls may have.
CREATE FUNCTION called_ids() RETURNS SETOF TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT 'call:' || (g ->> 'id') FROM given() g
    UNION ALL SELECT 'request:' || (g #>> '{arguments, request_id}') FROM given() g;
END;
$$;

-- Whether such a call is about the attempt.
CREATE FUNCTION is_called(attempt TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM named() n
        WHERE n = attempt
           OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = n AND s.attempt_id = attempt)
           OR EXISTS (SELECT 1 FROM approvals v
                      WHERE v.approval_id = n AND v.attempt_id = attempt));
END;
$$;

-- Whether the attempt is this host's, one that it may claim, or one that it is called for.
CREATE FUNCTION is_mine(attempt TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM attempts a WHERE a.attempt_id = attempt
                   AND (a.host = own_host() OR a.host = '' AND a.phase = 'queued'))
        OR is_called(attempt);
END;
$$;

-- The projects of what this host runs or has run, may claim, or is called for.
CREATE FUNCTION own_projects() RETURNS SETOF TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    own TEXT := own_host();
BEGIN
    IF own IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH n AS MATERIALIZED (SELECT named() AS id)
    SELECT p.project_id FROM host_projects p WHERE p.host = own
    UNION SELECT t.project_id FROM attempts a JOIN tasks t ON t.task_id = a.task_id
          WHERE a.host = '' AND a.phase = 'queued'
    UNION SELECT t.project_id FROM n JOIN tasks t ON t.task_id = n.id
    UNION SELECT r.project_id FROM n JOIN repos r ON r.repo_id = n.id
    UNION SELECT t.project_id FROM n JOIN attempts a ON a.attempt_id = n.id
          JOIN tasks t ON t.task_id = a.task_id
    UNION SELECT t.project_id FROM n JOIN sessions s ON s.session_id = n.id
          JOIN attempts a ON a.attempt_id = s.attempt_id JOIN tasks t ON t.task_id = a.task_id
    UNION SELECT t.project_id FROM n JOIN approvals v ON v.approval_id = n.id
          JOIN attempts a ON a.attempt_id = v.attempt_id JOIN tasks t ON t.task_id = a.task_id;
END;
$$;

CREATE FUNCTION sees_task(task TEXT) RETURNS BOOLEAN LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM tasks t
                   WHERE t.task_id = task AND t.project_id IN (SELECT own_projects()));
END;
$$;

-- Numbers that are counted over the whole board.
CREATE FUNCTION newest_revision() RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT coalesce(max(revision), 0) FROM attempts);
END;
$$;

CREATE FUNCTION newest_position() RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT coalesce(max(position), 0) FROM follow_ups);
END;
$$;

CREATE FUNCTION oldest_position() RETURNS BIGINT LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN (SELECT coalesce(min(position), 1) FROM follow_ups);
END;
$$;

-- The changes are counted by whoever changes something, and written by none of them.
ALTER FUNCTION note_change() SECURITY DEFINER;

-- A function with the rights of its owner must not find what its caller has put in the way.
DO $$
DECLARE
    f REGPROCEDURE;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.prosecdef AND p.pronamespace = CAST(current_schema() AS REGNAMESPACE) LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END;
$$;

-- Views show what their reader may read.
ALTER VIEW attempt_overview SET (security_invoker = true);
ALTER VIEW task_overview SET (security_invoker = true);
ALTER VIEW task_holders SET (security_invoker = true);
ALTER VIEW contestants SET (security_invoker = true);

-- A gateway may have all rows of these; the policies of workers follow. What has none here, as
-- users and logins, is granted to no worker.
DO $$
DECLARE
    t TEXT;
BEGIN
    FOREACH t IN ARRAY ARRAY[
        'projects', 'repos', 'tasks', 'task_dependencies', 'attempts', 'attempt_repos', 'sessions',
        'processes', 'requests', 'follow_ups', 'approvals', 'handles', 'leases', 'reports', 'tickets',
        'notes', 'failures', 'plans', 'plan_documents', 'plan_sections', 'plan_passages', 'questions',
        'question_askers', 'finishes', 'check_runs', 'receipts', 'turn_snapshots', 'probes', 'ports',
        'trust', 'remotes', 'reviews', 'comments', 'changes', 'hosts', 'host_calls', 'cluster',
        'repo_hosts', 'turn_bundles', 'base_bundles', 'bundle_parts', 'shipped_logs', 'log_chunks'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY gateway ON %I USING ((SELECT is_gateway()))', t);
    END LOOP;
    -- What belongs to a project.
    FOREACH t IN ARRAY ARRAY[
        'projects', 'repos', 'tasks', 'handles', 'reports', 'tickets', 'notes', 'failures', 'plans',
        'questions'
    ] LOOP
        EXECUTE format('CREATE POLICY worker ON %I USING (project_id IN (SELECT own_projects()))', t);
    END LOOP;
    -- What belongs to an attempt.
    FOREACH t IN ARRAY ARRAY[
        'attempt_repos', 'sessions', 'processes', 'approvals', 'finishes', 'turn_snapshots', 'probes',
        'reviews', 'comments', 'turn_bundles', 'shipped_logs', 'log_chunks'
    ] LOOP
        EXECUTE format('CREATE POLICY worker ON %I USING (is_mine(attempt_id))', t);
    END LOOP;
END;
$$;

CREATE POLICY worker_reads ON attempts FOR SELECT
    USING (host = (SELECT own_host()) OR sees_task(task_id));
CREATE POLICY worker_starts ON attempts FOR INSERT
    WITH CHECK ((host = (SELECT own_host()) OR host = '' AND phase = 'queued') AND sees_task(task_id));
CREATE POLICY worker_changes ON attempts FOR UPDATE
    USING (host = (SELECT own_host()) OR host = '' AND phase = 'queued'
           OR phase IN ('settled', 'idle') AND is_called(attempt_id))
    WITH CHECK ((host = (SELECT own_host()) OR host = '') AND sees_task(task_id));

CREATE POLICY worker ON task_dependencies USING (sees_task(task_id));
CREATE POLICY worker ON leases USING (sees_task(task_id));
CREATE POLICY worker ON follow_ups
    USING (EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = follow_ups.session_id));
CREATE POLICY worker ON question_askers
    USING (EXISTS (SELECT 1 FROM questions q WHERE q.question_id = question_askers.question_id));
CREATE POLICY worker ON check_runs USING (sees_task(task_id))
    WITH CHECK (sees_task(task_id) AND host = (SELECT own_host()));
CREATE POLICY worker ON receipts
    USING (EXISTS (SELECT 1 FROM check_runs r WHERE r.run_id = receipts.run_id))
    WITH CHECK (EXISTS (SELECT 1 FROM check_runs r
                        WHERE r.run_id = receipts.run_id AND r.host = (SELECT own_host())));
CREATE POLICY worker ON plan_documents
    USING (EXISTS (SELECT 1 FROM plans p WHERE p.plan_id = plan_documents.plan_id));
CREATE POLICY worker ON plan_sections
    USING (EXISTS (SELECT 1 FROM plans p WHERE p.plan_id = plan_sections.plan_id));
CREATE POLICY worker ON plan_passages
    USING (rowid / 64 IN (SELECT s.section_id FROM plan_sections s));

-- Its own kept answers, and those of calls that it is to carry out again.
CREATE POLICY worker ON requests
    USING (host = (SELECT own_host()) OR request_id IN (SELECT called_ids())
           OR is_mine(json_text(intent, 'attempt_id')))
    WITH CHECK (host = (SELECT own_host()));

-- No two hosts of one network need have the same ports, and each has to know which are taken.
CREATE POLICY worker_reads ON ports FOR SELECT USING (true);
CREATE POLICY worker_takes ON ports FOR INSERT WITH CHECK (is_mine(attempt_id));
CREATE POLICY worker_returns ON ports FOR DELETE USING (is_mine(attempt_id));

-- A person approves commands at a gateway, which has the attempt's host write it down.
CREATE POLICY worker_reads ON trust FOR SELECT
    USING (EXISTS (SELECT 1 FROM repos r WHERE r.path = trust.repo));
CREATE POLICY worker_notes ON trust FOR INSERT
    WITH CHECK (EXISTS (SELECT 1 FROM repos r WHERE r.path = trust.repo)
                AND EXISTS (SELECT 1 FROM host_calls c
                            WHERE c.host = (SELECT own_host()) AND c.answered_at IS NULL
                              AND json_text(c.call, 'tool') IN ('answer', 'respond_approval')));

CREATE POLICY worker ON remotes
    USING (EXISTS (SELECT 1 FROM repos r WHERE r.repo_id = remotes.repo_id));
CREATE POLICY worker ON changes USING (true);
CREATE POLICY worker ON cluster USING (true);

CREATE POLICY worker_reads ON hosts FOR SELECT USING (true);
CREATE POLICY worker_registers ON hosts FOR INSERT WITH CHECK (host_id = (SELECT own_host()));
CREATE POLICY worker_renews ON hosts FOR UPDATE USING (host_id = (SELECT own_host()));

-- Also of gateways.
ALTER TABLE host_homes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON host_homes USING (host_id = (SELECT own_host()));
ALTER TABLE host_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON host_roles FOR SELECT USING (host = (SELECT own_host()));

CREATE POLICY worker ON host_calls
    USING (host = (SELECT own_host()) OR asked_by = (SELECT own_host()));
-- The permissive policy above would let it ask for anything.
CREATE POLICY asks ON host_calls AS RESTRICTIVE FOR INSERT
    WITH CHECK ((SELECT is_gateway())
                OR asked_by = (SELECT own_host()) AND json_text(call, 'tool') = 'provost/base'
                   AND EXISTS (SELECT 1 FROM repos r
                               WHERE r.repo_id = json_text(call, '$.arguments.repo_id')));

CREATE POLICY worker_reads ON repo_hosts FOR SELECT
    USING (host = (SELECT own_host())
           OR EXISTS (SELECT 1 FROM repos r WHERE r.repo_id = repo_hosts.repo_id));
CREATE POLICY worker_has ON repo_hosts FOR INSERT WITH CHECK (host = (SELECT own_host()));
CREATE POLICY worker_has_not ON repo_hosts FOR DELETE USING (host = (SELECT own_host()));
CREATE POLICY worker ON base_bundles
    USING (EXISTS (SELECT 1 FROM repos r WHERE r.repo_id = base_bundles.repo_id));
-- The name of a part is the hash of what it is of, and whoever takes it in compares both.
CREATE POLICY worker_reads ON bundle_parts FOR SELECT
    USING (EXISTS (SELECT 1 FROM turn_bundles t WHERE t.sha256 = bundle_parts.sha256)
           OR EXISTS (SELECT 1 FROM base_bundles b WHERE b.sha256 = bundle_parts.sha256));
CREATE POLICY worker_keeps ON bundle_parts FOR INSERT WITH CHECK (true);
