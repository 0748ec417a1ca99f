//! The faults, and what has to follow from each.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, FENCED, SHIPPED, UNFENCED};
use crate::oracle::{Logged, judge_log};
use crate::{Result, inject};

/// Attempts at once, of which each worker gets some.
pub const ATTEMPTS: usize = 6;

struct Fault {
    name: &'static str,
    /// Whether the short form has it.
    is_short: bool,
    executor: &'static str,
    restarts: Restarts,
    /// Breaks something while the attempts tick. How many executions were hit.
    inject: Inject,
}

type Inject = fn(&mut Cluster, &[String]) -> Result<usize>;

impl Fault {
    const fn new(name: &'static str, restarts: Restarts, inject: Inject) -> Self {
        Self { name, is_short: false, executor: FENCED, restarts, inject }
    }

    const fn short(self) -> Self {
        Self { is_short: true, ..self }
    }

    const fn unfenced(self) -> Self {
        Self { executor: UNFENCED, ..self }
    }
}

/// How many attempts have to begin again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restarts {
    None,
    Some,
    /// Either is right.
    Any,
}

const FAULTS: &[Fault] = &[
    Fault::new("host-killed", Restarts::Some, inject::host_killed).short(),
    Fault::new("cut-long", Restarts::Some, inject::cut_for_long),
    Fault::new("cut-short", Restarts::None, inject::cut_shortly),
    Fault::new("cut-between", Restarts::Any, inject::cut_between),
    Fault::new("silent-connections", Restarts::None, inject::connections_fall_silent),
    Fault::new("engine-killed", Restarts::None, inject::engine_killed),
    Fault::new("engine-restarted", Restarts::None, inject::engine_restarted),
    Fault::new("engine-restarted-stop", Restarts::None, inject::engine_restarted_at_stops),
    Fault::new("engine-restarted-finish", Restarts::None, inject::engine_restarted_at_finishes),
    Fault::new("engine-restarted-move", Restarts::Some, inject::engine_restarted_at_a_move),
    Fault::new("engine-far", Restarts::None, inject::engine_far),
    Fault::new("failover", Restarts::None, inject::failed_over),
    Fault::new("daemon-hung", Restarts::Some, inject::daemon_hung),
    Fault::new("two-daemons", Restarts::None, inject::two_daemons),
    Fault::new("gateway-killed", Restarts::None, inject::gateway_killed),
    Fault::new("clean-restart", Restarts::None, inject::cleanly_restarted),
    Fault::new("fence-off", Restarts::Some, inject::cut_for_long).unfenced().short(),
];

/// Injects the faults one after the other and prints a table.
pub fn run(program: &Path, is_short: bool, only: &[String], lease: Duration) -> Result<()> {
    let chosen: Vec<&Fault> = FAULTS
        .iter()
        .filter(|it| !is_short || it.is_short)
        .filter(|it| only.is_empty() || only.iter().any(|name| it.name == name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = FAULTS.iter().map(|it| it.name).collect();
        return Err(format!("no such fault; there are: {}", names.join(", ")).into());
    }
    let mut cluster = Cluster::make(program, lease)?;
    println!(
        "| fault | attempts | hit | frozen | restarts | overlaps | started twice | log lines | lost with the host | seconds |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for fault in chosen {
        if let Err(error) = round(&mut cluster, fault) {
            let kept = cluster.keep();
            return Err(format!("{}: {error}\nkept: {}", fault.name, kept.display()).into());
        }
    }
    Ok(())
}

/// One fault, and what has followed.
fn round(cluster: &mut Cluster, fault: &Fault) -> Result<()> {
    let began = Instant::now();
    // Without a fence an execution outlasts the lease, and the time until another host begins again.
    let lasts = cluster.lease * 5 / 2;
    let ticks = SHIPPED + usize::try_from(lasts.as_millis() / crate::tick::TICK.as_millis())?;
    let ticks = u32::try_from(ticks)?;
    let attempts = cluster.start(ATTEMPTS, fault.executor, ticks)?;
    cluster.tick(&attempts)?;
    let hit = (fault.inject)(cluster, &attempts)?;
    cluster.finish(&attempts)?;
    let ledger = cluster.ledger()?;
    let (overlaps, twice) = (ledger.overlaps(&attempts), ledger.double_starts(&attempts));
    let restarts = ledger.restarts(&attempts);
    let frozen = ledger.frozen(&attempts, 1000);
    let mut logged = Logged::default();
    for attempt in &attempts {
        let texts = cluster.log(1, attempt)?;
        let judged = judge_log(&texts, ledger.of(attempt), ticks, fault.restarts != Restarts::None);
        let Logged { lines, lost } =
            judged.map_err(|why| format!("the log of {attempt}: {why}"))?;
        logged = Logged { lines: logged.lines + lines, lost: logged.lost + lost };
    }
    println!(
        "| {} | {} | {hit} | {frozen} | {restarts} | {} | {} | {} | {} | {} |",
        fault.name,
        attempts.len(),
        overlaps.len(),
        twice.len(),
        logged.lines,
        logged.lost,
        began.elapsed().as_secs(),
    );
    if hit == 0 {
        return Err("the fault has hit nothing".into());
    }
    if !twice.is_empty() {
        return Err(format!("started twice: {twice:?}").into());
    }
    if fault.executor == UNFENCED {
        let is_blind = overlaps.is_empty();
        return if is_blind {
            Err("the check is blind: no overlap was found".into())
        } else {
            Ok(())
        };
    }
    if !overlaps.is_empty() {
        return Err(format!("ran at the same time: {overlaps:?}").into());
    }
    match fault.restarts {
        Restarts::None if restarts > 0 => Err(format!("{restarts} attempts began again").into()),
        Restarts::Some if restarts == 0 => Err("nothing began again".into()),
        _ => Ok(()),
    }
}
