//! Roles of hosts at a server: what each kind may do with which table. On which rows it may is in the
//! policies of the schema. The owner of the schema is bound by neither.

use provost_actors::host::is_label;
use sqlx::{AssertSqlSafe, PgConnection};

use super::connection::Driver;
use super::{Code, Db, Patience, Refusal, Result, Sql, Store};

/// The longest name of a role, in bytes: PostgreSQL would cut a longer one.
const NAME_MAX: usize = 63;

/// What the role of a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// It serves clients and has all of the board, but is no owner of it.
    Gateway,
    /// It runs attempts, and has what these need.
    Worker,
}

/// The role of a host, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoleMade {
    /// Its name at the server.
    pub role: String,
    pub is_new: bool,
    /// Whether it sees if the server has a synchronous standby.
    pub sees_standbys: bool,
}

/// What a worker may do with a table or a view; with none that is not here.
const WORKER: &[(&str, &str)] = &[
    ("_sqlx_migrations", "SELECT"),
    ("approvals", "SELECT, INSERT, UPDATE"),
    ("attempt_overview", "SELECT"),
    ("attempt_repos", "SELECT, INSERT"),
    ("attempts", "SELECT, INSERT, UPDATE"),
    ("base_bundles", "SELECT, INSERT"),
    ("bundle_parts", "SELECT, INSERT, DELETE"),
    ("changes", "SELECT"),
    ("check_runs", "SELECT, INSERT, UPDATE"),
    ("cluster", "SELECT, UPDATE (seen_at, no_sweep_before)"),
    ("comments", "SELECT, INSERT, UPDATE, DELETE"),
    ("contestants", "SELECT"),
    ("failures", "SELECT, INSERT"),
    (
        "finishes",
        "SELECT, INSERT, UPDATE (state, receipt, error, ended_at, applied_by, applied_at)",
    ),
    ("follow_ups", "SELECT, INSERT, DELETE"),
    ("handles", "SELECT, INSERT, UPDATE"),
    ("host_calls", "SELECT, INSERT, UPDATE (taken_by, answer, answered_at), DELETE"),
    ("host_homes", "SELECT, INSERT, UPDATE"),
    ("host_roles", "SELECT"),
    ("hosts", "SELECT, INSERT, UPDATE"),
    ("leases", "SELECT, INSERT, UPDATE, DELETE"),
    ("log_chunks", "SELECT, INSERT, DELETE"),
    ("notes", "SELECT, INSERT"),
    ("plan_documents", "SELECT"),
    ("plan_passages", "SELECT"),
    ("plan_sections", "SELECT"),
    ("plans", "SELECT"),
    ("ports", "SELECT, INSERT, DELETE"),
    ("probes", "SELECT, INSERT, UPDATE, DELETE"),
    ("processes", "SELECT, INSERT, UPDATE, DELETE"),
    ("projects", "SELECT"),
    ("question_askers", "SELECT, INSERT, UPDATE"),
    ("questions", "SELECT, INSERT, UPDATE"),
    ("receipts", "SELECT, INSERT"),
    ("remotes", "SELECT"),
    ("repo_hosts", "SELECT, INSERT, DELETE"),
    ("reports", "SELECT, INSERT"),
    ("repos", "SELECT"),
    ("requests", "SELECT, INSERT, UPDATE, DELETE"),
    ("reviews", "SELECT, INSERT"),
    ("running_attempts", "SELECT"),
    ("sessions", "SELECT, INSERT, UPDATE"),
    ("shipped_logs", "SELECT, INSERT, UPDATE"),
    ("task_dependencies", "SELECT, INSERT, DELETE"),
    ("task_holders", "SELECT"),
    ("task_overview", "SELECT"),
    ("tasks", "SELECT, INSERT, UPDATE"),
    ("tickets", "SELECT, INSERT, UPDATE"),
    ("trust", "SELECT, INSERT"),
    ("turn_bundles", "SELECT, INSERT, UPDATE, DELETE"),
    ("turn_snapshots", "SELECT, INSERT, DELETE"),
];

/// What a gateway may do with a table or a view; with a table of a later version too.
fn of_gateway(table: &str) -> &'static str {
    match table {
        "_sqlx_migrations" | "host_roles" => "SELECT",
        "host_projects" => "",
        _ => "SELECT, INSERT, UPDATE, DELETE",
    }
}

fn of_worker(table: &str) -> &'static str {
    WORKER.iter().find(|(name, _)| *name == table).map_or("", |(_, rights)| rights)
}

