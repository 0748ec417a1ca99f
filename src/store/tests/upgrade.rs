//! The schema of a board changes while daemons of an older version use it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures_util::future::{LocalBoxFuture, join_all};
use provost_actors::event::Channel;
use provost_actors::journal::{Hosts as _, MaxRunning, Placement as _, Room};
use provost_actors::log::Mark;
use provost_actors::log::shipped::{Chunk, Shipment, Shipped, ShippedLogs as _};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqlSafeStr as _};
use tokio::sync::Semaphore;

use super::hosts::registration;
use super::*;
use crate::api::{Access, Caller, CallerLocation, ForwardedCall, Origin, Role};
use crate::store::schema::{MIGRATIONS, newest};

const LEASE: Duration = Duration::from_secs(30);

/// So often is each thing done before the schema changes.
const ROUNDS: usize = 10;

/// What the board has of what [`Daemon::step`] writes.
const WRITTEN: &str = "
    SELECT 'task ' || task_id AS id FROM tasks
    UNION ALL SELECT 'start ' || attempt_id FROM attempts WHERE phase = 'queued'
    UNION ALL SELECT 'claim ' || attempt_id FROM attempts WHERE phase = 'queued' AND host <> ''
    UNION ALL SELECT 'call ' || call_id FROM host_calls
    UNION ALL SELECT 'answer ' || call_id FROM host_calls WHERE answered_at IS NOT NULL
    UNION ALL SELECT 'line ' || attempt_id || ' ' || first_entry FROM log_chunks
    ORDER BY id";

/// A migration that notes what it found, and changes tables of both kinds of writes.
fn next() -> String {
    format!(
        "CREATE TABLE found AS {WRITTEN};
         CREATE TABLE found_leases AS SELECT host_id, lease_until FROM hosts;
         ALTER TABLE tasks ADD COLUMN era TEXT NOT NULL DEFAULT 'new';
         UPDATE tasks SET era = 'old';
         ALTER TABLE hosts ADD COLUMN era TEXT;
         ALTER TABLE attempts ADD COLUMN era TEXT;
         ALTER TABLE shipped_logs ADD COLUMN era TEXT;
         ALTER TABLE host_calls ADD COLUMN era TEXT;"
    )
}

/// A version with these migrations.
fn version(migrations: Vec<Migration>) -> &'static Migrator {
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.set_locking(false);
    Box::leak(Box::new(migrator))
}

/// The version after this one, whose migration does this.
fn version_after(sql: String) -> &'static Migrator {
    let (number, sql) = (newest(&MIGRATIONS) + 1, AssertSqlSafe(sql).into_sql_str());
    let next = Migration::new(number, "next".into(), MigrationType::Simple, sql, false);
    version(MIGRATIONS.iter().cloned().chain([next]).collect())
}

async fn open(server: &Server, host: &str) -> Result<Store, OpenError> {
    let store = Store::open_server(server, host, TimesToLive::default()).await?;
    store.register_host(&registration(host, host, Some(LEASE))).await.unwrap();
    Ok(store)
}

async fn migrations(store: &Store) -> Vec<i64> {
    let sql = "SELECT version FROM _sqlx_migrations ORDER BY version";
    store.read(async |db| db.all(sql, ()).await).await.unwrap()
}

async fn ids(store: &Store, sql: &str) -> Vec<String> {
    let sql = AssertSqlSafe(sql.to_owned());
    store.read(async |db| db.all(sql, ()).await).await.unwrap()
}

/// What daemons do with the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Task,
    Claim,
    Call,
    Line,
    Lease,
    Read,
}

const ALL: [Kind; 6] = [Kind::Task, Kind::Claim, Kind::Call, Kind::Line, Kind::Lease, Kind::Read];

/// What was acknowledged to daemons as written.
struct Acknowledged {
    ids: RefCell<BTreeSet<String>>,
    /// One for each that has done a thing often enough.
    warm: Semaphore,
}

impl Acknowledged {
    fn add(&self, kind: &str, id: &impl ToString) {
        let id = format!("{kind} {}", id.to_string());
        assert!(self.ids.borrow_mut().insert(id.clone()), "{id} twice");
    }
}

struct Daemon {
    store: Store,
    /// Another host.
    other: String,
    project: ProjectId,
    repo: RepoSummary,
    task: Task,
    /// An attempt of this host.
    logged: Option<AttemptId>,
}

