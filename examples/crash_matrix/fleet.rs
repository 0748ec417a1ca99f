//! The attempts that live at any time, and the calls that start, steer and stop
//! them. What is asked for is noted here before it is asked; [`judge`](crate::judge)
//! holds what is found against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::judge::Suspicions;
use crate::scratch::Scratch;
use crate::script::Script;
use crate::session::{Key, Session};
use crate::{Result, check};

/// Attempts at once.
pub const LIVE: usize = 20;
/// Turns of one attempt.
const TURNS_MAX: usize = 4;
/// Answered calls that may be asked again.
const REMEMBERED: usize = 32;

/// One prompt, and what is known of its process.
pub struct Turn {
    pub script: Script,
    pub process_id: Option<String>,
    /// Lines in the raw log, of each stream.
    pub seen: [u32; 2],
    /// Whether the last of them was cut short.
    pub torn: [bool; 2],
    /// Daemon and shim died at once: nobody may have seen its end.
    pub may_be_lost: bool,
}

impl Turn {
    fn of(script: Script) -> Self {
        Self { script, process_id: None, seen: [0; 2], torn: [false; 2], may_be_lost: false }
    }
}

/// What is asked for an attempt and not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Task(Key),
    Start(Key),
    FollowUp(Key),
    Stop(Key),
}

pub struct Attempt {
    pub task_id: String,
    /// Empty until its start is answered.
    pub id: String,
    pub turns: Vec<Turn>,
    pub asked: Option<Asked>,
    /// Number of the newest raw entry that was read.
    pub last_entry: i64,
    /// Number of the turn that it belonged to.
    pub at_turn: usize,
    pub status: Value,
    pub is_stopped: bool,
    /// Nothing more is asked of it, since then.
    pub closing: Option<Instant>,
}

impl Attempt {
    pub fn is_settled(&self) -> bool {
        let phase = &self.status["phase"];
        self.asked.is_none()
            && (*phase == "settled" || (self.is_stopped && *phase == "idle"))
            && (self.status["queued_follow_ups"] == 0 || self.status["queue_held"] == true)
    }

    fn takes_more(&self) -> bool {
        let is_free = self.asked.is_none() && !self.id.is_empty() && !self.is_stopped;
        is_free && self.closing.is_none()
    }
}

/// A time in which the first shim that was started was told to die: its process
/// may not come to run, or end with nobody to tell how.
pub struct Ambush {
    pub from: SystemTime,
    pub until: SystemTime,
}

