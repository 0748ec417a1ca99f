//! Attempts that no host has, and those of hosts that are lost.

use provost_actors::host::{HostRole, Registration};
use std::collections::BTreeSet;

use provost_actors::journal::{
    Bundles as _, Hosts as _, LOSSES_MAX, MaxRunning, MovedFrom, Placement as _, Room,
};

use provost_actors::ids::CheckRunId;
use provost_actors::journal::Finishes as _;
use provost_actors::journal::checks::{CheckCommand, PlannedCheck, Submission};

use super::*;
use crate::store::read_cache::Kept;
use crate::store::work::checks::{self, NewRun};

async fn run(store: &Store, sql: &'static str, values: impl Serialize) {
    let work = async |db: Db<'_>| db.run(sql, values).await;
    store.write(RetryBudget::Short, "test", work).await.unwrap();
}

/// The view of another host's daemon, which has registered it.
async fn host(store: &Store, name: &str, labels: &[&str]) -> Store {
    let registration = Registration {
        host_id: name.into(),
        secret: name.into(),
        labels: labels.iter().map(|it| (*it).to_owned()).collect(),
        slots: 8,
        memory: 0,
        version: "1".into(),
        role: HostRole::All,
        lease: Some(Duration::from_secs(30)),
        fenced_at: None,
    };
    let (kept, fence) = (Kept::default(), Arc::default());
    let store = Store { host: name.into(), kept, fence, ..store.clone() };
    store.register_host(&registration).await.unwrap();
    store
}

struct Board {
    store: Scratch,
    project: ProjectId,
}

impl Board {
    async fn new() -> Self {
        let store = scratch().await;
        let project = project(&store).await;
        Self { store, project }
    }

    /// An attempt at a new task.
    async fn attempt(&self, phase: Phase, host: &str) -> Attempt {
        let task = task(&self.store, self.project).await;
        let of = self.store.start_context(task).await.unwrap().task;
        let attempt = attempt(&self.store, self.project, &of, phase).await;
        let sql = "UPDATE attempts SET host = $2 WHERE attempt_id = $1";
        run(&self.store, sql, (attempt.attempt_id, host)).await;
        attempt
    }

    async fn lose(&self, host: &str) {
        let sql = "UPDATE hosts SET lease_until = 1, renewed_at = 1 WHERE host_id = $1";
        run(&self.store, sql, (host,)).await;
        // Registrations give each host the time to renew its lease.
        run(&self.store, "UPDATE cluster SET no_sweep_before = 0", ()).await;
    }
}

async fn claimed(store: &Store, executors: &[&str], most: usize) -> Vec<AttemptId> {
    let executors: Vec<String> = executors.iter().map(|it| (*it).to_owned()).collect();
    let room = Room { slots: most, memory: 0 };
    // On a server, a write of a host that was given up is refused.
    store.claim(1, &executors, &MaxRunning::new(), room).await.unwrap_or_default().attempts
}

/// Two of the executor may run on all hosts.
async fn claimed_of_two(store: &Store, memory: u64) -> Vec<AttemptId> {
    let room = Room { slots: 9, memory };
    let limits = [("fake".to_owned(), 2)].into();
    store.claim(1, &["fake".to_owned()], &limits, room).await.unwrap().attempts
}

#[tokio::test]
async fn a_limit_of_an_executor_counts_the_attempts_of_all_hosts() {
    let board = Board::new().await;
    let [a, b] = [host(&board.store, "a", &[]).await, host(&board.store, "b", &[]).await];
    let limits: MaxRunning = [("fake".to_owned(), 2)].into();
    let runs = board.attempt(Phase::Running, "b").await;
    let waits = board.attempt(Phase::Queued, "b").await;
    let [first, second] =
        [board.attempt(Phase::Queued, "").await, board.attempt(Phase::Queued, "").await];
    assert_eq!(
        claimed_of_two(&a, 0).await,
        [first.attempt_id],
        "one runs, the other one only waits"
    );
    // What was claimed counts at once, wherever it waits for its slot.
    assert!(claimed_of_two(&b, 0).await.is_empty());
    let admitted =
        async |store: &Store, attempts: &[AttemptId]| store.admit(attempts, &limits).await.unwrap();
    assert!(admitted(&b, &[waits.attempt_id]).await.is_empty());
    assert_eq!(admitted(&a, &[first.attempt_id]).await, [first.attempt_id]);
    assert!(admitted(&b, &[first.attempt_id]).await.is_empty(), "it is on another host");
    let sql = "UPDATE attempts SET phase = 'settled' WHERE attempt_id = $1";
    run(&board.store, sql, (runs.attempt_id,)).await;
    assert_eq!(admitted(&b, &[waits.attempt_id]).await, [waits.attempt_id]);
    assert!(claimed_of_two(&a, 0).await.is_empty());
    // Given back, it does not count.
    a.release(&[first.attempt_id]).await.unwrap();
    assert_eq!(claimed_of_two(&b, 0).await, [first.attempt_id]);
    // The next turn is let anew.
    let sql = "UPDATE attempts SET epoch = epoch + 1 WHERE attempt_id = $1";
    run(&board.store, sql, (waits.attempt_id,)).await;
    assert_eq!(claimed_of_two(&a, 0).await, [second.attempt_id]);
    assert!(admitted(&b, &[waits.attempt_id]).await.is_empty());
}

