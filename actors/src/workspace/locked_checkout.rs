//! A checkout whose files change together with its index. The index is locked until both are done. git
//! reads and writes the files from a scratch repository ([`ScratchRepo`]), which also has the changed
//! index, so nothing runs that the repository configures.
//!
//! ```text
//!  lock ─▶ switch(old, new) ─────────▶ keep                the branch has moved
//!    │          └─ error ─▶ settle(new, old)               the files are put back
//!    └─ again, with the same mark ─▶ settle(from, to)      after an error or a daemon's death, either way
//! ```
//!
//! A change begins only where nothing of a person's is in the way. Once it has begun and was cut off,
//! files that a person has changed since stay as they are, whichever way it ends.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::beneath;
use super::checkouts::{Checkout, Whose, leads_to};
use super::git::{self, Git, GitError, Output};
use super::index_lock::{self, IndexLock};
use super::scratch_repo::ScratchRepo;
use super::switch_paths::{Concerned, Found, concerned, decide, find, is_there, names};
use super::{regular, snapshot};
use crate::blocking::{blocking, if_there};

/// Most paths that a message names.
const NAMED: usize = 5;

/// Why a checkout can't follow a branch: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum InTheWay {
    /// Another program held the lock for longer than [`index_lock::IN_TIME`].
    #[error("a git command is, or was, at work in it (index.lock)")]
    Locked { lock: PathBuf },
    /// An operation of several steps, such as a merge. `sign` is git's record of it.
    #[error("something is under way in it ({sign})")]
    UnderWay {
        sign: &'static str,
        /// The commands that end it, if they are known.
        ended_by: Option<&'static str>,
    },
    /// The files are gone, or are another checkout's: nothing may be written there.
    #[error("its .git does not lead to the repository's record of it")]
    NotIt,
    /// The first paths, and how many more there are.
    #[error("it has changes that are not committed, or files that git does not have, in {0}")]
    Files(String),
    #[error("git can't tell: {0}")]
    Git(#[from] GitError),
    #[error("it can't be looked into: {0}")]
    Io(#[from] io::Error),
}

/// A checkout with a locked index, and the copy of the index with which git works.
pub struct LockedCheckout {
    path: PathBuf,
    aside: ScratchRepo,
    lock: IndexLock,
}

/// What a switch from one commit to another concerns, and what lies there now.
struct SwitchPlan<'a> {
    from: &'a str,
    to: &'a str,
    files: Vec<(Concerned, Found)>,
    /// The entries of the index.
    index: HashMap<OsString, Staged>,
}

/// One entry of the index.
struct Staged {
    /// Mode and object, as in [`Concerned`]; empty for a path with a conflict, which has several
    /// versions.
    what: String,
    /// The sparse checkout leaves the file out (`skip-worktree`).
    is_sparse: bool,
    /// The person told git to take the file for unchanged (`assume-unchanged`), whatever is in it.
    is_overlooked: bool,
}

/// Whether the index gets the new version of a file before git switches. Then git does not touch the
/// file: it is new already, or a person's own, or rightly absent.
fn is_to(file: &Concerned, found: Found) -> bool {
    match found {
        Found::To | Found::Foreign => true,
        Found::Absent => !is_there(&file.to),
        _ => false,
    }
}

/// `None` for the zeros by which git's lists say that there is no file.
fn there(what: &String) -> Option<&String> {
    Some(what).filter(|what| is_there(what))
}

impl LockedCheckout {
    /// Locks the index of a checkout, or takes over the lock that a call with the same mark left.
    /// `scratch` is the folder for scratch repositories.
    ///
    /// # Errors
    /// The checkout can't be changed now. If files had begun to change under an earlier lock, that lock
    /// stays.
    pub async fn lock(
        checkout: &Checkout,
        common: &Path,
        scratch: &Path,
        mark: &str,
    ) -> Result<Self, InTheWay> {
        let Checkout { path, admin, .. } = checkout;
        let aside = ScratchRepo::for_files(common, scratch).await?;
        let (path, aside) = match &checkout.whose {
            Whose::Persons => {
                let path = place(path, admin).await?;
                let aside = aside.of(&path, admin).await?;
                (path, aside)
            }
            Whose::Attempts(held) => (path.clone(), aside.of_own(admin).await?.held(held.clone())),
        };
        let lock = IndexLock::take_within(admin, mark, index_lock::IN_TIME).await?;
        let lock = lock.ok_or_else(|| InTheWay::Locked { lock: admin.join(index_lock::LOCK) })?;
        let (from, to) = (admin.clone(), aside.path().to_owned());
        let copied = blocking(move || snapshot::copy_indexes(&from, &to)).await;
        match copied {
            Err(error) if !lock.has_begun => {
                lock.release().await?;
                Err(error.into())
            }
            copied => Ok(copied.map(|()| Self { path, aside, lock })?),
        }
    }