/// All that is going on in one home.
pub struct Fleet {
    pub scratch: Scratch,
    pub session: Session,
    pub rng: Rng,
    project_id: String,
    /// The project of the same repository whose attempts have a setup.
    pub prepared_id: String,
    pub attempts: Vec<Attempt>,
    pub ambushes: Vec<Ambush>,
    pub retired: BTreeSet<String>,
    /// Those of them whose worktrees were given up.
    pub discarded: BTreeSet<String>,
    pub suspicions: Suspicions,
    /// What was checked so far.
    pub checks: u64,
    /// Attempts that ended with nobody to tell how, as they may.
    pub lost: u64,
    requests: u64,
    calls: BTreeMap<Key, (&'static str, Value)>,
    remembered: Vec<(&'static str, Value, String)>,
    again: BTreeMap<Key, String>,
    /// How executors with long scripts are made to betray them: one may be lost with its
    /// shim before it does.
    pub betrayal: Option<String>,
}

impl Fleet {
    pub fn launch(scratch: Scratch, rng: Rng) -> Result<Self> {
        let mut session = Session::default();
        let repos = json!([{"path": scratch.repo()}]);
        let mut made = |name: &str| -> Result<String> {
            let project = json!({"name": name, "repos": repos, "request_id": name});
            let project = session.call(&scratch, "create_project", &project)?;
            Ok(project["project_id"].as_str().ok_or("no project")?.to_owned())
        };
        let (project_id, prepared_id) = (made("matrix")?, made("prepared")?);
        Ok(Self {
            scratch,
            session,
            rng,
            project_id,
            prepared_id,
            attempts: Vec::new(),
            ambushes: Vec::new(),
            retired: BTreeSet::new(),
            discarded: BTreeSet::new(),
            suspicions: Suspicions::default(),
            checks: 0,
            lost: 0,
            requests: 0,
            calls: BTreeMap::new(),
            remembered: Vec::new(),
            again: BTreeMap::new(),
            betrayal: None,
        })
    }

    /// Asks for a few things, and does not wait for what comes of them.
    pub fn act(&mut self) -> Result<()> {
        while self.attempts.len() < LIVE {
            self.start(|_| true)?;
        }
        for _ in 0..self.rng.usize(1..4) {
            let attempt = self.rng.usize(..self.attempts.len());
            match self.rng.u8(..10) {
                0 => self.stop(attempt)?,
                _ => self.follow_up(attempt)?,
            }
        }
        if !self.remembered.is_empty() && self.rng.u8(..4) == 0 {
            let which = self.rng.usize(..self.remembered.len());
            let (tool, arguments, text) = self.remembered.swap_remove(which);
            let key = self.session.begin(&self.scratch, tool, &arguments)?;
            self.again.insert(key, text);
        }
        Ok(())
    }

    /// Begins an attempt whose first turn is of some kind.
    pub fn start(&mut self, is_wanted: impl Fn(&Script) -> bool) -> Result<()> {
        let script = self.script(is_wanted);
        let title = format!("Write lines {}", script.seed);
        let key =
            self.ask("create_task", json!({"project_id": self.project_id, "title": title}))?;
        self.attempts.push(Attempt {
            task_id: String::new(),
            id: String::new(),
            turns: vec![Turn::of(script)],
            asked: Some(Asked::Task(key)),
            last_entry: -1,
            at_turn: 0,
            status: Value::Null,
            is_stopped: false,
            closing: None,
        });
        Ok(())
    }

    /// Gives an attempt its next turn, if it takes one.
    pub fn follow_up(&mut self, which: usize) -> Result<()> {
        let attempt = &self.attempts[which];
        if !attempt.takes_more() || attempt.turns.len() >= TURNS_MAX {
            return Ok(());
        }
        // Both run at once in a session where nothing runs.
        let action = if attempt.is_settled() && self.rng.bool() { "send" } else { "queue" };
        let script = self.script(|_| true);
        let attempt = &self.attempts[which];
        let call = json!({"attempt_id": attempt.id, "action": action, "prompt": script.prompt()});
        let key = self.ask("follow_up", call)?;
        let attempt = &mut self.attempts[which];
        attempt.turns.push(Turn::of(script));
        attempt.asked = Some(Asked::FollowUp(key));
        // That it had settled is no news any more.
        attempt.status = Value::Null;
        Ok(())
    }

    /// Stops an attempt, if nothing else is asked of it.
    pub fn stop(&mut self, which: usize) -> Result<()> {
        let attempt = &self.attempts[which];
        if attempt.asked.is_some() || attempt.id.is_empty() || attempt.is_stopped {
            return Ok(());
        }
        let force = self.rng.bool();
        let key = self.ask("stop_attempt", json!({"attempt_id": attempt.id, "force": force}))?;
        let attempt = &mut self.attempts[which];
        attempt.asked = Some(Asked::Stop(key));
        attempt.is_stopped = true;
        attempt.status = Value::Null;
        Ok(())
    }

    pub fn ask(&mut self, tool: &'static str, mut arguments: Value) -> Result<Key> {
        self.requests += 1;
        arguments["request_id"] = json!(format!("r{}", self.requests));
        let key = self.session.begin(&self.scratch, tool, &arguments)?;
        self.calls.insert(key, (tool, arguments));
        Ok(key)
    }

    pub fn script(&mut self, is_wanted: impl Fn(&Script) -> bool) -> Script {
        loop {
            // Within what JSON's numbers carry.
            let script = Script::of(self.rng.u64(..1 << 48));
            if is_wanted(&script) {
                return script;
            }
        }
    }

    /// Goes on with what has been answered.
    pub fn advance(&mut self) -> Result<()> {
        for which in 0..self.attempts.len() {
            let Some(asked) = self.attempts[which].asked else { continue };
            let (Asked::Task(key) | Asked::Start(key) | Asked::FollowUp(key) | Asked::Stop(key)) =
                asked;
            let Some(answer) = self.session.take(key) else { continue };
            if let Some((tool, arguments)) = self.calls.remove(&key) {
                self.remembered.truncate(REMEMBERED - 1);
                self.remembered.push((tool, arguments, answer.text.clone()));
            }
            let id = |name: &str| answer.value[name].as_str().unwrap_or_default().to_owned();
            self.attempts[which].asked = None;
            match asked {
                Asked::Task(_) => {
                    self.attempts[which].task_id = id("task_id");
                    self.begin(which)?;
                }
                Asked::Start(_) => self.attempts[which].id = id("attempt_id"),
                Asked::FollowUp(_) => {}
                Asked::Stop(_) => self.is_stopped(which, &answer.value)?,
            }
        }
        let again: Vec<Key> = self.again.keys().copied().collect();
        for key in again {
            if let Some(answer) = self.session.take(key)
                && let Some(text) = self.again.remove(&key)
            {
                let is_the_same = answer.text == text && answer.is_deduplicated;
                let describe = || format!("a call made again: {} and not {text}", answer.text);
                check(&mut self.checks, is_the_same, describe)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, which: usize) -> Result<()> {
        let attempt = &self.attempts[which];
        let mut prompt = attempt.turns[0].script.prompt();
        let is_long = attempt.turns[0].script.steps.len() > 10;
        if let Some(word) = self.betrayal.as_ref().filter(|_| is_long) {
            prompt = format!("{prompt} {word}");
        }
        let start = json!({"task_id": attempt.task_id, "executor": "scripted", "prompt": prompt});
        let key = self.ask("start_task_attempt", start)?;
        self.attempts[which].asked = Some(Asked::Start(key));
        Ok(())
    }

    /// Once a stop has been answered nothing that the attempt started is alive.
    fn is_stopped(&mut self, which: usize, answer: &Value) -> Result<()> {
        let id = &self.attempts[which].id;
        let left: Vec<_> =
            self.scratch.census().marked.into_iter().filter(|it| it.attempt_id == *id).collect();
        let is_clean = left.iter().all(|marked| !marked.process.is_alive());
        let describe = || format!("a stop was answered {answer}, and {left:?} are alive");
        check(&mut self.checks, is_clean && answer["survivors"] == 0, describe)
    }

    /// Waits for all answers, and for those that they lead to.
    pub fn finish(&mut self) -> Result<()> {
        loop {
            self.session.finish(&self.scratch)?;
            self.advance()?;
            if self.attempts.iter().all(|attempt| attempt.asked.is_none()) && self.again.is_empty()
            {
                return Ok(());
            }
        }
    }
}
