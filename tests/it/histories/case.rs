//! One generated history: what a careful person would have made of it by hand, and its merge by Provost, which
//! may be cut off.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};

use crate::finish::{arguments, worktree};
use crate::harness::{Answer, Attempt, Done, Provost, Repo, processes};

/// Whether a worktree is on a branch, `$OWN`, with nothing under way.
const AT_REST: &str = "[ \"$(git symbolic-ref -q --short HEAD)\" = \"$OWN\" ] || exit 3
     [ -z \"$(git ls-files -u)\" ] || exit 3
     for it in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
         [ ! -e \"$(git rev-parse --absolute-git-dir)/$it\" ] || exit 3
     done";

const SAVE: &str = "git add -A && { git diff --cached --quiet || git commit -qm rest; }";

/// What cuts a merge off.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// The daemon dies at a failpoint.
    Daemon(&'static str),
    /// The git that runs after so many others is killed.
    Git(usize),
}

pub struct Case<'p> {
    pub provost: &'p Provost,
    pub repo: &'p Repo,
    pub model: &'p Repo,
    pub attempt: &'p Attempt<'p>,
}

impl Case<'_> {
    /// The script by hand, in another repository. `Some`: the tree that `main` then has; `None`: git needs a person.
    pub fn merged_by_hand(&self, script: &str, base: &str) -> Option<String> {
        let (model, path) = (self.model, self.repo.path.to_str().unwrap());
        model.git(&["fetch", "--quiet", path, "main", base]);
        model.git(&["checkout", "--quiet", "-b", "own", base]);
        assert_eq!(self.by_hand(&model.path, script).code, 0);
        if !self.is_at_rest(&model.path, "own") {
            return None;
        }
        assert_eq!(self.by_hand(&model.path, SAVE).code, 0);
        self.merged()
    }

    /// The same of what is in the attempt's worktree.
    pub fn merged_as_it_stands(&self) -> Option<String> {
        let (model, worktree) = (self.model, worktree(self.attempt));
        let branch = self.attempt.started["workspace_branch"].as_str().unwrap().to_owned();
        if !self.is_at_rest(&worktree, &branch) {
            return None;
        }
        let worktree = worktree.to_str().unwrap();
        model.git(&["fetch", "--quiet", worktree, "HEAD:refs/heads/own"]);
        model.git(&["symbolic-ref", "HEAD", "refs/heads/own"]);
        model.git(&["read-tree", "HEAD"]);
        let save = format!("export GIT_WORK_TREE='{worktree}'; {SAVE}");
        assert_eq!(self.by_hand(&model.path, &save).code, 0);
        self.merged()
    }

    /// Merges the model's branch into what `main` is now.
    fn merged(&self) -> Option<String> {
        let (model, path) = (self.model, self.repo.path.to_str().unwrap());
        model.git(&["fetch", "--quiet", path, "main"]);
        model.git(&["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"]);
        let merge = self.by_hand(&model.path, "git merge -q --no-ff --no-edit own");
        (merge.code == 0).then(|| model.git(&["rev-parse", "HEAD^{tree}"]))
    }

    fn is_at_rest(&self, folder: &Path, branch: &str) -> bool {
        let looked = self.by_hand(folder, &format!("OWN='{branch}'\n{AT_REST}"));
        assert!([0, 3].contains(&looked.code), "{looked:?}");
        looked.code == 0
    }

    /// A shell line in a folder, as the person.
    fn by_hand(&self, folder: &Path, line: &str) -> Done {
        let mut command = self.provost.shell(line);
        command.current_dir(folder).env("GIT_EDITOR", "true");
        Provost::done(command)
    }

    /// `Err`: nothing was merged, and the hint says what to do.
    pub fn merge(&self, cut: Option<Cut>) -> Result<Value, Value> {
        let of = |more: &Value| arguments(self.attempt, "merge", more);
        let merge = of(&json!({"request_id": self.attempt.id}));
        let answer = match cut {
            None => self.provost.answer("finish_attempt", &merge),
            Some(Cut::Daemon(failpoint)) => self.merge_to_die_at(failpoint, &merge),
            Some(Cut::Git(number)) => {
                let mut answer = self.merge_without_git(number, &merge);
                if answer.is_error || answer.value["state"] != "done" {
                    answer = self.provost.answer("finish_attempt", &of(&json!({})));
                }
                // A git that was killed leaves its lock on a branch of the person's; git's words name it.
                if let Some(lock) = answer.is_error.then(|| lock(&answer.text)).flatten() {
                    assert!(lock.starts_with(&self.repo.path), "{}", lock.display());
                    fs::remove_file(lock).unwrap();
                    answer = self.provost.answer("finish_attempt", &of(&json!({})));
                }
                answer
            }
        };
        if answer.is_error {
            return Err(answer.refusal());
        }
        let done = answer.output();
        if done["state"] == "done" { Ok(done) } else { Err(done) }
    }

    fn merge_to_die_at(&self, failpoint: &str, merge: &Value) -> Answer {
        self.provost.kill();
        self.provost.start_to_die_at(failpoint);
        let mut client = self.provost.connect();
        let id = client.begin("finish_attempt", merge);
        let before = client.outcome(id);
        // One that has nothing to commit does not come by all of them.
        if before.is_some() {
            self.provost.kill();
        } else {
            self.provost.ended();
        }
        self.provost.start();
        let answer = self.provost.answer("finish_attempt", merge);
        if let Some(before) = before {
            assert_eq!(before.text, answer.text);
        }
        answer
    }

    /// Kills a git of the daemon's meanwhile, unless there are fewer.
    fn merge_without_git(&self, number: usize, merge: &Value) -> Answer {
        let daemon = self.provost.pid();
        let (mut seen, mut is_killed) = (Vec::new(), false);
        thread::scope(|scope| {
            let merging = scope.spawn(|| self.provost.answer("finish_attempt", merge));
            while !merging.is_finished() {
                for pid in gits(daemon) {
                    if !seen.contains(&pid) {
                        seen.push(pid);
                    }
                    if seen.len() > number && !is_killed {
                        processes::kill_hard(pid);
                        is_killed = true;
                    }
                }
            }
            merging.join().unwrap()
        })
    }
}

/// The lock that a refusal names.
fn lock(refusal: &str) -> Option<PathBuf> {
    let (_, rest) = refusal.split_once("Unable to create '")?;
    Some(rest.split_once('\'')?.0.into())
}

/// Each git that runs below a process.
fn gits(of: i32) -> Vec<i32> {
    let children = processes::children(of);
    let below = children.iter().flat_map(|child| gits(*child));
    let mut found: Vec<i32> = below.collect();
    found.extend(children.into_iter().filter(|pid| processes::name(*pid) == "git"));
    found
}
