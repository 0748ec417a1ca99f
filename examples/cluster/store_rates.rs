//! What the store alone costs, on the board of the hosts and without their daemons: several simulated
//! hosts, each with connections of its own.

use std::time::{Duration, Instant};

use provost::board::{Durability, Server, Store, TimesToLive};
use provost_actors::event::{ProcessStatus, RunReason, Timestamp};
use provost_actors::host::{HostRole, Registration};
use provost_actors::ids::{AttemptId, ProcessId, SessionId, TaskId};
use provost_actors::journal::{
    Attempt, AttemptStarted, Attempts as _, Change, Hosts as _, MaxRunning, Outcome, Phase,
    Placement as _, Priority, Process, Processes as _, Room, State,
};

use crate::Result;
use crate::network::{BOARD, address};
use crate::rates::{AT_ONCE, LEASE, rate, row};

/// The executor of what is claimed: no daemon has it.
const EXECUTOR: &str = "simulated";

/// The end of a spawned piece of work.
type Done<T> = std::result::Result<T, String>;

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Stores with a host each, which is registered.
async fn stores() -> Result<Vec<Store>> {
    let url = format!("postgres://provost:test@{}/postgres", address(BOARD));
    let server = Server::new(&url, None, Durability::Stated)?;
    let forever = TimesToLive { answers: None, intents: None, claims: LEASE, settled: None };
    let mut stores = Vec::new();
    for number in 0..AT_ONCE {
        let host = format!("store-{number}");
        let store = Store::open_server(&server, &host, forever).await?;
        let own = registration(&host, Duration::from_hours(1));
        store.register_host(&own).await.map_err(|it| it.to_string())?;
        stores.push(store);
    }
    Ok(stores)
}

fn registration(host: &str, lease: Duration) -> Registration {
    Registration {
        host_id: host.to_owned(),
        secret: String::new(),
        labels: Vec::new(),
        slots: 8,
        memory: 0,
        version: String::new(),
        role: HostRole::Worker,
        lease: Some(lease),
        fenced_at: None,
    }
}

/// Attempts that wait for a host, claimed by all hosts at once, one by one, and ended.
pub fn claims(task: &str, count: usize) -> Result<()> {
    let task: TaskId = task.parse().map_err(|_| "a task's id")?;
    runtime()?.block_on(async {
        let stores = stores().await?;
        for is_whole in [false, true] {
            let began = Instant::now();
            let share = count / stores.len();
            let submitting =
                stores.iter().map(|store| tokio::spawn(submit(store.clone(), task, share)));
            let submitted = all(submitting.collect()).await?;
            let total = submitted.len();
            if !is_whole {
                let what = format!("attempts recorded in the store, by {AT_ONCE} hosts");
                row(&what, Some(rate(total, began.elapsed())), submitted, "1,415/s");
            }
            let began = Instant::now();
            let ending = stores.iter().map(|store| tokio::spawn(work(store.clone(), is_whole)));
            let ended = all(ending.collect()).await?;
            if ended.len() != total {
                return Err(format!("{} of {total} attempts were claimed", ended.len()).into());
            }
            let rate = Some(rate(total, began.elapsed()));
            let by = format!("by {AT_ONCE} hosts; time of a claim");
            if is_whole {
                let what = format!("the same with all that a turn writes there, {by}");
                row(&what, rate, ended, "");
            } else {
                let trial = "201/s (8, contended, p99 46 ms); 646/s (16, quiet, p50 12, p99 36 ms)";
                row(&format!("attempts claimed and ended in the store, {by}"), rate, ended, trial);
            }
        }
        Ok(())
    })
}

async fn all<T>(tasks: Vec<tokio::task::JoinHandle<Done<Vec<T>>>>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

async fn submit(store: Store, task: TaskId, count: usize) -> Done<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let (attempt, answer) = attempt(task);
        let called = Instant::now();
        let recorded = store.record_start(None, &attempt, &answer).await;
        recorded.map_err(|it| it.to_string())?;
        times.push(called.elapsed());
    }
    Ok(times)
}

/// Claims attempts until there is none, and ends each. How long each claim took.
async fn work(store: Store, is_whole: bool) -> Done<Vec<Duration>> {
    let (executors, no_limits) = ([EXECUTOR.to_owned()], MaxRunning::new());
    let one = Room { slots: 1, memory: u64::MAX };
    let mut times = Vec::new();
    loop {
        let called = Instant::now();
        let claimed = store.claim(1, &executors, &no_limits, one).await;
        let claimed = claimed.map_err(|it| it.to_string())?;
        let Some(id) = claimed.attempts.first().copied() else { return Ok(times) };
        times.push(called.elapsed());
        let found = store.attempt(id).await.map_err(|it| it.to_string())?;
        let found = found.ok_or("an attempt is not there")?;
        for change in turn(is_whole) {
            let process = found.process.process_id;
            let changed = store.advance(id, found.epoch, process, &change).await;
            changed.map_err(|it| it.to_string())?;
        }
    }
}

