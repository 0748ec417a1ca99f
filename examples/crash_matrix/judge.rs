//! What is found, held against what was asked for: logs, exit statuses,
//! processes, states. Each look costs the same, however long the run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::executor::Witness;
use crate::fleet::{Ambush, Attempt, Fleet, Turn};
use crate::processes::{Census, started};
use crate::script::{Ending, STREAMS, line, parse, seed_of};
use crate::session::Key;
use crate::{Result, TIMEOUT, check};

/// How long what is on its way may look wrong.
const GRACE: Duration = Duration::from_secs(20);

/// What may be right at one moment, and not at every look for a while.
#[derive(Default)]
pub struct Suspicions {
    since: HashMap<String, Instant>,
    now: HashSet<String>,
}

impl Suspicions {
    fn raise(&mut self, what: String) -> Result<()> {
        let since = *self.since.entry(what.clone()).or_insert_with(Instant::now);
        if since.elapsed() > GRACE {
            return Err(format!("{what}, for {GRACE:?}").into());
        }
        self.now.insert(what);
        Ok(())
    }

    fn forget_the_rest(&mut self) {
        let now = std::mem::take(&mut self.now);
        self.since.retain(|what, _| now.contains(what));
    }
}

/// The record of a process's end, as its shim wrote it.
#[derive(Debug)]
struct Exit {
    ending: Option<Ending>,
    json: Value,
}

impl Exit {
    fn read(folder: &Path) -> Result<Option<Self>> {
        let Ok(bytes) = fs::read(folder.join("exit.json")) else { return Ok(None) };
        let json: Value = serde_json::from_slice(&bytes)?;
        let number = |name: &str| json[name].as_i64().and_then(|it| i32::try_from(it).ok());
        let code = number("exit_code").map(Ending::Code);
        let ending = code.or_else(|| number("exit_signal").map(Ending::Signal));
        Ok(Some(Self { ending, json }))
    }
}

/// Whether an attempt that has settled can be done with.
enum Verdict {
    Fine,
    /// It may come yet.
    NotYet(String),
}

impl Fleet {
    /// One look at everything.
    pub fn look(&mut self) -> Result<()> {
        let census = self.scratch.census();
        self.look_at_processes(&census)?;
        self.read_logs()?;
        self.look_at_statuses()?;
        self.look_at_witnesses()?;
        self.suspicions.forget_the_rest();
        self.retire()
    }

    fn look_at_processes(&mut self, census: &Census) -> Result<()> {
        let starting = self.attempts.iter().any(|attempt| attempt.id.is_empty());
        for marked in &census.marked {
            let is_live = self.attempts.iter().any(|attempt| attempt.id == marked.attempt_id);
            let is_known = is_live || (starting && !self.retired.contains(&marked.attempt_id));
            let describe = || format!("an orphan of an attempt that is over: {marked:?}");
            check(&mut self.checks, is_known || !marked.process.is_alive(), describe)?;
            let folder = self.scratch.folder(&marked.attempt_id, &marked.process_id);
            let exit = Exit::read(&folder)?;
            let is_given_up = exit.is_some_and(|exit| exit.ending.is_none());
            let describe = || format!("it lives, and was given up: {marked:?}");
            check(&mut self.checks, !is_given_up || !marked.process.is_alive(), describe)?;
            if census.shim_of(&marked.process_id).is_none() {
                self.suspicions.raise(format!("nobody supervises {marked:?}"))?;
            }
        }
        let mut supervised = HashSet::new();
        for shim in &census.shims {
            if !supervised.insert(&shim.process_id) {
                self.suspicions.raise(format!("{} has two shims", shim.process_id))?;
            }
        }
        Ok(())
    }

    /// Reads what is new in each raw log.
    fn read_logs(&mut self) -> Result<()> {
        self.read_logs_of(0..self.attempts.len())
    }

    fn read_logs_of(&mut self, attempts: Range<usize>) -> Result<()> {
        let mut asked: Vec<(usize, Key)> = Vec::new();
        for which in attempts {
            if !self.attempts[which].id.is_empty() {
                asked.push((which, self.ask_for_log(which)?));
            }
        }
        while let Some((which, key)) = asked.pop() {
            let page = self.session.answer(&self.scratch, key)?.value;
            for entry in page["entries"].as_array().into_iter().flatten() {
                self.checks += 1;
                judge_entry(&mut self.attempts[which], entry)
                    .map_err(|why| format!("{why}: {entry} of {}", self.attempts[which].id))?;
            }
            if page["has_more"] == true {
                asked.push((which, self.ask_for_log(which)?));
            }
        }
        Ok(())
    }