    /// Changes the files from the commit `from` to `to`, unless something is in the way. The checkout's
    /// own index stays as it is until [`Self::keep`]. Continues a switch that was cut off.
    ///
    /// # Errors
    /// Something is in the way, or the switch failed halfway. Call [`Self::settle`] in both cases.
    pub async fn switch(&mut self, from: &str, to: &str) -> Result<(), InTheWay> {
        let look = self.look(from, to).await?;
        let has_begun = self.lock.has_begun;
        let in_the_way = look.files.iter().filter(|(file, found)| {
            let staged = look.index.get(&file.path);
            match found {
                _ if has_begun => *found == Found::Foreign,
                _ if staged.map(|it| &it.what) != there(&file.from) => true,
                Found::From => false,
                Found::Absent => staged.is_some_and(|it| !it.is_sparse),
                _ => true,
            }
        });
        let in_the_way: Vec<_> = in_the_way.map(|(file, _)| file.path.to_string_lossy()).collect();
        if !in_the_way.is_empty() {
            let more = in_the_way.len().saturating_sub(NAMED);
            let named = in_the_way[..in_the_way.len() - more].join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(InTheWay::Files(named + &more));
        }
        self.lock.begin().await?;
        self.bring(&look).await?;
        Ok(self.lock.prepare(&self.index()).await?)
    }

    /// Ends a change that may have begun, and unlocks the checkout. Where the change concerned them, the
    /// files and the index are then those of the commit `to`; a person's own files stay. A change that
    /// has not begun changes nothing.
    pub async fn settle(self, from: &str, to: &str) -> Result<(), InTheWay> {
        if self.lock.has_begun {
            let look = self.look(from, to).await?;
            self.bring(&look).await?;
            self.lock.prepare(&self.index()).await?;
            return Ok(self.lock.install().await?);
        }
        Ok(self.lock.release().await?)
    }

    /// Ends a switch: the index becomes that of the switched files, and the checkout is unlocked.
    pub async fn keep(self) -> io::Result<()> {
        self.lock.install().await
    }

    /// Finds out what a switch concerns, and what lies at each path: the old file, the new one, or
    /// something else. Changes nothing.
    async fn look<'a>(&self, from: &'a str, to: &'a str) -> Result<SwitchPlan<'a>, GitError> {
        let changed = ["diff-tree", "-r", "-z", "--no-renames", "--raw", from, to];
        let files = concerned(&self.listed(self.git(), &changed).await?);
        let has_begun = self.lock.has_begun;
        let is_attributes = |it: &Concerned| Path::new(&it.path).ends_with(".gitattributes");
        // A cut-off switch may have left the attributes of one commit beside files of the other, so the
        // files are also compared by the attributes of each commit itself.
        let by_commit = has_begun && files.iter().any(is_attributes);
        let as_from = self.matching(from, by_commit, &files, |it| &it.from).await?;
        let as_to = self.matching(to, by_commit, &files, |it| &it.to).await?;
        let root = self.path.clone();
        let mut files = blocking(move || find(&root, files, &as_from, &as_to)).await?;
        for (file, found) in &mut files {
            let is_open = has_begun && *found == Found::Different;
            if is_open
                && self.is_beginning(&file.path, &[(from, &file.from), (to, &file.to)]).await?
            {
                *found = Found::Unfinished;
            }
        }
        decide(&mut files);
        let index = self.listed(self.git(), &["ls-files", "-s", "-v", "-z"]).await?;
        Ok(SwitchPlan { from, to, files, index: staged(&index) })
    }

