//! What becomes of the work of attempts that are over: merged, pushed or discarded, while the
//! daemon dies. Whatever happens, it happens once and whole.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::session::Key;
use crate::{Result, TIMEOUT, check};

/// What is done with the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Merge,
    Push,
    Discard,
}

impl End {
    fn action(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Push => "push",
            Self::Discard => "discard",
        }
    }
}

/// A finish that is to be asked for, or was.
pub struct Finishing {
    end: End,
    attempt_id: String,
    worktree: PathBuf,
    /// A file that nothing else has.
    file: String,
    pub key: Option<Key>,
}

impl Fleet {
    /// Waits until an attempt is over, and gives it some work, to be finished; `None`: it was
    /// stopped before it had a worktree.
    pub fn prepare_finish(&mut self, end: End) -> Result<Option<Finishing>> {
        let deadline = Instant::now() + TIMEOUT;
        while self.retired.is_subset(&self.discarded) && Instant::now() < deadline {
            self.look()?;
            self.finish()?;
        }
        let over: Vec<&String> = self.retired.difference(&self.discarded).collect();
        let attempt_id = self.rng.choice(over).ok_or("no attempt ever ends")?.clone();
        let status = json!({"attempt_id": attempt_id});
        let status = self.session.call(&self.scratch, "get_attempt_status", &status)?;
        let worktree = PathBuf::from(status["worktree"].as_str().unwrap_or_default());
        let file = format!("finish-{}", self.rng.u64(..1 << 48));
        if fs::write(worktree.join(&file), "work\n").is_err() {
            return Ok(None);
        }
        Ok(Some(Finishing { end, attempt_id, worktree, file, key: None }))
    }

    pub fn ask_finish(&mut self, finishing: &mut Finishing) -> Result<()> {
        let Finishing { end, attempt_id, .. } = finishing;
        let call = json!({"attempt_id": attempt_id, "action": end.action()});
        finishing.key = Some(self.ask("finish_attempt", call)?);
        Ok(())
    }

    /// Holds what was done against what was asked for. Call it once all is answered.
    pub fn judge_finish(&mut self, finishing: &Finishing) -> Result<()> {
        let Some(answer) = finishing.key.and_then(|key| self.session.take(key)) else {
            return Err("a finish was not answered".into());
        };
        let Finishing { end, attempt_id, worktree, file, .. } = finishing;
        let describe = |what: &str| format!("{end:?} of {attempt_id}: {what}: {}", answer.text);
        check(&mut self.checks, answer.value["state"] == "done", || describe("not done"))?;
        let repo = &answer.value["repos"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match end {
            End::Merge => {
                let commits = self.scratch.git(&["log", "--format=%H", "main", "--", file])?;
                check(&mut self.checks, commits.len() == 1, || describe("not committed once"))?;
                let there = self.scratch.repo().join(file).exists();
                check(&mut self.checks, there, || describe("the checkout does not follow"))
            }
            End::Push => {
                let place = text(&repo["pushed_to"]);
                let reference = place.replacen("origin/", "refs/heads/", 1);
                let listed = self.scratch.git(&["ls-remote", "origin", &reference])?;
                let commit = text(&repo["commit"]);
                let is_there = listed.len() == 1 && listed[0].starts_with(&commit);
                check(&mut self.checks, is_there, || describe("the remote does not have it"))
            }
            End::Discard => {
                self.discarded.insert(attempt_id.clone());
                check(&mut self.checks, !worktree.exists(), || describe("the worktree is there"))?;
                let kept = format!("{}:{file}", text(&repo["snapshot"]));
                let is_kept = self.scratch.git(&["show", &kept]).is_ok();
                check(&mut self.checks, is_kept, || describe("its work is lost"))
            }
        }
    }
}
