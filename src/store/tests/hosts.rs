//! Hosts: registered, drained, renewed and removed.

use std::path::PathBuf;
use std::time::Duration;

use provost_actors::host::{Host, HostChange, HostRole, HostState, Liveness, Registration, Used};
use provost_actors::journal::Hosts;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::*;
use crate::store::pg_transaction::Order;

const LEASE: Duration = Duration::from_secs(30);

pub fn registration(host: &str, secret: &str, lease: Option<Duration>) -> Registration {
    Registration {
        host_id: host.into(),
        secret: secret.into(),
        labels: vec!["big".into(), "gpu".into()],
        slots: 8,
        memory: u64::MAX / 4,
        version: "1".into(),
        role: HostRole::All,
        lease,
        fenced_at: None,
    }
}

async fn only(store: &Store) -> Host {
    let mut hosts = store.hosts().await.unwrap();
    assert_eq!(hosts.len(), 1);
    hosts.remove(0)
}

/// The rows of the hosts.
async fn read(store: &Store) -> Vec<Host> {
    let hosts = store.hosts().await.unwrap().into_iter();
    hosts.map(|it| Host { read_at: Timestamp::default(), ..it }).collect()
}

async fn forget_lease(store: &Store, host: &'static str) {
    let sql = "UPDATE hosts SET lease_until = 1 WHERE host_id = $1";
    let work = async |db: Db<'_>| db.run(sql, (host,)).await;
    store.write(RetryBudget::Short, "test", work).await.unwrap();
}

#[tokio::test]
async fn each_registration_has_a_higher_incarnation_and_keeps_the_state() {
    let store = scratch().await;
    let first = store.register_host(&registration(LOCAL, "a", None)).await.unwrap();
    assert_eq!((first.incarnation, first.state, first.lease_until), (1, HostState::Active, None));
    assert_eq!((first.labels.len(), first.memory), (2, u64::MAX / 4));
    store.change_host(LOCAL, HostChange::Drain).await.unwrap();
    // The file with the secret may have been lost: the lock of the home is what counts.
    let next = Registration { slots: 3, ..registration(LOCAL, "b", None) };
    store.register_host(&next).await.unwrap();
    let now = only(&store).await;
    assert_eq!((now.incarnation, now.state, now.slots), (2, HostState::Draining, 3));
    assert_eq!(now.secret, "b");
}

#[tokio::test]
async fn a_lease_keeps_a_host_for_its_home_and_fences_who_has_lost_it() {
    let store = scratch().await;
    let host = store.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    assert!(host.lease_until.is_some());
    let theirs = registration("a", "theirs", Some(LEASE));
    let refused = store.register_host(&theirs).await.unwrap_err();
    assert_eq!(refused.code, Code::NotPermitted);
    let now = only(&store).await;
    assert_eq!(Host { read_at: host.read_at, ..now }, host);
    assert_eq!(store.renew_host("a", 1, LEASE).await.unwrap(), Some(HostState::Active));
    store.change_host("a", HostChange::Drain).await.unwrap();
    assert_eq!(store.renew_host("a", 1, LEASE).await.unwrap(), Some(HostState::Draining));
    forget_lease(&store, "a").await;
    assert_eq!(only(&store).await.liveness(), Liveness::Lost);
    assert_eq!(store.register_host(&theirs).await.unwrap().incarnation, 2);
    assert_eq!(store.renew_host("a", 1, LEASE).await.unwrap(), None);
    assert_eq!(store.renew_host("b", 1, LEASE).await.unwrap(), None);
}

#[tokio::test]
async fn a_host_is_removed_once_it_is_lost_and_has_nothing_to_do() {
    let store = scratch().await;
    let project = project(&store).await;
    let task = store.start_context(task(&store, project).await).await.unwrap().task;
    store.register_host(&registration(LOCAL, "a", Some(LEASE))).await.unwrap();
    let remove = async || store.change_host(LOCAL, HostChange::Remove).await;
    assert_eq!(remove().await.unwrap_err().code, Code::InvalidState);
    let attempt = attempt(&store, project, &task, Phase::Preparing).await;
    assert_eq!(store.used().await.unwrap()[LOCAL], Used { slots: 1, memory: 0 });
    forget_lease(&store, LOCAL).await;
    let refused = remove().await.unwrap_err();
    assert!(refused.message.contains("1 of its attempts is not settled"), "{refused}");
    advance(&store, &attempt, &failed()).await;
    assert!(store.used().await.unwrap().is_empty());
    let unknown = store.change_host("other", HostChange::Drain).await.unwrap_err();
    assert!(unknown.hint.contains("provost hosts"), "{unknown:?}");
    assert_eq!(remove().await.unwrap(), None);
    assert_eq!(store.count_hosts().await.unwrap(), 0);
    assert_eq!(store.status(attempt.attempt_id).await.unwrap().overview.line.host.unwrap(), LOCAL);
}

