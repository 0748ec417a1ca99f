//! `get_attempt_patch`: the patch of some of the changed files. It contains whole files only, so that the
//! patch always applies; a file that does not fit is named as omitted, with the call that gets it.

use crate::api::placed::Needs;
use crate::api::{Caller, Refusable, Refusal};
use async_trait::async_trait;
use std::collections::BTreeSet;

use provost_actors::journal::AttemptRepo;
use provost_actors::text::shell_word;
use provost_actors::workspace::changes::{self, Change, Groups, Status};
use provost_actors::workspace::compared::Compared;
use provost_actors::workspace::quote;
use provost_actors::workspace::snapshot::SnapshotError;

use super::suggest::meant;
use super::turns::Turns;
use super::{DEFAULT_BYTES, Workspace, changed_file, plain, use_another};
use crate::api::args::Limit;
use crate::api::artifacts::{
    BlockedReason, ChangedFile, GetAttemptPatchInput, GetAttemptPatchOutput, PatchTool,
};
use crate::domain::Domain;

#[async_trait]
impl PatchTool for Domain {
    async fn get_attempt_patch(
        &self,
        caller: &Caller,
        input: GetAttemptPatchInput,
    ) -> Refusable<GetAttemptPatchOutput> {
        let id = input.attempt_id;
        if let Some(there) = self.forward_read(TOOL, Needs::Files, Some(caller), id, &input).await?
        {
            return Ok(there);
        }
        let guards = &self.artifacts.guards;
        let (attempt, most) = (input.attempt_id, guards.patch_max_bytes);
        let turns = Turns::new(input.from_turn, input.to_turn);
        let workspace = self.changed(TOOL, attempt, turns).await?;
        if input.paths.len() > guards.patch_max_paths {
            let hint = format!(
                "Call {TOOL} again with paths, {} at most. It is patch_max_paths of the \
                 configuration that sets the limit.",
                guards.patch_max_paths
            );
            return Ok(blocked(BlockedReason::TooManyPaths, hint));
        }
        let max_bytes = input.max_bytes.map_or(DEFAULT_BYTES.min(most), Limit::get);
        if max_bytes > most {
            let hint = format!("Call {TOOL} again with max_bytes = {most}.");
            return Ok(blocked(BlockedReason::SizeExceeded, hint));
        }
        let given: Vec<String> = input.paths.into_iter().map(Into::into).collect();
        let paths: Option<Vec<Vec<u8>>> = given.iter().map(|path| plain(path)).collect();
        let Some(paths) = paths else {
            let hint = match workspace.without_slash(&given).await? {
                Some(right) => {
                    format!("Call {TOOL} again with paths = {}.", serde_json::json!(right))
                }
                None => use_another(TOOL, "paths"),
            };
            return Ok(blocked(BlockedReason::PathOutsideWorkspace, hint));
        };
        let wanted: Vec<(String, Vec<u8>)> = given.into_iter().zip(paths).collect();
        if !workspace.is_made {
            return Err(workspace.file_not_found(&wanted[0].0));
        }
        let _turn = self.artifacts.turn().await?;
        let mut patch = Patch { asked: max_bytes, room: max_bytes, most, ..Patch::default() };
        for repo in &workspace.view.repos {
            let of_repo: Vec<&(String, Vec<u8>)> = wanted
                .iter()
                .filter(|(_, path)| workspace.within(repo, path).next().is_some())
                .collect();
            if !of_repo.is_empty() {
                let below = (workspace.view.repos.len() > 1).then_some(repo.name.as_str());
                let read =
                    |compared| patch.clone().with(compared, &workspace, repo, below, &of_repo);
                patch = workspace.read(TOOL, repo, read).await?;
            }
        }
        let is_nowhere = |path: &[u8]| {
            workspace.view.repos.iter().all(|repo| workspace.within(repo, path).next().is_none())
        };
        let nowhere = wanted.iter().filter(|(_, path)| is_nowhere(path));
        patch.unchanged.extend(nowhere.map(|(path, _)| path.clone()));
        if patch.unchanged.len() == wanted.len() {
            return Err(unchanged(&workspace, &wanted[0].0).await);
        }
        Ok(patch.answer(&workspace))
    }
}

const TOOL: &str = "get_attempt_patch";

/// The answer while it grows, repository by repository.
#[derive(Clone, Default)]
struct Patch {
    text: String,
    files: Vec<ChangedFile>,
    /// The limit that this call asked for, in bytes.
    asked: usize,
    /// The bytes of `asked` that are still free.
    room: usize,
    /// The limit of every call, from the guards.
    most: usize,
    /// Changed files that a call of their own can get.
    left: Vec<String>,
    /// The size of the longest of `left`: another call needs at least this `max_bytes`.
    longest: usize,
    /// Changed files that are longer than `most`.
    giant: Vec<String>,
    /// How to read the first of `giant` otherwise.
    way: Option<String>,
    /// Paths that are not among the changes, as they were given.
    unchanged: Vec<String>,
}