    fn ask_for_log(&mut self, which: usize) -> Result<Key> {
        let Attempt { id, last_entry, .. } = &self.attempts[which];
        let page = json!({"attempt_id": id, "channel": "raw", "after_entry_index": last_entry,
            "limit": 1000, "max_bytes": 1 << 20});
        self.session.begin(&self.scratch, "tail_attempt_logs", &page)
    }

    fn look_at_statuses(&mut self) -> Result<()> {
        for attempt in self.attempts.iter_mut().filter(|attempt| !attempt.id.is_empty()) {
            let id = &attempt.id;
            // One by one: of many at once not every field is told.
            let wanted = json!({"attempt_id": id});
            let status = self.session.call(&self.scratch, "get_attempt_status", &wanted)?;
            let is_asked_for = status["attempt_id"] == *id;
            check(&mut self.checks, is_asked_for, || format!("not that of {id}: {status}"))?;
            attempt.status = status.clone();
            let process = status["latest_execution_process_id"].as_str().unwrap_or_default();
            let exit = Exit::read(&self.scratch.folder(id, process))?;
            let has_reason =
                status["failure_summary"].as_str().is_some_and(|text| !text.is_empty());
            let is_true = match status["state"].as_str() {
                Some("completed") => {
                    exit.as_ref().and_then(|exit| exit.ending) == Some(Ending::Code(0))
                }
                Some("failed") => has_reason,
                Some("idle") => status["phase"] == "queued" || attempt.is_stopped,
                _ => status["phase"] != "settled",
            };
            check(&mut self.checks, is_true, || {
                format!("what is told is not so: {status}; on file is {exit:?}")
            })?;
            if status["phase"] == "running" && exit.is_some() {
                self.suspicions.raise(format!("{process} has ended and is said to run"))?;
            }
        }
        Ok(())
    }