    /// The paths at which lies exactly what a commit has. `side` is the file in that commit. With
    /// `by_commit`, files that match by the attributes of the commit itself count, too.
    async fn matching(
        &self,
        commit: &str,
        by_commit: bool,
        files: &[Concerned],
        side: impl Fn(&Concerned) -> &String,
    ) -> Result<HashSet<OsString>, GitError> {
        let files = files.iter().filter(|it| is_there(side(it)));
        let entries = files.clone().map(|it| (&it.path, side(it)));
        let entries: Vec<_> = entries.collect();
        let mut found = HashSet::new();
        for by_commit in [false, true].into_iter().take(if by_commit { 2 } else { 1 }) {
            let index = self.aside.path().join("index.side");
            let earlier = index.clone();
            blocking(move || if_there(fs::remove_file(earlier)).map(drop)).await?;
            let git = || {
                let mut git = self.git();
                git.command.env("GIT_INDEX_FILE", &index);
                // git before 2.43 ignores this variable.
                git.command.envs(by_commit.then_some(("GIT_ATTR_SOURCE", commit)));
                git
            };
            self.enter(git(), &entries).await?;
            // It exits with 1 where a file has changed, which is no fault.
            git().output(&["update-index", "-q", "--refresh"], usize::MAX).await?;
            let differing = ["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"];
            let differing = self.listed(git(), &differing).await?;
            let differing: HashSet<&OsStr> = names(&differing).collect();
            let same = entries.iter().filter(|(path, _)| !differing.contains(&***path));
            found.extend(same.map(|(path, _)| (*path).clone()));
        }
        Ok(found)
    }

