-- The daemons of all hosts use the role that owns the board: row policies and roles of hosts go. Roles that
-- were made for hosts keep no right on the board; the owner can drop them.
DO $$
DECLARE
    r RECORD;
    f REGPROCEDURE;
BEGIN
    FOR r IN SELECT h.role FROM host_roles h JOIN pg_roles p ON p.rolname = h.role LOOP
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', current_schema(), r.role);
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', current_schema(), r.role);
    END LOOP;
    DROP TRIGGER attempts_of_hosts ON attempts;
    FOR r IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = current_schema() LOOP
        EXECUTE format('DROP POLICY %I ON %I', r.policyname, r.tablename);
    END LOOP;
    FOR r IN SELECT relname FROM pg_class
             WHERE relrowsecurity AND relnamespace = CAST(current_schema() AS REGNAMESPACE) LOOP
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', r.relname);
    END LOOP;
    FOR r IN SELECT relname FROM pg_class WHERE relkind = 'v' AND reloptions IS NOT NULL
             AND relnamespace = CAST(current_schema() AS REGNAMESPACE) LOOP
        EXECUTE format('ALTER VIEW %I RESET (security_invoker)', r.relname);
    END LOOP;
    ALTER FUNCTION note_change() SECURITY INVOKER;
    ALTER FUNCTION note_change() RESET search_path;
    -- All others with the rights of the owner.
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.prosecdef AND p.pronamespace = CAST(current_schema() AS REGNAMESPACE) LOOP
        EXECUTE format('DROP FUNCTION %s', f);
    END LOOP;
END;
$$;
DROP TABLE host_roles;
DROP TABLE host_projects;

-- When the daemon of a host ended with nothing running; its next registration clears it.
ALTER TABLE hosts ADD COLUMN ended_at BIGINT;