    /// Each turn was run by one process.
    fn look_at_witnesses(&mut self) -> Result<()> {
        let mut seeds = HashSet::new();
        for entry in fs::read_dir(self.scratch.witnesses())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let seed = name.split('-').next().unwrap_or_default().to_owned();
            let describe = || format!("a turn was run twice: {name}");
            check(&mut self.checks, seeds.insert(seed), describe)?;
        }
        Ok(())
    }

    /// Is done with some of those that have settled.
    fn retire(&mut self) -> Result<()> {
        let census = self.scratch.census();
        let mut which = 0;
        while which < self.attempts.len() {
            let goes = self.rng.u8(..2) == 0 || self.attempts[which].is_stopped;
            let attempt = &mut self.attempts[which];
            if attempt.is_settled() && (goes || attempt.closing.is_some()) {
                let since = *attempt.closing.get_or_insert_with(Instant::now);
                match self.verdict(which, &census)? {
                    Verdict::Fine => {
                        let attempt = self.attempts.swap_remove(which);
                        self.retired.insert(attempt.id);
                        continue;
                    }
                    Verdict::NotYet(why) if since.elapsed() > TIMEOUT => {
                        let status = &self.attempts[which].status;
                        return Err(format!("{why}, for good: {status}").into());
                    }
                    Verdict::NotYet(_) => {}
                }
            }
            which += 1;
        }
        Ok(())
    }

    /// Judges an attempt as a whole.
    fn verdict(&mut self, which: usize, census: &Census) -> Result<Verdict> {
        let id = self.attempts[which].id.clone();
        let folders = self.folders(&id)?;
        let alive: Vec<&String> =
            folders.values().map(|(process, _)| process).filter(|it| census.has(it)).collect();
        if !alive.is_empty() {
            // What it left behind ends with a stop, or in its own time.
            if self.rng.bool() {
                self.stop(which)?;
            }
            return Ok(Verdict::NotYet(format!("something of {alive:?} is alive")));
        }
        // In the meantime it may have said its last.
        self.read_logs_of(which..which + 1)?;
        let mut ran = Vec::new();
        for number in 0..self.attempts[which].turns.len() {
            let seed = self.attempts[which].turns[number].script.seed;
            let Some((process, folder)) = folders.get(&seed) else { break };
            let may_be_cut = self.attempts[which].is_stopped && number + 1 == folders.len();
            let verdict = self.turn_verdict(which, number, (process, folder), may_be_cut)?;
            if let Verdict::NotYet(why) = verdict {
                return Ok(Verdict::NotYet(why));
            }
            self.attempts[which].turns[number].process_id = Some(process.clone());
            ran.push(seed);
        }
        let attempt = &self.attempts[which];
        let all = attempt.turns.len();
        let describe = || format!("{} of {all} turns were run, {ran:?}: {folders:?}", ran.len());
        let is_whole = ran.len() == folders.len() && (ran.len() == all || attempt.is_stopped);
        check(&mut self.checks, is_whole, describe)?;
        self.judge_normalized(which, ran.len())?;
        if !ran.is_empty() && self.snapshots(&id)?.is_empty() {
            return Ok(Verdict::NotYet("its last turn has no snapshot".to_owned()));
        }
        let task = json!({"task_id": self.attempts[which].task_id});
        let listed = self.session.call(&self.scratch, "list_task_attempts", &task)?;
        let count = listed["attempts"].as_array().map_or(0, Vec::len);
        check(&mut self.checks, count == 1, || format!("{count} attempts: {listed}"))?;
        Ok(Verdict::Fine)
    }

    /// The references to the snapshots of an attempt's turns.
    fn snapshots(&self, id: &str) -> Result<Vec<String>> {
        let of_attempt = format!("refs/provost/attempts/{id}");
        self.scratch.git(&["for-each-ref", "--format=%(refname)", &of_attempt])
    }

    /// An attempt's processes and their folders, by the seeds of their turns.
    fn folders(&self, id: &str) -> Result<HashMap<u64, (String, PathBuf)>> {
        let mut folders = HashMap::new();
        let Ok(entries) = fs::read_dir(self.scratch.home().join("attempts").join(id)) else {
            return Ok(folders);
        };
        for entry in entries {
            let entry = entry?;
            if !entry.path().join("manifest.json").exists() {
                continue;
            }
            let prompt = fs::read_to_string(entry.path().join("stdin"))?;
            let seed = parse(&prompt).ok_or_else(|| format!("whose prompt is {prompt:?}?"))?;
            let process = entry.file_name().to_string_lossy().into_owned();
            if let Some(other) = folders.insert(seed, (process.clone(), entry.path())) {
                return Err(format!("one turn, two processes: {process}, {other:?}").into());
            }
        }
        Ok(folders)
    }

    fn turn_verdict(
        &mut self,
        which: usize,
        number: usize,
        (process, folder): (&String, &Path),
        may_be_cut: bool,
    ) -> Result<Verdict> {
        let Some(exit) = Exit::read(folder)? else {
            return Ok(Verdict::NotYet(format!("no exit record of {process}")));
        };
        let attempt = &self.attempts[which];
        let turn = &attempt.turns[number];
        let witness = self.witness(turn.script.seed)?;
        let is_same = match &witness {
            Some(it) => it.process_id == *process && started(folder)? == Some(it.process),
            None => true,
        } && turn.process_id.as_ref().is_none_or(|it| *it == *process);
        check(&mut self.checks, is_same, || format!("{witness:?} is not {process}"))?;
        let (seen, lines) = (turn.seen, turn.script.lines());
        let is_complete = seen == lines && turn.torn == [false; 2];
        let written = witness.as_ref().map_or([0; 2], |witness| witness.lines);
        let is_whole = (0..2).all(|stream| u64::from(seen[stream]) >= written[stream]);

        let message = format!(
            "turn {number} of {} ended as {} after {seen:?} lines; its script says {:?} after \
             {lines:?}, it had written {written:?}",
            attempt.id, exit.json, turn.script.ending
        );
        match exit.ending {
            Some(ending) if ending == turn.script.ending && is_complete => Ok(Verdict::Fine),
            Some(_) if may_be_cut && is_whole => Ok(Verdict::Fine),
            Some(ending) if ending == turn.script.ending || may_be_cut => {
                Ok(Verdict::NotYet(message))
            }
            // Nobody could see its end, and that is what is told.
            None if turn.may_be_lost || may_be_cut || self.is_ambushed(folder) => {
                self.lost += 1;
                let has_reason = exit.json["reason"].as_str().is_some_and(|it| !it.is_empty());
                check(&mut self.checks, has_reason, || message)?;
                Ok(Verdict::Fine)
            }
            _ => Err(message.into()),
        }
    }

    /// Whether this process was one that was told to lose its shim at its start.
    fn is_ambushed(&mut self, folder: &Path) -> bool {
        let begun = fs::metadata(folder.join("manifest.json")).and_then(|meta| meta.modified());
        let Ok(begun) = begun else { return false };
        let its = |ambush: &Ambush| (ambush.from..=ambush.until).contains(&begun);
        // It was one shim's.
        let ambush = self.ambushes.iter().position(its);
        ambush.map(|ambush| self.ambushes.swap_remove(ambush)).is_some()
    }

    pub fn witness(&self, seed: u64) -> Result<Option<Witness>> {
        let prefix = format!("{seed}-");
        for entry in fs::read_dir(self.scratch.witnesses())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                return Ok(Witness::read(&entry.path()));
            }
        }
        Ok(None)
    }

    /// The other channel: each prompt, the lines of its turn, and its end, once
    /// and in order.
    fn judge_normalized(&mut self, which: usize, ran: usize) -> Result<()> {
        let mut last = -1;
        let mut entries: Vec<Value> = Vec::new();
        loop {
            let page = json!({"attempt_id": self.attempts[which].id, "after_entry_index": last,
                "limit": 1000, "max_bytes": 1 << 20});
            let page = self.session.call(&self.scratch, "tail_attempt_logs", &page)?;
            entries.extend(page["entries"].as_array().into_iter().flatten().cloned());
            last = entries.last().map_or(-1, |entry| entry["entry_index"].as_i64().unwrap_or(-1));
            if page["has_more"] != true {
                break;
            }
        }
        let texts = |process: &str, kind: &str| -> Vec<&str> {
            let of = entries.iter().filter(|entry| entry["execution_process_id"] == process);
            of.filter(|entry| entry["kind"] == kind)
                .filter_map(|entry| entry["text"].as_str())
                .collect()
        };
        let attempt = &self.attempts[which];
        for turn in &attempt.turns[..ran] {
            let Some(process) = &turn.process_id else { continue };
            for (stream, kind) in ["assistant_message", "system_message"].into_iter().enumerate() {
                let texts = texts(process, kind);
                let whole = (0..turn.seen[stream]).map(|it| line(turn.script.seed, stream, it));
                let is_so = texts.len() as u64
                    == u64::from(turn.seen[stream]) + u64::from(turn.torn[stream])
                    && whole.zip(&texts).all(|(line, text)| line == *text);
                let describe = || format!("{kind}s of {process} are not what it wrote: {texts:?}");
                check(&mut self.checks, is_so, describe)?;
            }
            for kind in ["user_message", "process_start", "process_end"] {
                let count = texts(process, kind).len();
                let describe = || format!("{count} entries {kind} of {process}");
                check(&mut self.checks, count == 1, describe)?;
            }
        }
        Ok(())
    }
}

