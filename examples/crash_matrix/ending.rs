//! The end of a home: everything is stopped, and what is left must be what was
//! promised to be left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::fleet::Fleet;
use crate::scratch::{IGNORED, IGNORED_TEXT};
use crate::{Result, TIMEOUT, check, wait_until};

/// What may lie in a home and beside it.
const HOME: [&str; 14] = [
    "attempts",
    "audit.jsonl",
    "config.toml",
    "daemon.log",
    "host-secret",
    "http-port",
    "http-token",
    "provost.db",
    "provost.db-shm",
    "provost.db-wal",
    "run",
    "scratch",
    "trash",
    "worktrees",
];
/// Length of an attempt's short id.
const SHORT: usize = 8;
const ROOT: [&str; 5] = ["home", "person", "remote", "repo", "witnesses"];
const RUN: [&str; 3] = ["daemon.lock", "daemon.sock", "http.sock"];

impl Fleet {
    /// Stops all that runs and looks at what is left.
    pub fn end(&mut self) -> Result<()> {
        self.finish()?;
        for which in 0..self.attempts.len() {
            self.stop(which)?;
        }
        self.finish()?;
        let deadline = Instant::now() + TIMEOUT;
        while !self.attempts.is_empty() {
            self.look()?;
            self.finish()?;
            if Instant::now() > deadline {
                let left: Vec<_> = self.attempts.iter().map(|it| &it.status).collect();
                return Err(format!("never settled: {left:?}").into());
            }
        }
        self.no_process_is_left()?;
        self.nothing_is_left()
    }

    fn no_process_is_left(&mut self) -> Result<()> {
        let census = self.scratch.census();
        let is_empty = census.marked.is_empty() && census.shims.is_empty();
        check(&mut self.checks, is_empty, || format!("left alive: {census:?}"))
    }

    fn nothing_is_left(&mut self) -> Result<()> {
        let home = self.scratch.home();
        for (folder, may_be) in
            [(self.scratch.root(), &ROOT[..]), (&home, &HOME[..]), (&home.join("run"), &RUN[..])]
        {
            let found = names(folder)?;
            let more: Vec<_> = found.iter().filter(|it| !may_be.contains(&it.as_str())).collect();
            let describe = || format!("in {}: {more:?}", folder.display());
            check(&mut self.checks, more.is_empty(), describe)?;
        }
        // git's readings that were cut off remove what they made.
        let scratch = home.join("scratch");
        wait_until("scratch is empty", || Ok(!scratch.exists() || names(&scratch)?.is_empty()))?;
        // By the short ids that folders and branches begin with.
        let (mut all, mut whole) = (BTreeSet::new(), BTreeSet::new());
        let mut ports = BTreeSet::new();
        for attempt in names(&home.join("attempts"))? {
            let folder = home.join("attempts").join(&attempt);
            let short = attempt[attempt.len() - SHORT..].to_owned();
            let is_whole = folder.join("worktrees.json").exists();
            if is_whole {
                whole.insert(short.clone());
            }
            all.insert(short);
            self.is_ready(&folder, &mut ports)?;
            for process in names(&folder)? {
                let left = names(&folder.join(&process)).unwrap_or_default();
                let mut all = left.iter().chain([&process]);
                // Temporary files are hidden ones.
                let is_temporary = |name: &&String| name.starts_with('.') || *name == "sock";
                // One that was stopped before its worktree was made may have the beginnings of it.
                let is_begun = process == ".provision.json.tmp" && !is_whole;
                let temporary = all.find(is_temporary).filter(|_| !is_begun);
                let describe = || format!("{temporary:?} is left in {attempt}/{process}");
                check(&mut self.checks, temporary.is_none(), describe)?;
            }
        }
        // An attempt keeps what it worked in; one that was stopped before that was
        // made may have the beginnings of it.
        let branches = self.scratch.git(&["branch", "--list", "--format=%(refname:short)"])?;
        let branches = branches.iter().filter_map(|name| name.strip_prefix("provost/"));
        let folders = names(&home.join("worktrees"))?;
        for names in [branches.collect(), folders.iter().map(|it| &**it).collect::<Vec<_>>()] {
            let found: BTreeSet<String> =
                names.iter().map(|name| name[..SHORT].to_owned()).collect();
            let is_so =
                found.len() == names.len() && whole.is_subset(&found) && found.is_subset(&all);
            let describe = || format!("not those of the attempts {whole:?}: {names:?}");
            check(&mut self.checks, is_so, describe)?;
        }
        let worktrees = self.scratch.git(&["worktree", "list", "--porcelain"])?;
        let worktrees = worktrees.iter().filter(|line| line.starts_with("worktree "));
        check(&mut self.checks, worktrees.count() == 1, || {
            "the repository has a worktree of an attempt".into()
        })?;
        let locks = locks_below(&self.scratch.repo().join(".git"))?;
        check(&mut self.checks, locks.is_empty(), || format!("locks of git: {locks:?}"))?;
        let head = self.scratch.git(&["status", "--porcelain"])?;
        check(&mut self.checks, head.is_empty(), || format!("the repository: {head:?}"))
    }
}

impl Fleet {
    /// A worktree that was made has its copies whole, and ports that no other attempt has.
    fn is_ready(&mut self, folder: &Path, ports: &mut BTreeSet<u64>) -> Result<()> {
        let Ok(marker) = fs::read(folder.join("worktrees.json")) else { return Ok(()) };
        let marker: Value = serde_json::from_slice(&marker)?;
        let below = marker["folder"].as_str().ok_or("a marker without a folder")?;
        let copy = self.scratch.home().join("worktrees").join(below).join("repo").join(IGNORED);
        let text = fs::read_to_string(&copy).unwrap_or_default();
        check(&mut self.checks, text == IGNORED_TEXT, || format!("{}: {text:?}", copy.display()))?;
        let provision: Value = serde_json::from_slice(&fs::read(folder.join("provision.json"))?)?;
        let port = provision["ports"]["PORT"].as_u64().ok_or("an attempt without its port")?;
        check(&mut self.checks, ports.insert(port), || format!("port {port} has two attempts"))
    }
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn locks_below(folder: &Path) -> Result<Vec<String>> {
    let mut locks = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            locks.extend(locks_below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path.display().to_string());
        }
    }
    Ok(locks)
}