/// What a daemon writes of a turn.
fn turn(is_whole: bool) -> Vec<Change> {
    let settled = Change::Settled(
        Outcome {
            status: ProcessStatus::Completed,
            exit_code: Some(0),
            exit_signal: None,
            failure_summary: None,
            error_type: None,
            final_message: Some("done".to_owned()),
            usage: None,
            quota: None,
            at: Timestamp::now(),
        },
        Box::default(),
    );
    if !is_whole {
        return vec![settled];
    }
    let running = Change::Running {
        pid: 1,
        start_time: 1,
        boot_id: String::new(),
        limits: Vec::new(),
        sandbox: None,
    };
    vec![Change::Preparing, running, settled, Change::Closed]
}

/// One that waits for a host.
fn attempt(task_id: TaskId) -> (Attempt, AttemptStarted) {
    let (attempt_id, process_id, session_id) =
        (AttemptId::new(), ProcessId::new(), SessionId::new());
    let attempt = Attempt {
        attempt_id,
        task_id,
        task_title: String::new(),
        project_id: provost_actors::ids::ProjectId::new(),
        project_name: String::new(),
        priority: Priority::Medium,
        is_answer: false,
        branch: attempt_id.to_string(),
        folder: attempt_id.to_string(),
        repos: Vec::new(),
        executor: EXECUTOR.to_owned(),
        host: String::new(),
        labels: Vec::new(),
        memory: 0,
        parent: None,
        fork: None,
        session_id,
        phase: Phase::Queued,
        state: State::Idle,
        epoch: 1,
        ended_as: None,
        process: Process {
            process_id,
            run_reason: RunReason::CodingAgent,
            turn: 1,
            prompt: "what is claimed".to_owned(),
            variant: None,
            queue_id: None,
            executor_session_id: None,
            status: ProcessStatus::Planned,
            exit_code: None,
            exit_signal: None,
        },
        leftovers: Vec::new(),
        waiting: Vec::new(),
        held: false,
        finish: None,
        lends: None,
        dev_server: None,
        snapshot_due: false,
        most_held: None,
        placed_epoch: 0,
    };
    let answer = AttemptStarted {
        attempt_id,
        task_id,
        workspace_branch: attempt.branch.clone(),
        session_id,
        execution_process_id: None,
        state: State::Idle,
        phase: Phase::Queued,
    };
    (attempt, answer)
}

/// Simulated hosts that renew their leases every five seconds, each on its own, over the connections of
/// some of them.
pub fn renewals(hosts: usize, seconds: usize) -> Result<()> {
    runtime()?.block_on(async {
        let stores = stores().await?;
        let every = LEASE / 6;
        let rounds = (seconds / usize::try_from(every.as_secs())?).max(1);
        let mut renewing = Vec::new();
        for host in 0..hosts {
            let (store, name) = (stores[host % stores.len()].clone(), format!("simulated-{host}"));
            let registered = store.register_host(&registration(&name, LEASE)).await;
            registered.map_err(|it| it.to_string())?;
            let offset = every * u32::try_from(host)? / u32::try_from(hosts)?;
            renewing.push((store, name, offset));
        }
        let began = tokio::time::Instant::now();
        let renewing = renewing.into_iter().map(|(store, name, offset)| {
            tokio::spawn(async move {
                let mut times = Vec::new();
                let mut next = began + offset;
                for _ in 0..rounds {
                    tokio::time::sleep_until(next).await;
                    next += every;
                    let called = Instant::now();
                    let renewed = store.renew_host(&name, 1, LEASE).await;
                    if renewed.map_err(|it| it.to_string())?.is_none() {
                        return Err(format!("{name} was given up"));
                    }
                    times.push(called.elapsed());
                }
                Ok(times)
            })
        });
        let times = all(renewing.collect()).await?;
        let rate = Some(rate(times.len(), began.elapsed()));
        let what = format!("renewals of {hosts} hosts, every {} s", every.as_secs());
        row(&what, rate, times, "100/s of 500 hosts, p50 3.9, p99 17.5 ms");
        Ok(())
    })
}
