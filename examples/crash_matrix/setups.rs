//! An attempt whose setup script runs while the daemon dies: the script runs once, and the agent
//! after it, once.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::fleet::Fleet;
use crate::scratch::{MADE, MADE_BY_ONE_RUN};
use crate::script::{Ending, Script};
use crate::session::Key;
use crate::{Result, TIMEOUT, check};

/// A start that is to be asked for, or was.
pub struct Preparing {
    task_id: String,
    script: Script,
    key: Option<Key>,
}

impl Fleet {
    /// Makes the task of an attempt whose agent ends soon and well.
    pub fn prepare_setup(&mut self) -> Result<Preparing> {
        let task = json!({"project_id": self.prepared_id, "title": "Work after a setup"});
        let task = self.session.call(&self.scratch, "create_task", &task)?;
        let task_id = task["task_id"].as_str().ok_or("no task")?.to_owned();
        let is_short = |it: &Script| it.ending == Ending::Code(0) && it.steps.len() < 10;
        let script = self.script(|it| is_short(it) && it.leftover.is_none());
        Ok(Preparing { task_id, script, key: None })
    }

    pub fn ask_setup(&mut self, preparing: &mut Preparing) -> Result<()> {
        let (task_id, prompt) = (&preparing.task_id, preparing.script.prompt());
        let call = json!({"task_id": task_id, "executor": "scripted", "prompt": prompt});
        preparing.key = Some(self.ask("start_task_attempt", call)?);
        Ok(())
    }

    /// Waits until the attempt has settled, and looks at what its setup made.
    pub fn judge_setup(&mut self, preparing: &Preparing) -> Result<()> {
        let Some(answer) = preparing.key.and_then(|key| self.session.take(key)) else {
            return Err("a start was not answered".into());
        };
        let attempt = json!({"attempt_id": answer.value["attempt_id"]});
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            let status = self.session.call(&self.scratch, "get_attempt_status", &attempt)?;
            if status["phase"] == "settled" {
                break status;
            }
            if Instant::now() > deadline {
                return Err(format!("never settled: {status}").into());
            }
        };
        let describe = |what: &str| format!("after a setup: {what}: {status}");
        check(&mut self.checks, status["state"] == "completed", || describe("not completed"))?;
        let worktree = Path::new(status["worktree"].as_str().unwrap_or_default());
        let made = fs::read_to_string(worktree.join(MADE)).unwrap_or_default();
        check(&mut self.checks, made == MADE_BY_ONE_RUN, || {
            describe(&format!("it made {made:?}"))
        })?;
        let has_run = self.witness(preparing.script.seed)?.is_some();
        check(&mut self.checks, has_run, || describe("its agent has not run"))
    }
}