#[tokio::test]
async fn a_host_claims_what_its_memory_holds() {
    let board = Board::new().await;
    let [a, b] = [host(&board.store, "a", &[]).await, host(&board.store, "b", &[]).await];
    run(&board.store, "UPDATE hosts SET memory = 10 WHERE host_id = 'a'", ()).await;
    let mut asked = Vec::new();
    for memory in [11, 6, 3] {
        let attempt = board.attempt(Phase::Queued, "").await;
        let sql = "UPDATE attempts SET memory = $2 WHERE attempt_id = $1";
        run(&board.store, sql, (attempt.attempt_id, memory)).await;
        asked.push(attempt.attempt_id);
    }
    assert!(claimed_of_two(&a, 5).await.is_empty(), "the second one is first");
    assert_eq!(claimed_of_two(&a, 8).await, asked[1..2]);
    assert_eq!(claimed_of_two(&b, 99).await, asked[..1], "its memory is not known");
    let sql = "UPDATE attempts SET phase = 'running' WHERE host <> ''";
    run(&board.store, sql, ()).await;
    let used = board.store.used().await.unwrap();
    assert_eq!((used["a"].memory, used["b"].memory), (6, 11));
}

#[tokio::test]
async fn a_host_claims_what_it_can_run_the_most_urgent_and_oldest_first() {
    let board = Board::new().await;
    let (plain, able) =
        (host(&board.store, "a", &[]).await, host(&board.store, "b", &["gpu"]).await);
    let [late, urgent, labelled] = [
        board.attempt(Phase::Queued, "").await,
        board.attempt(Phase::Queued, "").await,
        board.attempt(Phase::Queued, "").await,
    ];
    let sql = "UPDATE tasks SET priority = 'critical' WHERE task_id = $1";
    run(&board.store, sql, (urgent.task_id,)).await;
    let sql = "UPDATE attempts SET labels = '[\"gpu\"]' WHERE attempt_id = $1";
    run(&board.store, sql, (labelled.attempt_id,)).await;
    board.attempt(Phase::Queued, "a").await;
    assert!(claimed(&plain, &["claude"], 9).await.is_empty(), "it has not this executor");
    assert_eq!(claimed(&plain, &["fake"], 1).await, [urgent.attempt_id]);
    let row = board.store.attempt(urgent.attempt_id).await.unwrap().unwrap();
    assert_eq!((row.host.as_str(), row.epoch, row.phase), ("a", 2, Phase::Queued));
    assert_eq!(claimed(&plain, &["fake"], 9).await, [late.attempt_id]);
    assert!(claimed(&plain, &["fake"], 9).await.is_empty());
    assert_eq!(claimed(&able, &["fake"], 9).await, [labelled.attempt_id]);

    assert!(!plain.claim_one(labelled.attempt_id).await.unwrap(), "another host has it");
    plain.release(&[labelled.attempt_id, late.attempt_id]).await.unwrap();
    assert!(able.claim_one(late.attempt_id).await.unwrap());
    let row = board.store.attempt(late.attempt_id).await.unwrap().unwrap();
    assert_eq!((row.host.as_str(), row.epoch), ("b", 4));
}

#[tokio::test]
async fn only_a_host_that_may_begin_attempts_claims() {
    let board = Board::new().await;
    let own = host(&board.store, "a", &[]).await;
    let waits = board.attempt(Phase::Queued, "").await;
    for (obstacle, back) in [
        ("UPDATE hosts SET state = 'draining'", "UPDATE hosts SET state = 'active'"),
        ("UPDATE hosts SET role = 'gateway'", "UPDATE hosts SET role = 'worker'"),
        ("UPDATE hosts SET fenced_at = 1", "UPDATE hosts SET fenced_at = NULL"),
        ("UPDATE hosts SET incarnation = 2", "UPDATE hosts SET incarnation = 1"),
        ("UPDATE hosts SET lease_until = 1", "UPDATE hosts SET lease_until = 9000000000000000"),
    ] {
        run(&board.store, obstacle, ()).await;
        assert!(claimed(&own, &["fake"], 9).await.is_empty(), "{obstacle}");
        run(&board.store, back, ()).await;
    }
    assert_eq!(claimed(&own, &["fake"], 9).await, [waits.attempt_id]);
}