impl Daemon {
    async fn step(&self, kind: Kind, acknowledged: &Acknowledged) -> Result<(), Refusal> {
        let store = &self.store;
        match kind {
            Kind::Task => {
                let key = key(&TaskId::new().to_string(), "a");
                let made = store.create_task(Some(&key), &new_task(self.project, &[])).await?;
                acknowledged.add("task", &made.0.value);
            }
            Kind::Claim => {
                let new = new_attempt(&self.repo, self.project, &self.task, Phase::Queued);
                let new = Attempt { host: String::new(), ..new };
                store.record_start(None, &new, &started(&new)).await?;
                acknowledged.add("start", &new.attempt_id);
                let (executors, room) = (["fake".to_owned()], Room { slots: 1, memory: 0 });
                let claimed = store.claim(1, &executors, &MaxRunning::new(), room).await?;
                claimed.attempts.iter().for_each(|it| acknowledged.add("claim", it));
            }
            Kind::Call => {
                let (id, deadline) = (AttemptId::new().to_string(), Timestamp::now().plus(LEASE));
                store.ask_host(&id, &self.other, &call(), deadline).await?;
                acknowledged.add("call", &id);
                for (id, _) in store.take_host_calls(1, &[]).await? {
                    let answer =
                        Ok(crate::api::Idempotent { value: json!(id), deduplicated: false });
                    store.answer_host_call(&id, &answer).await?;
                    acknowledged.add("answer", &id);
                }
            }
            Kind::Line => {
                let of = self.logged.unwrap();
                let before = store.shipped(of, Channel::Raw).await?;
                let first = before.as_ref().map_or(Mark::default(), Shipped::end);
                assert_eq!(store.ship(&[line(of, before, first)]).await?, 1);
                acknowledged.add("line", &format!("{of} {}", first.entry));
            }
            Kind::Lease => drop(store.renew_host(store.host(), 1, LEASE).await?),
            Kind::Read => {
                store.hosts().await?;
                let tasks = json!({"project_id": self.project, "limit": 20});
                store.tasks(&serde_json::from_value(tasks).unwrap(), None).await?;
                if let Some(logged) = self.logged {
                    store.status(logged).await?;
                    store.shipped(logged, Channel::Raw).await?;
                }
            }
        }
        Ok(())
    }

    /// Does it over and over, until it is refused for good.
    async fn keep_doing(&self, kind: Kind, acknowledged: &Acknowledged) {
        for round in 0.. {
            if round == ROUNDS {
                acknowledged.warm.add_permits(1);
            }
            match self.step(kind, acknowledged).await {
                // What it reads may have stayed as it was.
                Ok(()) if kind == Kind::Read && self.store.newer_migration().is_some() => return,
                Ok(()) => {}
                Err(refusal) if refusal.code == Code::DbLocked => {}
                Err(refusal) => {
                    let is_outdated = refusal.message.contains("newer version");
                    assert!(is_outdated && refusal.code.is_of_store(), "{kind:?}: {refusal}");
                    return;
                }
            }
        }
    }
}

fn call() -> ForwardedCall {
    let caller = Caller {
        role: Role::All,
        attempt: None,
        place: CallerLocation::Outside,
        is_person: true,
        agent: "a".into(),
        access: Access::Admin,
        cwd: None,
        origin: Origin::default(),
    };
    ForwardedCall { tool: "get_task".into(), caller, arguments: serde_json::Map::new(), id: None }
}

fn line(attempt_id: AttemptId, before: Option<Shipped>, first: Mark) -> Shipment {
    let chunk = Chunk::of(first, 1, b"{}\n").unwrap();
    Shipment {
        attempt_id,
        channel: Channel::Raw,
        before,
        oldest: 0,
        next: chunk.end(),
        last_activity_at: None,
        chunks: vec![chunk],
    }
}

/// Hosts of an older version, each of which does all of these things.
async fn older_hosts(server: &Server, kinds: &[Kind]) -> Vec<Daemon> {
    let names = ["old-0", "old-1", "old-2"];
    let stores = join_all(names.map(|name| open(server, name))).await;
    let stores: Vec<Store> = stores.into_iter().map(Result::unwrap).collect();
    let project = project(&stores[0]).await;
    let of = stores[0].start_context(task(&stores[0], project).await).await.unwrap().task;
    let mut daemons = Vec::new();
    for (number, store) in stores.into_iter().enumerate() {
        let other = names[(number + 1) % names.len()].to_owned();
        let repo = store.repos(project).await.unwrap().remove(0);
        let task = store.start_context(of.task_id).await.unwrap().task;
        let mut daemon = Daemon { store, other, project, repo, task, logged: None };
        if kinds.contains(&Kind::Line) {
            daemon.log().await;
        }
        daemons.push(daemon);
    }
    daemons
}

