//! What the ledger of the executors proves: what ran when, and how often. Pure but for reading it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Result;

/// One start of an executor.
#[derive(Clone, Debug)]
pub struct Execution {
    pub process: String,
    /// When it ticked, in milliseconds.
    pub ticks: Vec<u64>,
}

impl Execution {
    fn first(&self) -> u64 {
        self.ticks.first().copied().unwrap_or_default()
    }

    fn last(&self) -> u64 {
        self.ticks.last().copied().unwrap_or_default()
    }

    /// The longest time without a tick, in milliseconds.
    pub fn longest_gap(&self) -> u64 {
        self.ticks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

/// The executions of each attempt, in the order of their first ticks.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<String, Vec<Execution>>);

impl Ledger {
    pub fn read(folder: &Path) -> Result<Self> {
        let mut ledger = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| "a file's name")?;
            let mut parts = name.split('.');
            let (Some(attempt), Some(process)) = (parts.next(), parts.next()) else { continue };
            let text = fs::read_to_string(entry.path())?;
            // The last line may be half written.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let ticks: Vec<u64> =
                whole.lines().map(str::parse).collect::<std::result::Result<_, _>>()?;
            if !ticks.is_empty() {
                let execution = Execution { process: process.to_owned(), ticks };
                ledger.0.entry(attempt.to_owned()).or_default().push(execution);
            }
        }
        for executions in ledger.0.values_mut() {
            executions.sort_by_key(Execution::first);
        }
        Ok(ledger)
    }

    pub fn of(&self, attempt: &str) -> &[Execution] {
        self.0.get(attempt).map_or(&[], Vec::as_slice)
    }

    /// Pairs of executions of one attempt that ran at the same time, with how long, in milliseconds.
    pub fn overlaps(&self, attempts: &[String]) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        for attempt in attempts {
            let executions = self.of(attempt);
            for (at, earlier) in executions.iter().enumerate() {
                for later in &executions[at + 1..] {
                    if earlier.last() >= later.first() {
                        let end = earlier.last().min(later.last());
                        found.push((attempt.clone(), end - later.first()));
                    }
                }
            }
        }
        found
    }

    /// Processes that were started more than once.
    pub fn double_starts(&self, attempts: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for attempt in attempts {
            let mut processes: Vec<&str> =
                self.of(attempt).iter().map(|it| it.process.as_str()).collect();
            processes.sort_unstable();
            found.extend(
                processes
                    .windows(2)
                    .filter(|pair| pair[0] == pair[1])
                    .map(|pair| pair[0].to_owned()),
            );
        }
        found
    }

    /// How many executions there were beyond the first one of each attempt.
    pub fn restarts(&self, attempts: &[String]) -> usize {
        attempts.iter().map(|attempt| self.of(attempt).len().saturating_sub(1)).sum()
    }

    /// How many executions had a gap of at least so many milliseconds.
    pub fn frozen(&self, attempts: &[String], millis: u64) -> usize {
        let all = attempts.iter().flat_map(|attempt| self.of(attempt));
        all.filter(|it| it.longest_gap() >= millis).count()
    }
}

/// What the log of an attempt shows of its executions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logged {
    pub lines: u64,
    /// Ticks of executions on a lost host that were not shipped.
    pub lost: u64,
}

/// Holds the texts of a log, in their order, against what was executed.
///
/// # Errors
/// A tick is missing or comes twice. The last ticks of an execution may be missing if its host was
/// lost: then an entry has to say so, and what was shipped before has to be there.
pub fn judge_log(
    texts: &[String],
    executions: &[Execution],
    last_ticks: u32,
    is_host_lost: bool,
) -> std::result::Result<Logged, String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut logged = Logged::default();
    for text in texts {
        for line in text.lines() {
            let Some((tick, process)) = crate::tick::parse(line) else { continue };
            let before = seen.entry(process).or_default();
            if tick != *before + 1 {
                return Err(format!("tick {tick} of {process} comes after tick {before}"));
            }
            *before = tick;
            logged.lines += 1;
        }
    }
    let says_so = texts.iter().any(|text| text.contains("is not in this log"));
    for (at, execution) in executions.iter().enumerate() {
        let ticks = seen.get(execution.process.as_str()).copied().unwrap_or_default();
        let is_last = at + 1 == executions.len();
        let ran = u32::try_from(execution.ticks.len()).unwrap_or(u32::MAX);
        if is_last && ticks != last_ticks {
            return Err(format!("{ticks} of {last_ticks} ticks of the last execution are logged"));
        }
        if is_last || ticks >= ran {
            continue;
        }
        if !is_host_lost || !says_so || ticks == 0 {
            return Err(format!("{ticks} of {ran} ticks of {} are logged", execution.process));
        }
        logged.lost += u64::from(ran - ticks);
    }
    Ok(logged)
}