#[tokio::test]
async fn a_sweep_gives_away_what_a_lost_host_ran_and_keeps_its_past() {
    let board = Board::new().await;
    let other = host(&board.store, "b", &[]).await;
    host(&board.store, "a", &[]).await;
    let [waits, runs, stops, rests] = [
        board.attempt(Phase::Queued, "a").await,
        board.attempt(Phase::Running, "a").await,
        board.attempt(Phase::Stopping, "a").await,
        board.attempt(Phase::Settled, "a").await,
    ];
    let theirs = board.attempt(Phase::Running, "b").await;
    let asked = "UPDATE sessions SET executor_session_id = 's'";
    run(&board.store, asked, ()).await;
    assert_eq!(other.sweep().await.unwrap(), [""; 0], "its lease lasts");
    board.lose("a").await;
    run(&board.store, "UPDATE cluster SET no_sweep_before = 9000000000000000", ()).await;
    assert_eq!(other.sweep().await.unwrap(), [""; 0], "the engine was away");
    run(&board.store, "UPDATE cluster SET no_sweep_before = 0", ()).await;
    assert_eq!(other.sweep().await.unwrap(), ["a"]);
    assert_eq!(other.sweep().await.unwrap(), [""; 0], "once");

    let row = async |attempt: &Attempt| other.attempt(attempt.attempt_id).await.unwrap().unwrap();
    let now = row(&waits).await;
    assert_eq!((now.host.as_str(), now.epoch, now.phase), ("", 2, Phase::Queued));
    assert_eq!(now.process, waits.process);
    let now = row(&runs).await;
    assert_eq!((now.host.as_str(), now.epoch, now.phase), ("", 2, Phase::Queued));
    assert_eq!((now.process.turn, &now.process.prompt), (2, &runs.process.prompt));
    assert_eq!(now.process.executor_session_id, None);
    assert!(now.leftovers.is_empty() && !now.snapshot_due, "{now:?}");
    let past = other.past(runs.attempt_id, now.process.process_id).await.unwrap();
    assert_eq!(past[0].lost_host.as_deref(), Some("a"));
    let now = row(&stops).await;
    assert_eq!((now.host.as_str(), now.phase, now.state), ("a", Phase::Settled, State::Failed));
    let status = other.status(stops.attempt_id).await.unwrap();
    let why = status.failure_summary.unwrap();
    assert!(why.starts_with("host a was lost while"), "{why}");
    assert_eq!(row(&rests).await.epoch, 1);
    assert_eq!(row(&theirs).await.host, "b");
    // Its daemon, which is cut off, changes nothing any more.
    let change = Change::Preparing;
    let late = other.advance(runs.attempt_id, 1, runs.process.process_id, &change).await;
    assert!(late.unwrap_err().message.contains("no longer in epoch 1"));
}

#[tokio::test]
async fn an_attempt_that_was_lost_with_host_after_host_is_not_begun_again() {
    let board = Board::new().await;
    let other = host(&board.store, "b", &[]).await;
    let runs = board.attempt(Phase::Running, "").await;
    let row = async || other.attempt(runs.attempt_id).await.unwrap().unwrap();
    for number in 1..=LOSSES_MAX {
        let name = format!("lost-{number}");
        host(&board.store, &name, &[]).await;
        let sql = "UPDATE attempts SET host = $2, phase = 'running' WHERE attempt_id = $1";
        run(&board.store, sql, (runs.attempt_id, &name)).await;
        board.lose(&name).await;
        assert_eq!(other.sweep().await.unwrap(), [name]);
    }
    let now = row().await;
    assert_eq!((now.phase, now.state, now.process.turn), (Phase::Settled, State::Failed, 3));
    let why = other.status(runs.attempt_id).await.unwrap().failure_summary.unwrap();
    assert_eq!(why, "host lost-3 was lost, as were those of the 2 turns before");
}