impl Daemon {
    /// Runs an attempt, whose log it has.
    async fn log(&mut self) {
        let new = new_attempt(&self.repo, self.project, &self.task, Phase::Running);
        let new = Attempt { host: self.store.host().to_owned(), ..new };
        self.store.record_start(None, &new, &started(&new)).await.unwrap();
        self.logged = Some(new.attempt_id);
    }
}

/// Has hosts of the older version do all of these things while two of the newer one start. What is on
/// the board afterwards is what was acknowledged to them. Returns a store of each of the two.
async fn upgrade(server: &Server, newer: &'static Migrator, kinds: &[Kind]) -> [Store; 2] {
    let older = older_hosts(server, kinds).await;
    let written = ids(&older[0].store, WRITTEN).await.into_iter().collect();
    let acknowledged = Acknowledged { ids: RefCell::new(written), warm: Semaphore::new(0) };
    let each = older.iter().flat_map(|daemon| kinds.iter().map(move |kind| (daemon, *kind)));
    let using = join_all(each.map(|(daemon, kind)| daemon.keep_doing(kind, &acknowledged)));
    let newer_server = server.clone().of_version(newer);
    let upgrading = async {
        let loops = u32::try_from(older.len() * kinds.len()).unwrap();
        drop(acknowledged.warm.acquire_many(loops).await);
        let open =
            |host: &'static str| Store::open_server(&newer_server, host, TimesToLive::default());
        let (one, other) = tokio::join!(open("new-0"), open("new-1"));
        [one.unwrap(), other.unwrap()]
    };
    let (_, stores) = tokio::join!(using, upgrading);
    for daemon in &older {
        daemon.store.fenced().await;
        assert_eq!(daemon.store.newer_migration(), Some(newest(newer)));
    }
    let known: Vec<i64> = newer.iter().map(|it| it.version).collect();
    assert_eq!(migrations(&stores[0]).await, known, "each once");
    assert_eq!(
        ids(&stores[1], WRITTEN).await,
        acknowledged.ids.borrow().iter().cloned().collect::<Vec<_>>()
    );
    stores
}

/// Both work, and an older one does not start.
async fn works(server: &Server, stores: [Store; 2]) {
    let refused = Store::open_server(server, "late", TimesToLive::default()).await;
    assert!(matches!(refused, Err(OpenError::Newer(_))), "{refused:?}");
    let acknowledged = Acknowledged { ids: RefCell::default(), warm: Semaphore::new(0) };
    let project = project(&stores[0]).await;
    for store in stores {
        store.register_host(&registration(store.host(), "new", Some(LEASE))).await.unwrap();
        let of = store.start_context(task(&store, project).await).await.unwrap().task;
        let (other, repo) =
            (store.host().to_owned(), store.repos(project).await.unwrap().remove(0));
        let mut daemon = Daemon { store, other, project, repo, task: of, logged: None };
        daemon.log().await;
        for kind in ALL {
            daemon.step(kind, &acknowledged).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_to_older_daemons_is_there_once_when_the_schema_changes() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "upgrade").await;
    let stores = upgrade(&server, version_after(next()), &ALL).await;
    let found = ids(&stores[0], "SELECT id FROM found ORDER BY id").await;
    assert_eq!(ids(&stores[0], WRITTEN).await, found, "the migration has found all of it");
    let renewed = "SELECT h.host_id FROM hosts h JOIN found_leases f ON f.host_id = h.host_id
         WHERE h.lease_until <> f.lease_until";
    assert_eq!(ids(&stores[0], renewed).await, [""; 0]);
    works(&server, stores).await;
}

#[tokio::test]
async fn a_home_that_is_new_to_an_older_board_leaves_it_as_it_is() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "new_home").await;
    let older = server.clone();
    let server = server.of_version(version_after(next()));
    let opened = async |server: &Server, home: Option<String>| {
        let server = server.clone().of_home("one", home);
        Store::open_server(&server, "a", TimesToLive::default()).await
    };
    let board = opened(&older, None).await.unwrap().board_id().await.unwrap();
    let refused = opened(&server, None).await.unwrap_err();
    assert!(matches!(refused, OpenError::Older { .. }), "{refused}");
    assert!(refused.to_string().contains("provost cluster migrate"), "{refused}");
    opened(&older, Some(board.clone())).await.unwrap();
    opened(&server, Some(board)).await.unwrap();
}

/// Where a migration waits, as long as it is shut.
struct Gate(PgConnection, i32);

impl Gate {
    async fn shut(url: &str, number: i32) -> Self {
        let mut gate = Self(PgConnection::connect(url).await.unwrap(), number);
        gate.ask("SELECT pg_advisory_lock($1)").await;
        gate
    }

    async fn open(&mut self) {
        self.ask("SELECT pg_advisory_unlock($1)").await;
    }