/// One raw entry: the very next line of its stream.
fn judge_entry(attempt: &mut Attempt, entry: &Value) -> std::result::Result<(), String> {
    let index = entry["entry_index"].as_i64().unwrap_or(-1);
    if index != attempt.last_entry + 1 {
        return Err(format!("not entry {}", attempt.last_entry + 1));
    }
    attempt.last_entry = index;
    let text = entry["text"].as_str().unwrap_or_default();
    let process = entry["execution_process_id"].as_str().unwrap_or_default();
    let stream = STREAMS.iter().position(|name| entry["stream"] == *name).ok_or("no stream")?;
    let is_its = |turn: &Turn| match &turn.process_id {
        Some(known) => known == process,
        None => seed_of(text) == Some(turn.script.seed),
    };
    let number = attempt.turns.iter().position(is_its).ok_or("of no turn")?;
    if number < attempt.at_turn {
        return Err(format!("turn {number} comes after turn {}", attempt.at_turn));
    }
    attempt.at_turn = number;
    let turn = &mut attempt.turns[number];
    turn.process_id.get_or_insert_with(|| process.to_owned());
    let next = line(turn.script.seed, stream, turn.seen[stream]);
    let is_beyond = turn.seen[stream] >= turn.script.lines()[stream] || turn.torn[stream];
    if is_beyond {
        Err("nothing more was to come".to_owned())
    } else if text == next {
        turn.seen[stream] += 1;
        Ok(())
    } else if next.starts_with(text) {
        turn.torn[stream] = true;
        Ok(())
    } else {
        Err(format!("not line {}, {next:?}", turn.seen[stream]))
    }
}