impl Patch {
    /// Adds the wanted files of one repository. `below` is the repository's name, which its paths begin
    /// with where the attempt has several. Takes `self` by value: a failed try leaves nothing behind, and
    /// can be repeated.
    async fn with(
        mut self,
        mut compared: Compared,
        workspace: &Workspace,
        repo: &AttemptRepo,
        below: Option<&str>,
        wanted: &[&(String, Vec<u8>)],
    ) -> Result<Self, SnapshotError> {
        let all = compared.changes().await?;
        let groups = Groups::of(&all);
        let mut done = BTreeSet::new();
        for (given, path) in wanted {
            let mut found =
                workspace.within(repo, path).filter_map(|path| changes::find(&all, path));
            let Some(index) = found.next() else {
                self.unchanged.push(given.clone());
                continue;
            };
            let shown = quote::show(&repo.name, &all[index].path);
            if done.contains(&index) {
                continue;
            }
            let together = groups.with(index);
            done.extend(together.iter().copied());
            let group: Vec<&Change> = together.iter().map(|index| &all[*index]).collect();
            match part(&mut compared, &group, below, self.most).await? {
                Some(text) if text.len() <= self.room => {
                    self.room -= text.len();
                    self.text.push_str(&text);
                    let by_setup = workspace.provision.changed_by_setup(&repo.name);
                    let group = group.iter();
                    self.files.extend(group.map(|it| changed_file(&repo.name, it, by_setup)));
                }
                Some(text) => {
                    self.longest = self.longest.max(text.len());
                    self.left.push(shown);
                }
                None => {
                    let (base, end) = (compared.base(), compared.end());
                    self.way.get_or_insert_with(|| way(repo, base, end, &all[index], &shown));
                    self.giant.push(shown);
                }
            }
        }
        Ok(self)
    }

    /// The answer, with one hint for each kind of file that the patch lacks.
    fn answer(self, workspace: &Workspace) -> GetAttemptPatchOutput {
        let Self { text, files, left, giant, way, unchanged, most, .. } = self;
        // A smaller limit than this call's would only lead to more calls.
        let max_bytes = self.longest.max(self.asked);
        let mut hints = Vec::new();
        if !left.is_empty() {
            let paths = serde_json::json!(left);
            hints.push(format!(
                "Call {TOOL} again with paths = {paths} and max_bytes = {max_bytes}."
            ));
        }
        if let Some(way) = way {
            hints.push(format!("{way} to read what is longer than {most} bytes as a patch."));
        }
        if let Some(unchanged) = unchanged.first() {
            hints.push(format!(
                "{} is not changed: use paths from get_attempt_changes with attempt_id {}.",
                serde_json::json!(unchanged),
                workspace.attempt
            ));
        }
        let blocked = files.is_empty() && left.is_empty() && !giant.is_empty();
        GetAttemptPatchOutput {
            patch: text,
            files,
            blocked,
            blocked_reason: blocked.then_some(BlockedReason::SizeExceeded),
            truncated: !left.is_empty() || !giant.is_empty(),
            omitted: [left, giant, unchanged].concat(),
            hint: workspace.with_away_notice((!hints.is_empty()).then(|| hints.join(" "))),
        }
    }
}

/// How to read a file that no patch can hold. `end` is the commit that is compared with the base; `None`
/// if the worktree itself is compared.
fn way(repo: &AttemptRepo, base: &str, end: Option<&str>, change: &Change, shown: &str) -> String {
    let has_it = if change.status == Status::Deleted { Some(base) } else { end };
    let Some(commit) = has_it else {
        return format!("Call get_attempt_file with path = {}", serde_json::json!(shown));
    };
    let object = shell_word(&format!("{commit}:{}", String::from_utf8_lossy(&change.path)));
    format!("Run `git -C {} show {object}`", shell_word(&repo.path))
}

/// The patch of changes that belong together (see `Groups`); `None` if it is longer than `limit`. The
/// patch of an added file is at least as long as the file, so a file beyond the limit is not read at all.
async fn part(
    compared: &mut Compared,
    group: &[&Change],
    below: Option<&str>,
    limit: usize,
) -> Result<Option<String>, SnapshotError> {
    let is_longer =
        |change: &&Change| change.status == Status::Added && change.bytes > limit as u64;
    if group.iter().any(|change| !change.is_read || is_longer(change)) {
        return Ok(None);
    }
    let paths: Vec<Vec<u8>> =
        group.iter().flat_map(|change| change.paths()).map(<[u8]>::to_vec).collect();
    compared.patch(&paths, below, limit).await
}

/// The refusal if none of the given paths has changed, with the path that was probably meant.
async fn unchanged(workspace: &Workspace, given: &str) -> Refusal {
    let mut refusal = workspace.file_not_found(given).hint(use_another(TOOL, "paths"));
    refusal.message = format!("Attempt {} did not change {given}.", workspace.attempt);
    let mut changed = Vec::new();
    for repo in &workspace.view.repos {
        let read = async |compared: Compared| compared.changes().await;
        let Ok(all) = workspace.read(TOOL, repo, read).await else { continue };
        changed.extend(all.iter().map(|change| quote::show(&repo.name, &change.path)));
    }
    let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
    match meant(given, &changed) {
        Some(right) => {
            let hint = format!("Call {TOOL} again with paths = {}.", serde_json::json!([right]));
            refusal.hint(hint).detail("nearest", right)
        }
        None => refusal,
    }
}

fn blocked(reason: BlockedReason, hint: String) -> GetAttemptPatchOutput {
    GetAttemptPatchOutput {
        blocked: true,
        blocked_reason: Some(reason),
        hint: Some(hint),
        ..GetAttemptPatchOutput::default()
    }
}