    async fn ask(&mut self, sql: &'static str) {
        sqlx::query(sql).bind(i64::from(self.1)).execute(&mut self.0).await.unwrap();
    }

    /// Waits until it is reached: the process of the server that waits there.
    async fn reached<T>(&mut self, migrating: &mut LocalBoxFuture<'static, T>) -> i32 {
        tokio::select! {
            pid = self.waiting() => pid,
            _ = migrating => panic!("it has passed the gate"),
        }
    }

    async fn waiting(&mut self) -> i32 {
        let sql = "SELECT pid FROM pg_locks
             WHERE locktype = 'advisory' AND objid = CAST($1 AS oid) AND NOT granted";
        loop {
            let found = sqlx::query_scalar(sql).bind(self.1).fetch_optional(&mut self.0).await;
            if let Some(pid) = found.unwrap() {
                return pid;
            }
        }
    }

    /// Waits until it has ended.
    async fn gone(&mut self, pid: i32) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
        while sqlx::query_scalar::<_, i64>(sql).bind(pid).fetch_one(&mut self.0).await.unwrap() > 0
        {
        }
    }
}

/// A daemon of the newer version that starts.
fn start(
    server: &Server,
    newer: &'static Migrator,
) -> LocalBoxFuture<'static, Result<Store, OpenError>> {
    let server = server.clone().of_version(newer);
    Box::pin(async move { Store::open_server(&server, "new", TimesToLive::default()).await })
}

#[tokio::test]
async fn of_a_migration_that_is_cut_off_nothing_is_left_and_the_next_one_is_whole() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "cut_off").await;
    let older = open(&server, "old").await.unwrap();
    let newer = version_after(format!("{} SELECT pg_advisory_xact_lock(4711);", next()));
    let mut gate = Gate::shut(&url, 4711).await;
    for is_at_the_server in [true, false] {
        let mut migrating = start(&server, newer);
        let pid = gate.reached(&mut migrating).await;
        let refused = older.renew_host("old", 1, LEASE).await.unwrap_err();
        assert!(refused.code == Code::DbLocked && refused.message.contains("schema"), "{refused}");
        if is_at_the_server {
            let sql = "SELECT pg_terminate_backend($1)";
            sqlx::query(sql).bind(pid).execute(&mut gate.0).await.unwrap();
            assert!(migrating.await.is_err());
        } else {
            drop(migrating);
            // The server goes on to the end of what it was asked, and finds that no one listens.
            gate.open().await;
        }
        gate.gone(pid).await;
        assert_eq!(older.change("UPDATE hosts SET slots = slots + 1", ()).await, 1);
        older.renew_host("old", 1, LEASE).await.unwrap();
        assert_eq!(migrations(&older).await.last(), Some(&newest(&MIGRATIONS)));
    }
    let next = start(&server, newer).await.unwrap();
    assert_eq!(migrations(&next).await.last(), Some(&newest(newer)));
    assert_eq!(older.newer_migration(), None, "it has not looked");
    assert!(older.renew_host("old", 1, LEASE).await.unwrap_err().message.contains("newer version"));
    older.fenced().await;
}

#[tokio::test]
async fn a_migration_that_readers_are_in_the_way_of_is_tried_again() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "in_the_way").await;
    let older = open(&server, "old").await.unwrap();
    let newer = version_after(
        "ALTER TABLE hosts ADD COLUMN era TEXT; SELECT pg_advisory_xact_lock(4712);
         ALTER TABLE tasks ADD COLUMN era TEXT;"
            .to_owned(),
    );
    let mut gate = Gate::shut(&url, 4712).await;
    // It never looks for a deadlock itself, so the migration is the one that is given up.
    let mut reading = older.reader.begin_snapshot().await.unwrap();
    reading.run("SET LOCAL deadlock_timeout = 3600000", ()).await.unwrap();
    let count = async |db: Db<'_>, table: &str| {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        db.one::<u64>(sql, ()).await.unwrap()
    };
    assert_eq!(count(&mut reading, "tasks").await, 0);
    let mut migrating = start(&server, newer);
    gate.reached(&mut migrating).await;
    let reads = tokio::spawn(async move { count(&mut reading, "hosts").await });
    let waits = "SELECT count(*) FROM pg_locks
         WHERE locktype = 'relation' AND relation = CAST('hosts' AS regclass) AND NOT granted";
    while older.read(async |db| db.one::<u64>(waits, ()).await).await.unwrap() == 0 {}
    gate.open().await;
    assert_eq!(reads.await.unwrap(), 1);
    let next = migrating.await.unwrap();
    assert_eq!(migrations(&next).await.last(), Some(&newest(newer)));
}
