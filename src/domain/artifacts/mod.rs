//! What an attempt made, as clients see it: bounded, with a hint how to read on. Paths come from the
//! store, everything else from git and the worktrees; no actor is asked. A call goes this way:
//!
//! ```text
//!  forward_read         another host has the files, and its daemon answers
//!    -> workspace       rows; the turns to compare (`turns`); the board's copy if the host is away
//!                       (`away`); the last merge if nothing is new since then (`merged`)
//!    -> turn            a permit, because git runs in a few calls at once only
//!    -> read            `Compared::take`, tried again while the agent changes the files
//! ```

mod away;
mod blob;
mod changes;
mod commented;
mod course;
mod file;
mod merged;
mod patch;
mod suggest;
mod turns;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::attempt;
use provost_actors::attempt::provision::Provision;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{AttemptRepo, Finishes as _, Histories};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::shell_word;
use provost_actors::workspace::changes::Change;
use provost_actors::workspace::compared::{Compared, Span};
use provost_actors::workspace::git::GitError;
use provost_actors::workspace::own::Own;
use provost_actors::workspace::parting::History;
use provost_actors::workspace::quote;
use provost_actors::workspace::snapshot::SnapshotError;
use provost_actors::workspace::source::Source;
use provost_actors::workspace::tree::Tree;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Domain, blocking};
use crate::api::artifacts::{ChangedFile, MergedWork};
use crate::config::Guards;
use crate::store::WorkspaceView;
pub(super) use commented::Lines;
use turns::Turns;

/// How many calls may run git at the same time; each of them runs one git process at a time.
const GIT_AT_ONCE: usize = 8;

/// How many files may be read at the same time. The limit leaves blocking threads for everything else.
const FILES_AT_ONCE: usize = 8;

/// Pauses before a worktree is read again after git failed there: the agent works on meanwhile, and a
/// file may change or vanish while git reads it.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];

/// The size of a patch or a piece of a file if the caller names none; the guards can only lower it.
const DEFAULT_BYTES: usize = 16_384;

/// The limits that all calls of this folder share.
pub(super) struct Artifacts {
    guards: Guards,
    git: Semaphore,
    files: Arc<Semaphore>,
}

impl Artifacts {
    /// Takes the `[guards]` of the configuration: above them, a call has to ask for less, or set `force`.
    pub fn new(guards: Guards) -> Self {
        let files = Arc::new(Semaphore::new(FILES_AT_ONCE));
        Self { guards, git: Semaphore::new(GIT_AT_ONCE), files }
    }

    /// Runs `work`, which reads files, on a blocking thread once one of the [`FILES_AT_ONCE`] permits is
    /// free.
    async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = Arc::clone(&self.files).acquire_owned().await;
        let turn = turn.map_err(|closed| Refusal::internal(closed.to_string()))?;
        blocking(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    /// Waits for one of the [`GIT_AT_ONCE`] permits. The caller holds it while its git processes run.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.git.acquire().await.map_err(|closed| Refusal::internal(closed.to_string()))
    }
}

/// One attempt as a call reads it: its rows, and the commits that are compared.
struct Workspace {
    attempt: AttemptId,
    /// The attempt's folder.
    dir: PathBuf,
    view: WorkspaceView,
    worktrees: PathBuf,
    scratch: PathBuf,
    provision: Provision,
    /// True if there is something to read: worktrees, the snapshot of a turn, or merged commits.
    is_made: bool,
    /// What is compared, by repository. A repository that is not in it is compared with its merge base.
    spans: HashMap<String, Span>,
    histories: Histories,
    /// The merges that the spans show; empty if the spans show unmerged work.
    merged: Vec<MergedWork>,
    /// If the board's copy is shown: the host that is away (empty: none has the attempt), and the turn of
    /// the copy.
    away: Option<(String, u32)>,
}

impl Domain {
    /// The workspace of an attempt whose worktrees were not collected, or of turns that have snapshots.
    async fn workspace(
        &self,
        tool: &str,
        attempt: AttemptId,
        turns: Turns,
    ) -> Result<Workspace, Refusal> {
        let workspace = self.looked_up(tool, attempt, turns).await?;
        self.not_collected(workspace).await
    }

    async fn not_collected(&self, workspace: Workspace) -> Result<Workspace, Refusal> {
        let Workspace { attempt, is_made, .. } = workspace;
        if !is_made && attempt::was_collected(&self.world, attempt).await.unwrap_or(false) {
            return Err(collected(attempt, &workspace.view));
        }
        Ok(workspace)
    }