#[tokio::test]
async fn a_drain_shows_in_what_waits_and_wakes_who_waits_for_a_change() {
    let store = scratch().await;
    let project = project(&store).await;
    let task = store.start_context(task(&store, project).await).await.unwrap().task;
    store.register_host(&registration(LOCAL, "a", None)).await.unwrap();
    let running = attempt(&store, project, &task, Phase::Preparing).await;
    let queued = attempt(&store, project, &task, Phase::Queued).await;
    let waits_for = async |attempt: &Attempt| {
        let row = store.status(attempt.attempt_id).await.unwrap();
        (row.overview.line.waiting_on, row.revision)
    };
    let before = [waits_for(&running).await, waits_for(&queued).await];
    assert_eq!(before[1].0, Some(WaitingOn::Slot));
    let watch = store.watch(&[queued.attempt_id]);
    for _ in 0..2 {
        store.change_host(LOCAL, HostChange::Drain).await.unwrap();
    }
    watch.changed().await;
    let after = [waits_for(&running).await, waits_for(&queued).await];
    assert_eq!(after[0], before[0]);
    // Once: the second drain has changed nothing.
    assert_eq!(after[1], (Some(WaitingOn::Host), before[1].1 + 1));
    store.change_host(LOCAL, HostChange::Resume).await.unwrap();
    assert_eq!(waits_for(&queued).await.0, Some(WaitingOn::Slot));
}

#[tokio::test]
async fn nothing_is_written_by_a_daemon_whose_host_is_not_its_own_any_more() {
    let Some(url) = scratch::server_url() else { return };
    let url = scratch::server(&url, "fence").await;
    let open = async |host: &str| Store::open_server(&url, host, TimesToLive::default()).await;
    let (a, b) = (open("a").await.unwrap(), open("b").await.unwrap());
    a.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    a.renew_host("a", 1, LEASE).await.unwrap();
    let marks = async |store: &Store| {
        let sql = "UPDATE hosts SET memory = memory + 1 WHERE host_id = 'a'";
        store.write(RetryBudget::OneTry, "test", async |db| db.run(sql, ()).await).await
    };
    assert_eq!(marks(&a).await.unwrap(), 1);
    for change in ["fenced_at = 5", "fenced_at = NULL, incarnation = 2"] {
        b.change(&format!("UPDATE hosts SET {change} WHERE host_id = 'a'"), ()).await;
        let before = read(&a).await;
        let refused = marks(&a).await.unwrap_err();
        assert!(refused.code.is_of_store() && refused.message.contains("given up"), "{refused}");
        assert!(a.renew_host("a", 1, LEASE).await.is_err());
        a.fenced().await;
        assert_eq!(read(&a).await, before);
    }
    // One that was waiting for its turn does not slip through.
    let next = a.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    assert_eq!((next.incarnation, next.fenced_at), (3, None));
    assert_eq!(marks(&a).await.unwrap(), 1);
    let mut holding = b.transaction(RetryBudget::OneTry).await.unwrap();
    let sql = "UPDATE hosts SET fenced_at = 5 WHERE host_id = 'a'";
    holding.run(sql, ()).await.unwrap();
    let waiting = tokio::spawn({
        let a = a.clone();
        async move { a.change("UPDATE hosts SET memory = 0 WHERE host_id = 'a'", ()).await }
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while b.read(async |db| db.one::<u64>(waits, ()).await).await.unwrap() == 0 {}
    b.commit(holding, "test").await.unwrap();
    assert!(waiting.await.is_err(), "its write is refused");
    let given_up = registration("a", "mine", Some(LEASE));
    assert_eq!(a.register_host(&given_up).await.unwrap_err().code, Code::AttemptRunning);
}

#[tokio::test]
async fn a_renewal_waits_for_no_write_of_the_board_and_no_one_overtakes_it() {
    let Some(url) = scratch::server_url() else { return };
    let url = scratch::server(&url, "renewal").await;
    let open = async |host: &str| Store::open_server(&url, host, TimesToLive::default()).await;
    let (a, b) = (open("a").await.unwrap(), open("b").await.unwrap());
    for store in [&a, &b] {
        let own = registration(store.host(), "mine", Some(LEASE));
        store.register_host(&own).await.unwrap();
    }
    let holding = b.transaction(RetryBudget::OneTry).await.unwrap();
    assert_eq!(a.renew_host("a", 1, LEASE).await.unwrap(), Some(HostState::Active));
    drop(holding);
    // It comes late, while others take the host for lost.
    b.change("UPDATE cluster SET no_sweep_before = 0", ()).await;
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted";
    for is_swept in [true, false] {
        b.change("UPDATE hosts SET lease_until = 1, renewed_at = 1 WHERE host_id = 'a'", ()).await;
        let mut renewing = a.begin_write(Order::Beside, RetryBudget::OneTry).await.unwrap();
        let sql = "UPDATE hosts SET renewed_at = 9000000000000, lease_until = 9000000030000
                   WHERE host_id = 'a'";
        renewing.run(sql, ()).await.unwrap();
        let b = b.clone();
        let taking = tokio::spawn(async move {
            if is_swept {
                return b.sweep_lost_hosts().await.map(|hosts| hosts.len());
            }
            b.register_host(&registration("a", "theirs", Some(LEASE))).await.map(|_| 1)
        });
        while a.read(async |db| db.one::<u64>(waits, ()).await).await.unwrap() == 0 {}
        a.reader.commit(renewing, None).await.unwrap();
        match taking.await.unwrap() {
            Ok(taken) => assert!(is_swept && taken == 0, "{taken}"),
            Err(refusal) => assert!(!is_swept && refusal.code == Code::NotPermitted, "{refusal}"),
        }
    }
    assert_eq!(a.renew_host("a", 1, LEASE).await.unwrap(), Some(HostState::Active));
}

#[tokio::test]
async fn hosts_get_the_time_of_a_lease_after_the_engine_was_away() {
    let store = scratch().await;
    let row = async || {
        let sql = "SELECT seen_at, no_sweep_before FROM cluster";
        store.read(async |db| db.one::<(i64, i64)>(sql, ()).await).await.unwrap()
    };
    store.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    let (seen, first) = row().await;
    assert_eq!(first - seen, 30_000, "it was never seen before");
    store.renew_host("a", 1, LEASE).await.unwrap();
    let (next, none) = row().await;
    assert!(next >= seen && none == first, "{next} {none}");
    store.change("UPDATE cluster SET seen_at = seen_at - 10500", ()).await;
    store.renew_host("a", 1, LEASE).await.unwrap();
    let (seen, again) = row().await;
    assert_eq!(again - seen, 30_000);
}

#[tokio::test]
async fn a_home_takes_its_lock_from_its_own_former_session_and_no_other_does() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "former").await;
    let open = async |mark: &str| {
        let server = server.clone().of_home(mark, None);
        Store::open_server(&server, "a", TimesToLive::default()).await
    };
    let former = open("one").await.unwrap();
    assert!(matches!(open("two").await, Err(OpenError::InUse { .. })));
    // As if its daemon were gone, and the server had not noticed.
    let next = open("one").await.unwrap();
    next.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    drop(former);
}