    /// Whether a file is what git writes there for one of the commits, or the beginning of it: git was
    /// killed while it wrote the file. An empty file counts, too: git leaves one most often, and one that a
    /// person emptied has no content to lose.
    async fn is_beginning(&self, path: &OsStr, of: &[(&str, &String)]) -> Result<bool, GitError> {
        let file = self.path.join(path);
        let there = blocking(move || match fs::symlink_metadata(&file)? {
            found if found.is_file() => regular::read(&file, found.len()).map(Some),
            _ => io::Result::Ok(None),
        });
        let Some(there) = there.await? else { return Ok(false) };
        for (commit, _) in of.iter().filter(|(_, what)| what.starts_with("100")) {
            let mut name = OsString::from(format!("{commit}:"));
            name.push(path);
            let whole = ["cat-file".as_ref(), "--filters".as_ref(), &*name];
            let mut git = self.git();
            git.command.env("GIT_ATTR_SOURCE", commit);
            if git.output(&whole, there.len()).await?.stdout == there {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Brings the files and the index of the scratch repository from one commit to the other, from
    /// whatever lies there.
    async fn bring(&self, look: &SwitchPlan<'_>) -> Result<(), InTheWay> {
        // What git has begun to write is removed: git would take it for a change of a person's.
        let begun = look.files.iter().filter(|(_, found)| *found == Found::Unfinished);
        let begun: Vec<_> = begun.map(|(file, _)| PathBuf::from(&file.path)).collect();
        let root = self.path.clone();
        let remove = move |file: PathBuf| beneath::remove_file(&root, &file);
        blocking(move || begun.into_iter().try_for_each(remove)).await?;
        let mut entries = Vec::new();
        for (file, found) in &look.files {
            let wanted = if is_to(file, *found) { &file.to } else { &file.from };
            let staged = look.index.get(&file.path);
            // The refresh below skips an entry that the person marked as unchanged. Setting it again
            // drops the mark.
            let is_overlooked = *found == Found::From && staged.is_some_and(|it| it.is_overlooked);
            if is_overlooked || staged.map(|it| &it.what) != there(wanted) {
                entries.push((&file.path, wanted));
            }
        }
        self.enter(self.git(), &entries).await?;
        self.git().output(&["update-index", "-q", "--refresh"], usize::MAX).await?;
        // The files that the switch deletes and that are gone already, or are a person's, are taken out of
        // the old side: git would look for them, and refuse what it finds in their places.
        let gone =
            look.files.iter().filter(|(file, found)| is_to(file, *found) && !is_there(&file.to));
        let gone: Vec<_> = gone.map(|(file, _)| (&file.path, &file.to)).collect();
        let from = self.without(look.from, &gone).await?;
        let switch = ["read-tree", "-m", "-u", &from, look.to];
        let mut git = self.aside.writing(&self.path);
        git.command.env("GIT_INDEX_FILE", self.index());
        match git.output(&switch, usize::MAX).await? {
            output if output.status.success() => Ok(()),
            output => Err(GitError::Failed(said(&output)).into()),
        }
    }

    /// The tree of a commit, without these files.
    async fn without(
        &self,
        commit: &str,
        files: &[(&OsString, &String)],
    ) -> Result<String, GitError> {
        if files.is_empty() {
            return Ok(commit.to_owned());
        }
        let index = self.aside.path().join("index.without");
        let git = || {
            let mut git = self.git();
            git.command.env("GIT_INDEX_FILE", &index);
            git
        };
        git().text(&["read-tree", commit]).await?;
        self.enter(git(), files).await?;
        git().text(&["write-tree"]).await
    }

    /// Sets entries of an index. An entry whose mode is zero is removed.
    async fn enter(&self, git: Git, entries: &[(&OsString, &String)]) -> Result<(), GitError> {
        let mut lines = Vec::new();
        for (path, what) in entries {
            lines.extend([what.as_bytes(), b"\t", path.as_bytes(), b"\0"].concat());
        }
        let enter = ["update-index", "--add", "--replace", "-z", "--index-info"];
        git.input(self.aside.path(), lines).await?.text(&enter).await.map(drop)
    }

    /// The output of a git that succeeded.
    async fn listed(&self, git: Git, args: &[&str]) -> Result<Vec<u8>, GitError> {
        match git.output(args, usize::MAX).await? {
            output if output.status.success() => Ok(output.stdout),
            output => Err(output.failure()),
        }
    }

    /// The index with which git works: a copy of the checkout's.
    fn index(&self) -> PathBuf {
        self.aside.path().join("index")
    }

    /// git that reads the files, by the copy of the index. Optional locks are allowed there, so it may
    /// refresh the copy.
    fn git(&self) -> Git {
        let mut git = self.aside.git(&self.path).patient();
        git.command.env("GIT_INDEX_FILE", self.index()).env_remove("GIT_OPTIONAL_LOCKS");
        git
    }
}

/// Where the files of a checkout are. git lists the checkout of a submodule by the folder that git keeps
/// for it, so git is asked there.
async fn place(path: &Path, admin: &Path) -> Result<PathBuf, InTheWay> {
    let leads = async |path: &Path| {
        let (path, admin) = (path.to_owned(), admin.to_owned());
        blocking(move || leads_to(&path, &admin)).await
    };
    if leads(path).await? {
        return Ok(path.to_owned());
    }
    match git::run(path, &["rev-parse", "--show-toplevel"]).await {
        Ok(top) if leads(Path::new(&top)).await? => Ok(PathBuf::from(top)),
        Ok(_) | Err(GitError::Failed(_)) => Err(InTheWay::NotIt),
        Err(error) => Err(error.into()),
    }
}

/// Reads `git ls-files -s -v -z`: `H 100644 <id> 0\t<path>`, by path. The first letter is the state: `S`
/// for a file that is left out, a small letter for one that is overlooked.
fn staged(listed: &[u8]) -> HashMap<OsString, Staged> {
    let mut found = HashMap::new();
    for line in listed.split(|byte| *byte == 0) {
        let Some(at) = line.iter().position(|byte| *byte == b'\t') else { continue };
        let head = String::from_utf8_lossy(&line[..at]);
        let Some((what, stage)) = head.get(2..).and_then(|head| head.rsplit_once(' ')) else {
            continue;
        };
        let what = if stage == "0" { what.to_owned() } else { String::new() };
        let is_sparse = head.starts_with(['S', 's']);
        let is_overlooked = head.starts_with(char::is_lowercase);
        let path = OsStr::from_bytes(&line[at + 1..]).to_owned();
        found.insert(path, Staged { what, is_sparse, is_overlooked });
    }
    found
}

/// git's messages on one line, without `error:` and `fatal:`.
fn said(output: &Output) -> String {
    let lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("fatal: "));
    lines.collect::<Vec<_>>().join(" ")
}