    /// Like [`workspace`](Self::workspace), but collected worktrees are no error: a merge of them can be
    /// shown.
    async fn looked_up(
        &self,
        tool: &str,
        attempt: AttemptId,
        turns: Turns,
    ) -> Result<Workspace, Refusal> {
        let view = self.store.workspace(attempt).await?;
        let away = self.left_by_other(attempt, turns).await?;
        let turns = away.as_ref().map_or(turns, |(_, turn)| Turns::until(*turn));
        let histories = self.store.histories(&[attempt]).await?;
        let spans = self.spans(tool, attempt, turns).await?;
        // A snapshot is a commit in the repository, so it can be read without worktrees.
        let is_made = turns.to.is_some()
            || attempt::has_worktrees(&self.world, attempt)
                .await
                .map_err(|error| Refusal::internal(format!("the attempt's folder: {error}")))?;
        let dir = self.world.settings.attempt_dir(attempt);
        let of = dir.clone();
        let provision = blocking(move || Provision::read(&of)).await;
        Ok(Workspace {
            attempt,
            dir,
            provision: provision?.map_err(|error| Refusal::internal(error.to_string()))?,
            view,
            worktrees: self.world.settings.folders.worktrees.clone(),
            scratch: self.world.settings.folders.scratch.clone(),
            is_made,
            spans,
            histories,
            merged: Vec::new(),
            away,
        })
    }
}

/// The refusal for an attempt whose worktrees were collected: its branch is still there.
fn collected(attempt: AttemptId, view: &WorkspaceView) -> Refusal {
    let message = format!(
        "the worktrees of attempt {attempt} were collected (`provost gc`); its work is on branch {}",
        view.branch
    );
    let refusal = Refusal::new(Code::WorkspaceFailed, message);
    let Some(AttemptRepo { path, base_commit, .. }) = view.repos.first() else { return refusal };
    refusal
        .hint(format!(
            "Run `git -C {} diff {base_commit} {}` to see its work; follow_up makes its worktrees \
             anew. If there is a reference refs/provost/snapshots/{attempt}, it holds what was not \
             committed.",
            shell_word(path),
            shell_word(&view.branch),
        ))
        .detail("branch", view.branch.as_str())
}

impl Workspace {
    /// What `read` finds in a repository, by the span of the workspace. Tried again after [`PAUSES`]
    /// while the error may pass: the agent works on meanwhile.
    async fn read<T, F: Future<Output = Result<T, SnapshotError>>>(
        &self,
        tool: &str,
        repo: &AttemptRepo,
        read: impl Fn(Compared) -> F,
    ) -> Result<T, Refusal> {
        let span = self.spans.get(&repo.name).unwrap_or(&Span::SinceMergeBase);
        self.read_in(tool, repo, span, read).await
    }

    /// Like [`read`](Self::read), for any span.
    async fn read_in<T, F: Future<Output = Result<T, SnapshotError>>>(
        &self,
        tool: &str,
        repo: &AttemptRepo,
        span: &Span,
        read: impl Fn(Compared) -> F,
    ) -> Result<T, Refusal> {
        let source = self.source(repo);
        let mut pauses = PAUSES.into_iter();
        loop {
            let found = match Compared::take(&source, span).await {
                Ok(compared) => read(compared).await,
                Err(error) => Err(error),
            };
            let error = match found {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            match pauses.next().filter(|_| error.may_pass()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(self.refusal(tool, repo, &error)),
            }
            tracing::debug!(%error, repo = repo.name, "changes are read again");
        }
    }

    /// What git needs to compare this repository of the attempt.
    fn source(&self, repo: &AttemptRepo) -> Source {
        Source {
            repo: PathBuf::from(&repo.path),
            worktrees: self.worktrees.clone(),
            folder: self.view.folder.clone(),
            name: repo.name.clone(),
            attempt: self.attempt,
            own: Own::of(&self.dir, &repo.name),
            branch: self.view.branch.clone(),
            target_branch: repo.target_branch.clone(),
            base: repo.base_commit.clone(),
            history: self.history(repo).cloned().unwrap_or_default(),
            scratch: self.scratch.clone(),
            withheld: self.provision.credentials(&repo.name).to_vec(),
        }
    }

    fn history(&self, repo: &AttemptRepo) -> Option<&History> {
        self.histories.get(&(self.attempt, repo.board_path.clone()))
    }

    /// The refusal for a failed comparison, with the way out for each kind of error.
    fn refusal(&self, tool: &str, repo: &AttemptRepo, error: &SnapshotError) -> Refusal {
        let AttemptRepo { path, target_branch: target, base_commit: base, .. } = repo;
        let place = shell_word(path);
        let refusal = |code| Refusal::new(code, error.to_string());
        let refusal = match error {
            error if error.is_shortage() => Refusal::shortage(error.to_string()),
            SnapshotError::NoMergeBase { .. } => refusal(Code::WorkspaceFailed).hint(format!(
                "Run `git -C {place} diff {base} {}` to see its work. What it did not commit lies \
                 in {}. start_task_attempt with task_id {} starts anew from {target} as it is now.",
                shell_word(&self.view.branch),
                self.worktrees.join(&self.view.folder).join(&repo.name).display(),
                self.view.task_id
            )),
            SnapshotError::Repository { why: GitError::Failed(_), .. } => {
                refusal(Code::WorkspaceFailed)
                    .hint(format!("Put the repository back at {path}, then call {tool} again."))
            }
            SnapshotError::Worktree { .. } => refusal(Code::WorkspaceFailed).hint(format!(
                "What was committed is on branch {} of {path}; call start_task_attempt with \
                 task_id {} for a new worktree.",
                self.view.branch, self.view.task_id
            )),
            SnapshotError::Io(fault) if fault.kind() == std::io::ErrorKind::StorageFull => {
                refusal(Code::StorageFull)
            }
            error if error.may_pass() => refusal(Code::WorkspaceFailed).hint(format!(
                "Call {tool} again when the attempt has settled. If git fails then too, fix what \
                 the message names."
            )),
            _ => refusal(Code::WorkspaceFailed),
        };
        refusal.detail("repo_name", repo.name.as_str()).detail("path", path.as_str())
    }

    /// The repository that a path names, and the path in it.
    fn locate<'p>(&self, path: &'p [u8]) -> Option<(&AttemptRepo, &'p [u8])> {
        self.view.repos.iter().find_map(|repo| Some((repo, below(repo, path)?)))
    }