/// The tables and views of the board.
const TABLES: &str = "SELECT c.relname FROM pg_class c
    WHERE c.relkind IN ('r', 'v') AND c.relnamespace = CAST(current_schema() AS regnamespace)
      AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = CAST('hosts' AS regclass))
    ORDER BY c.relname";

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statements that take all rights on the board from a role, and give it those of a kind.
fn grants(schema: &str, tables: &[String], role: &str, kind: Option<HostKind>) -> String {
    let (role, space) = (quoted(role), quoted(schema));
    let mut statements = vec![format!("REVOKE ALL ON SCHEMA {space} FROM {role}")];
    if kind.is_some() {
        statements.push(format!("GRANT USAGE ON SCHEMA {space} TO {role}"));
    }
    for table in tables {
        let place = format!("{space}.{}", quoted(table));
        statements.push(format!("REVOKE ALL ON {place} FROM {role}"));
        let rights = match kind {
            Some(HostKind::Gateway) => of_gateway(table),
            Some(HostKind::Worker) => of_worker(table),
            None => "",
        };
        if !rights.is_empty() {
            statements.push(format!("GRANT {rights} ON {place} TO {role}"));
        }
    }
    statements.join(";\n")
}

/// The host whose role this connection has logged in with, and what it is for; `None`: it is no host's.
pub(super) async fn own(connection: &mut PgConnection) -> sqlx::Result<Option<(String, HostKind)>> {
    let sql = "SELECT coalesce(has_table_privilege(to_regclass('host_roles'), 'SELECT'), false)";
    if !sqlx::query_scalar(sql).fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    let sql = "SELECT host, kind = 'gateway' FROM host_roles
         WHERE role = CAST(session_user AS text)";
    let found: Option<(String, bool)> = sqlx::query_as(sql).fetch_optional(connection).await?;
    let kind = |is_gateway| if is_gateway { HostKind::Gateway } else { HostKind::Worker };
    Ok(found.map(|(host, is_gateway)| (host, kind(is_gateway))))
}

/// Gives each host's role the rights on what a migration has just made, if this is the owner.
pub(super) async fn renew(connection: &mut PgConnection) -> sqlx::Result<()> {
    let roles: Vec<(String, bool)> =
        sqlx::query_as("SELECT role, kind = 'gateway' FROM host_roles")
            .fetch_all(&mut *connection)
            .await?;
    if roles.is_empty() {
        return Ok(());
    }
    let sql = "SELECT CAST(current_schema() AS text)";
    let schema: String = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
    let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut *connection).await?;
    for (role, is_gateway) in roles {
        let kind = if is_gateway { HostKind::Gateway } else { HostKind::Worker };
        let sql = grants(&schema, &tables, &role, Some(kind));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
    }
    Ok(())
}

impl Store {
    /// What the role of this daemon is for; `None`: it is no host's, but the owner's.
    pub fn rights(&self) -> Option<HostKind> {
        self.rights
    }

    /// Makes the role of a host, or changes it, and gives it the rights of a kind. `of_new` is the
    /// password of a new role to which no other is given.
    ///
    /// # Errors
    /// The name can't be a host's, the role is one that may do more, or this daemon's role may not make
    /// roles.
    pub async fn make_host_role(
        &self,
        host: &str,
        kind: HostKind,
        password: Option<&str>,
        of_new: Option<&str>,
    ) -> Result<HostRoleMade, Refusal> {
        let role = role_of(host)?;
        self.write(Patience::OneTry, "host_role", async |db| {
            let is_new = match may_do_more(db, &role).await? {
                Some(true) => return Err(too_much(&role).into()),
                Some(false) => false,
                None => true,
            };
            let what = if is_new { "CREATE" } else { "ALTER" };
            let password = password
                .or(of_new.filter(|_| is_new))
                .map_or_else(String::new, |it| format!(" PASSWORD {}", text(it)));
            execute(db, format!("{what} ROLE {} LOGIN{password}", quoted(&role))).await?;
            let sql = "INSERT INTO host_roles (role, host, kind) VALUES ($1, $2, $3)
                 ON CONFLICT (role) DO UPDATE SET kind = excluded.kind";
            db.run(sql, (&role, host, kind)).await?;
            set_grants(db, &role, Some(kind)).await?;
            let sees_standbys = see_standbys(db, &role).await?;
            Ok(HostRoleMade { role: role.clone(), is_new, sees_standbys })
        })
        .await
    }

