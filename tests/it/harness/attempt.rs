//! A handle on one attempt: its standing, its log, its processes, its end.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Provost, TIMEOUT, eventually, pause, processes, wait_until};

/// The most that one page of a log takes.
const PAGE: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

pub struct Attempt<'p> {
    provost: &'p Provost,
    pub id: String,
    /// What `start_task_attempt` gave.
    pub started: Value,
}

impl<'p> Attempt<'p> {
    pub fn new(provost: &'p Provost, started: Value) -> Self {
        Self { provost, id: started["attempt_id"].as_str().unwrap().to_owned(), started }
    }

    pub fn status(&self) -> Value {
        self.provost.call("get_attempt_status", &json!({"attempt_id": self.id}))
    }

    /// Waits until its status satisfies; returns it.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what}: it did not come true; it is {status}");
            pause();
        }
    }

    pub fn in_phase(&self, phase: &str) -> Value {
        self.until(&format!("it is {phase}"), |status| status["phase"] == phase)
    }

    pub fn settled(&self) -> Value {
        self.in_phase("settled")
    }

    /// Waits until the snapshot of this turn, its last one, is made.
    pub fn saved(&self, turn: u32) -> Value {
        self.until("its last turn has a snapshot", |status| status["latest_snapshot_turn"] == turn)
    }

    /// Waits until its raw log holds a line with this text.
    pub fn has_said(&self, text: &str) {
        let mut last = -1;
        wait_until(&format!("it has said {text:?}"), || {
            let page = self.page_after("raw", last);
            let entries = page["entries"].as_array().unwrap();
            last = last_index(entries).unwrap_or(last);
            entries.iter().any(|entry| entry["text"].as_str().unwrap().contains(text))
        });
    }

    pub fn stop(&self) -> Value {
        self.provost.call("stop_attempt", &json!({"attempt_id": self.id}))
    }

    pub fn stop_by_force(&self) -> Value {
        self.provost.call("stop_attempt", &json!({"attempt_id": self.id, "force": true}))
    }

    /// A page of its log.
    pub fn page(&self, channel: &str, more: &Value) -> Value {
        let mut arguments = json!({"attempt_id": self.id, "channel": channel});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.provost.call("tail_attempt_logs", &arguments)
    }

    /// The largest page of the entries after an index.
    fn page_after(&self, channel: &str, last: i64) -> Value {
        let place = json!({"after_entry_index": last, "limit": PAGE, "max_bytes": PAGE_BYTES});
        self.page(channel, &place)
    }

    /// The entries after an index, as far as there are any now.
    pub fn after(&self, channel: &str, mut last: i64) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let mut page = self.page_after(channel, last);
            let Value::Array(entries) = page["entries"].take() else { panic!("{page}") };
            last = last_index(&entries).unwrap_or(last);
            all.extend(entries);
            if page["has_more"] == false {
                return all;
            }
        }
    }

    /// Adds what the raw log has by now to what was seen of it.
    pub fn catch_up(&self, seen: &mut Vec<Value>) {
        let last = last_index(seen).unwrap_or(-1);
        seen.extend(self.after("raw", last));
    }

    /// The whole raw log.
    pub fn raw(&self) -> Vec<Value> {
        self.after("raw", -1)
    }

    /// The whole normalized log.
    pub fn normalized(&self) -> Vec<Value> {
        self.after("normalized", -1)
    }

    /// The texts of one stream's lines, in order.
    pub fn lines(&self, stream: &str) -> Vec<String> {
        texts(self.raw().iter().filter(|entry| entry["stream"] == stream))
    }

    /// The texts of the normalized entries of a kind, in order.
    pub fn said(&self, kind: &str) -> Vec<String> {
        texts(self.normalized().iter().filter(|entry| entry["kind"] == kind))
    }

    /// The folder of its newest process.
    pub fn dir(&self) -> PathBuf {
        let status = self.status();
        let process = status["latest_execution_process_id"].as_str().expect("it has a process");
        self.provost.home().join("attempts").join(&self.id).join(process)
    }

    /// The pid of its executor, once there is one.
    pub fn leader(&self) -> i32 {
        let path = self.dir().join("started.json");
        eventually("it has started", || {
            let started: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            i32::try_from(started["pid"].as_i64()?).ok()
        })
    }

    /// The pid of its shim, which works in the process's folder.
    pub fn shim(&self) -> i32 {
        let dir = self.dir();
        // Its proxy does so too.
        let is_shim = |pid: &i32| processes::name(*pid) != "provost-proxy";
        eventually("it has a shim", || processes::working_in(&dir).into_iter().find(is_shim))
    }

    /// The processes that it started and that live.
    pub fn processes(&self) -> Vec<i32> {
        processes::with_variable("PROVOST_ATTEMPT_ID", &self.id)
    }

    /// Checks, at once, that nothing which it started is alive.
    #[track_caller]
    pub fn leaves_no_process(&self) {
        let alive = self.processes();
        let names: Vec<String> = alive.iter().map(|pid| processes::name(*pid)).collect();
        assert!(alive.is_empty(), "alive: {alive:?} {names:?}");
    }
}

/// The number of the last of some entries.
fn last_index(entries: &[Value]) -> Option<i64> {
    entries.last()?["entry_index"].as_i64()
}

/// The texts of entries.
pub fn texts<'e>(entries: impl IntoIterator<Item = &'e Value>) -> Vec<String> {
    entries.into_iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}