    /// The candidates for a path in this repository: what follows the repository's name, and, in the
    /// attempt's only repository, also the path itself.
    fn within<'p>(&self, repo: &AttemptRepo, path: &'p [u8]) -> impl Iterator<Item = &'p [u8]> {
        let bare = (self.view.repos.len() == 1).then_some(path);
        below(repo, path).into_iter().chain(bare)
    }

    /// The given paths without their leading slashes, if something exists at each of them: many clients
    /// write paths from the root of the worktree with a slash.
    async fn without_slash(&self, given: &[String]) -> Result<Option<Vec<String>>, Refusal> {
        let mut there = Vec::new();
        for path in given.iter().filter(|path| path.starts_with('/')) {
            let Some(path) = plain(path.trim_start_matches('/')) else { return Ok(None) };
            let Some((repo, rest)) = self.locate(&path) else { return Ok(None) };
            there.push((repo.name.clone(), rest.to_vec()));
        }
        let (worktrees, folder) = (self.worktrees.clone(), self.view.folder.clone());
        let are_there = blocking(move || {
            there.iter().all(|(repo, path)| {
                Tree::open(&worktrees, &folder, repo).is_ok_and(|tree| tree.has(path))
            })
        });
        let stripped = given.iter().map(|path| path.trim_start_matches('/').to_owned());
        let stripped: Vec<String> = stripped.collect();
        let is_plain = stripped.iter().all(|path| plain(path).is_some());
        Ok((are_there.await? && is_plain).then_some(stripped))
    }

    fn file_not_found(&self, path: &str) -> Refusal {
        let message = format!("there is no file {path} in attempt {}", self.attempt);
        Refusal::new(Code::FileNotFound, message).detail("path", path)
    }
}

/// What follows a repository's name in a path that begins with it.
fn below<'p>(repo: &AttemptRepo, path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(repo.name.as_bytes())?;
    match rest.split_first() {
        None => Some(rest),
        Some((b'/', rest)) => Some(rest),
        Some(_) => None,
    }
}

/// The bytes of a client's path, without empty and `.` parts. `None` if the path leads out of the
/// worktree (absolute or `..`) or into a `.git`.
fn plain(path: &str) -> Option<Vec<u8>> {
    let bytes = quote::read(path);
    if bytes.starts_with(b"/") {
        return None;
    }
    let parts = bytes.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.iter().any(|part| *part == b".." || part.eq_ignore_ascii_case(b".git")) {
        return None;
    }
    Some(parts.join(&b'/'))
}

/// The hint for a path that can't be read.
fn use_another(tool: &str, field: &str) -> String {
    format!("Call {tool} again with {field} from get_attempt_changes.")
}

/// A change as clients see it. `by_setup` has the paths that the setup of the worktree changed.
fn changed_file(repo: &str, change: &Change, by_setup: &[String]) -> ChangedFile {
    let path = quote::show(repo, &change.path);
    ChangedFile {
        by_setup: by_setup.contains(&path),
        path,
        status: change.status,
        added: change.added,
        deleted: change.deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_plain_or_leads_out() {
        for (given, path) in [
            ("app/a", "app/a"),
            ("./app//a/./b/", "app/a/b"),
            ("app/-x", "app/-x"),
            ("app/.gitignore", "app/.gitignore"),
        ] {
            assert_eq!(plain(given), Some(path.into()), "{given}");
        }
        for out in ["/etc/passwd", "..", "app/../../x", "app/.git", "app/sub/.GIT/config"] {
            assert!(plain(out).is_none(), "{out}");
        }
    }
}