/// A way to a server, whose connections can fall silent as behind a firewall that has lost its state.
struct Way {
    folder: tempfile::TempDir,
    silent: watch::Sender<()>,
}

impl Way {
    fn to(folder: &str) -> Self {
        let way = Self { folder: tempfile::tempdir().unwrap(), silent: watch::channel(()).0 };
        let listener = UnixListener::bind(way.folder.path().join(SOCKET)).unwrap();
        let (there, silent) = (PathBuf::from(folder).join(SOCKET), way.silent.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (there, mut silenced) = (there.clone(), silent.subscribe());
                tokio::spawn(async move {
                    let mut server = UnixStream::connect(there).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = silenced.changed() => std::future::pending::<()>().await,
                    }
                });
            }
        });
        way
    }
}

const SOCKET: &str = ".s.PGSQL.5432";

#[tokio::test]
async fn a_renewal_whose_connection_is_silent_is_given_up_in_time() {
    let Some(url) = scratch::server_url() else { return };
    let (before, folder) = url.split_once("host=").unwrap();
    let way = Way::to(folder);
    let url = format!("{before}host={}", way.folder.path().display());
    let server = scratch::server(&url, "silent").await;
    let a = Store::open_server(&server, "a", TimesToLive::default()).await.unwrap();
    a.register_host(&registration("a", "mine", Some(LEASE))).await.unwrap();
    // Its limit is a sixth of this.
    let lease = Duration::from_secs(6);
    let renew = async || a.renew_host("a", 1, lease).await;
    assert_eq!(renew().await.unwrap(), Some(HostState::Active));
    way.silent.send_replace(());
    let refused = renew().await.unwrap_err();
    assert!(refused.message.contains("in time"), "{refused}");
    let mut again = 0;
    while renew().await.is_err() {
        again += 1;
        assert!(again < 3, "the next ones have connections of their own");
    }
}