    /// Takes all rights from the role of a host and drops it. Returns its name, and why it is still
    /// there, if it is.
    ///
    /// # Errors
    /// The host has no role on this board.
    pub async fn drop_host_role(&self, host: &str) -> Result<(String, Option<String>), Refusal> {
        let role = self
            .write(Patience::OneTry, "host_role", async |db| {
                let sql = "DELETE FROM host_roles WHERE host = $1 RETURNING role";
                let role: Option<String> = db.find(sql, (host,)).await?;
                let Some(role) = role else {
                    let message = format!("host {host} has no role on this board");
                    return Err(Refusal::new(Code::InvalidArgument, message).into());
                };
                set_grants(db, &role, None).await?;
                Ok(role)
            })
            .await?;
        let sql = format!("DROP ROLE {}", quoted(&role));
        let dropped: Result<(), Refusal> =
            self.write(Patience::OneTry, "host_role", async |db| execute(db, sql).await).await;
        Ok((role, dropped.err().map(|refusal| refusal.message)))
    }
}

/// The name of a host's role.
fn role_of(host: &str) -> Result<String, Refusal> {
    let role = format!("provost_{host}");
    if is_label(host) && role.len() <= NAME_MAX {
        return Ok(role);
    }
    let message = format!("`{host}` can't be the name of a host with a role of its own");
    let longest = NAME_MAX - "provost_".len();
    Err(Refusal::new(Code::InvalidArgument, message)
        .hint(format!("Take 1 to {longest} of the characters A-Z a-z 0-9 . _ -.")))
}

/// Whether a role is not bound by the policies, or may change them; `None`: there is no such role.
async fn may_do_more(db: Db<'_>, role: &str) -> Result<Option<bool>> {
    let sql = "SELECT rolsuper OR rolcreaterole OR rolbypassrls OR pg_has_role(oid, (
             SELECT relowner FROM pg_class WHERE oid = CAST('hosts' AS regclass)), 'MEMBER')
         FROM pg_roles WHERE rolname = $1";
    db.find(sql, (role,)).await
}

fn too_much(role: &str) -> Refusal {
    let message = format!(
        "role {role} is there already and may do more than a host: it is a superuser, may make roles, \
         is bound by no row policies, or owns the board"
    );
    Refusal::new(Code::NotPermitted, message).hint("Give the host another name.")
}

async fn set_grants(db: Db<'_>, role: &str, kind: Option<HostKind>) -> Result<()> {
    let schema: String = db.one("SELECT CAST(current_schema() AS text)", ()).await?;
    let tables: Vec<String> = db.all(TABLES, ()).await?;
    execute(db, grants(&schema, &tables, role, kind)).await
}

/// Lets a role see whether commits outlive the server, if this one may: the daemon looks at its start.
async fn see_standbys(db: Db<'_>, role: &str) -> Result<bool> {
    let sql = "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'MEMBER WITH ADMIN OPTION')";
    if db.one(sql, ()).await? {
        execute(db, format!("GRANT pg_read_all_stats TO {}", quoted(role))).await?;
        return Ok(true);
    }
    let sql = "SELECT pg_has_role($1, 'pg_read_all_stats', 'MEMBER')";
    db.one(sql, (role,)).await
}

/// Statements without parameters.
async fn execute(db: Db<'_>, sql: String) -> Result<()> {
    if let Driver::Postgres(connection) = db.driver() {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    }
    Ok(())
}

/// A literal, whatever `standard_conforming_strings` is.
fn text(value: &str) -> String {
    format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_label_that_postgresql_would_not_cut_names_a_role() {
        assert_eq!(role_of("box-2").unwrap(), "provost_box-2");
        for bad in ["", "a b", "a\"b", "é", &"x".repeat(56)] {
            assert_eq!(role_of(bad).unwrap_err().code, Code::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn names_and_passwords_end_no_statement() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(text(r"it's \ x"), r"E'it\'s \\ x'");
    }

    #[test]
    fn rights_are_of_a_kind_and_none_stays() {
        let tables = ["hosts".to_owned(), "users".to_owned()];
        let worker = grants("s", &tables, "r", Some(HostKind::Worker));
        assert!(worker.contains("GRANT SELECT, INSERT, UPDATE ON \"s\".\"hosts\""), "{worker}");
        assert!(!worker.contains("\"users\" TO"), "{worker}");
        assert!(
            grants("s", &tables, "r", Some(HostKind::Gateway))
                .contains("DELETE ON \"s\".\"users\"")
        );
        assert!(!grants("s", &tables, "r", None).contains("GRANT"));
    }
}