#[tokio::test]
async fn a_host_from_which_something_is_taken_is_given_up_with_that() {
    let board = Board::new().await;
    let other = host(&board.store, "b", &[]).await;
    host(&board.store, "a", &[]).await;
    let [rests, runs] =
        [board.attempt(Phase::Settled, "a").await, board.attempt(Phase::Running, "a").await];
    board.lose("a").await;
    // The lease has just been over.
    let sql = "UPDATE hosts SET lease_until = read.now - 1, renewed_at = read.now - 30001
         FROM (SELECT max(seen_at) AS now FROM cluster) read WHERE host_id = 'a'";
    run(&board.store, sql, ()).await;
    let from = MovedFrom::Lost("a".to_owned());
    let refused = other.move_here(rests.attempt_id, &from).await.unwrap_err();
    assert!(refused.message.contains("may come back at once"), "{refused}");
    board.lose("a").await;
    assert_eq!(other.move_here(rests.attempt_id, &from).await.unwrap(), 2);
    let a = other.hosts().await.unwrap().into_iter().find(|it| it.host_id == "a").unwrap();
    assert!(a.fenced_at.is_some());
    let now = other.attempt(runs.attempt_id).await.unwrap().unwrap();
    assert_eq!((now.host.as_str(), now.phase), ("", Phase::Queued));
    // So is one whose daemon has ended, which keeps what it has until then.
    let ends = host(&board.store, "c", &[]).await;
    let rests = board.attempt(Phase::Settled, "c").await;
    ends.end_host().await.unwrap();
    let from = MovedFrom::Lost("c".to_owned());
    assert!(other.move_here(rests.attempt_id, &from).await.is_err());
    assert_eq!(other.sweep().await.unwrap(), [""; 0]);
    board.lose("c").await;
    assert!(other.move_here(rests.attempt_id, &from).await.is_ok());
}

#[tokio::test]
async fn each_attempt_of_a_lost_host_gets_a_revision_and_a_turn_of_its_own() {
    let board = Board::new().await;
    let other = host(&board.store, "b", &[]).await;
    host(&board.store, "a", &[]).await;
    let mut all = Vec::new();
    for phase in [Phase::Running, Phase::Queued, Phase::Running, Phase::Stopping, Phase::Running] {
        all.push(board.attempt(phase, "a").await);
    }
    let before = other.newest_revision().await.unwrap();
    board.lose("a").await;
    assert_eq!(other.sweep().await.unwrap(), ["a"]);
    let (mut revisions, mut turns) = (BTreeSet::new(), BTreeSet::new());
    for attempt in &all {
        revisions.insert(other.status(attempt.attempt_id).await.unwrap().revision);
        let now = other.attempt(attempt.attempt_id).await.unwrap().unwrap();
        turns.insert(now.process.process_id);
    }
    assert_eq!((revisions.len(), turns.len()), (5, 5));
    assert!(*revisions.first().unwrap() > before);
}

#[tokio::test]
async fn a_row_that_leads_out_of_a_folder_is_not_read() {
    let board = Board::new().await;
    for (table, column, said) in [
        ("attempts", "folder", "../planted"),
        ("attempts", "folder", "/etc"),
        ("attempts", "branch", "--exec=x"),
        ("attempt_repos", "name", ".."),
        ("attempt_repos", "base_commit", "--all"),
        ("attempt_repos", "target_branch", "a..b"),
    ] {
        let attempt = board.attempt(Phase::Queued, "a").await;
        let sql = format!("UPDATE {table} SET {column} = $2 WHERE attempt_id = $1");
        board.store.change(&sql, (attempt.attempt_id, said)).await;
        let refused = board.store.attempt(attempt.attempt_id).await.unwrap_err();
        assert!(refused.message.contains(said), "{refused}");
        assert!(board.store.workspace(attempt.attempt_id).await.is_err(), "{said}");
    }
}

#[tokio::test]
async fn the_checks_of_a_host_that_is_lost_have_failed_to_run() {
    let board = Board::new().await;
    let other = host(&board.store, "b", &[]).await;
    host(&board.store, "a", &[]).await;
    let task = task(&board.store, board.project).await;
    let check = PlannedCheck {
        name: "unit".to_owned(),
        command: CheckCommand::Line("true".to_owned()),
        process_id: ProcessId::new(),
        repo: None,
        work_of: None,
        given: None,
    };
    let submission = Submission {
        host: "a".to_owned(),
        run_id: CheckRunId::new(),
        attempt_id: None,
        repos: Vec::new(),
        is_empty_diff: None,
        checks: vec![check],
    };
    let of = NewRun { task, finish: None, claims_passed: true };
    let plan = async |db: Db<'_>| checks::plan(db, &of, &submission).await;
    assert!(board.store.write(RetryBudget::Short, "test", plan).await.unwrap());
    board.lose("a").await;
    assert_eq!(other.sweep().await.unwrap(), ["a"]);
    let run = other.check_run(submission.run_id).await.unwrap().unwrap();
    assert!(run.verdict.is_some());
    let [receipt] = &run.receipts[..] else { panic!("{:?}", run.receipts) };
    assert_eq!(receipt.reason.as_deref(), Some("host a was lost"));
}
