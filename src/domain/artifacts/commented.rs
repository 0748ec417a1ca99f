//! The lines that a new comment is on: finds them among the changes up to a turn, and records the version
//! (blob) of the file that has them, so that the comment can be tracked through later turns
//! (`course.rs`).

use std::time::Duration;

use provost_actors::ids::AttemptId;
use provost_actors::journal::{AttemptRepo, Snapshots as _};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::workspace::changes::{self, Change, Status};
use provost_actors::workspace::compared::{Compared, Span as Compares};
use provost_actors::workspace::file_versions::{self, Span};
use provost_actors::workspace::quote;
use provost_actors::workspace::snapshot::SnapshotError;
use serde_json::json;

use super::suggest::meant;
use super::turns::{Turns, no_turn};
use super::{Workspace, plain, use_another};
use crate::api::comments::Side;
use crate::domain::Domain;
use crate::store::NewComment;
use crate::work::comments::quoted;

const TOOL: &str = "comment_on_changes";

/// How long a call waits for the snapshot of a turn that has just ended.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(5);

/// Lines as a caller names them: a path, a side of the diff, and line numbers on that side.
pub struct Lines<'a> {
    /// As lists of changes show it: it begins with the repository's name, or not if there is only one.
    pub path: &'a str,
    pub side: Side,
    pub span: Span,
    /// The turn whose result the lines are from. `None`: the last turn that has a snapshot.
    pub turn: Option<u32>,
}

impl Domain {
    /// The comment to be stored, with the lines quoted. It is not written yet.
    ///
    /// # Errors
    /// The turn has no snapshot, the file is not changed or has no text, or it has fewer lines.
    pub(in crate::domain) async fn commented(
        &self,
        attempt: AttemptId,
        on: &Lines<'_>,
        text: String,
    ) -> Result<NewComment, Refusal> {
        let turn = self.turn_of(attempt, on.turn).await?;
        let workspace = self.workspace(TOOL, attempt, Turns::until(turn)).await?;
        let Some(path) = plain(on.path) else {
            return Err(workspace.file_not_found(on.path).hint(use_another(TOOL, "path")));
        };
        let _turn = self.artifacts.turn().await?;
        let mut changed = Vec::new();
        for repo in &workspace.view.repos {
            let read = async |compared: Compared| compared.changes().await;
            let all = workspace.read(TOOL, repo, read).await?;
            let found = workspace.within(repo, &path).find_map(|path| changes::find(&all, path));
            if let Some(found) = found {
                let comment = workspace.comment_on(repo, &all[found], on).await?;
                return Ok(NewComment { turn, text, ..comment });
            }
            changed.extend(all.iter().map(|change| quote::show(&repo.name, &change.path)));
        }
        Err(unchanged(&workspace, on.path, &changed))
    }

    /// The turn that a comment is about: the one given, else the last. It has a snapshot.
    async fn turn_of(&self, attempt: AttemptId, given: Option<u32>) -> Result<u32, Refusal> {
        if let Some(turn) = given
            && self.store.snapshot_turns(attempt).await?.contains(&turn)
        {
            return Ok(turn);
        }
        // A snapshot is made after its turn has settled. Without this wait, `last` could be the turn
        // before it.
        self.store.snapshot_stands(attempt, SNAPSHOT_WAIT).await?;
        let turns = self.store.snapshot_turns(attempt).await?;
        match (given, turns.last()) {
            (Some(turn), _) if turns.contains(&turn) => Ok(turn),
            (Some(turn), Some(_)) => Err(no_turn(TOOL, "turn", attempt, turn, &turns)),
            (None, Some(last)) => Ok(*last),
            (_, None) => Err(none_ended(attempt)),
        }
    }
}

impl Workspace {
    /// The comment on lines of one changed file; the caller sets `turn` and `text`.
    async fn comment_on(
        &self,
        repo: &AttemptRepo,
        change: &Change,
        on: &Lines<'_>,
    ) -> Result<NewComment, Refusal> {
        let path = quote::show(&repo.name, &change.path);
        let Some(Compares::Between(base, end)) = self.spans.get(&repo.name) else {
            return Err(Refusal::internal(format!("no snapshot of {} is compared", repo.name)));
        };
        let (commit, file) = match (on.side, change.status) {
            (Side::Old, Status::Added) => return Err(no_side(&path, "added", "new")),
            (Side::New, Status::Deleted) => return Err(no_side(&path, "deleted", "old")),
            (Side::Old, _) => (base, change.old_path.as_ref().unwrap_or(&change.path)),
            (Side::New, _) => (end, &change.path),
        };
        let failed = |error| self.refusal(TOOL, repo, &SnapshotError::from(error));
        let place = std::path::Path::new(&repo.path);
        let mut versions = file_versions::at(place, commit, &[file]).await.map_err(failed)?;
        let Some(version) = versions.remove(file).filter(|version| version.is_read) else {
            return Err(no_text(&path));
        };
        let content = file_versions::content(place, &version.blob).await.map_err(failed)?;
        if content.contains(&0) {
            return Err(no_text(&path));
        }
        let quoted = quoted(&content, on.span).map_err(|all| too_few(&path, on.span, all))?;
        Ok(NewComment {
            repo: repo.name.clone(),
            file: quote::show(&repo.name, file),
            path,
            side: on.side,
            first_line: on.span.first,
            last_line: on.span.end() - 1,
            turn: 0,
            blob_id: version.blob,
            quoted,
            text: String::new(),
        })
    }
}

/// The refusal of a file that the attempt did not change, with the one that was probably meant.
fn unchanged(workspace: &Workspace, given: &str, changed: &[String]) -> Refusal {
    let mut refusal = workspace.file_not_found(given).hint(use_another(TOOL, "path"));
    refusal.message = format!("Attempt {} did not change {given}.", workspace.attempt);
    let refusal = refusal.detail("path", "path");
    let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
    match meant(given, &changed) {
        Some(right) => {
            let hint = format!("Call {TOOL} again with path = {}.", json!(right));
            refusal.hint(hint).detail("nearest", right)
        }
        None => refusal,
    }
}

fn none_ended(attempt: AttemptId) -> Refusal {
    let message = format!("no turn of attempt {attempt} has ended with a snapshot of its changes");
    Refusal::new(Code::TurnNotFound, message).hint(format!(
        "Call wait_for_attempts with attempt_ids = [\"{attempt}\"], then {TOOL} again."
    ))
}

fn refused(path: &str, message: String) -> Refusal {
    Refusal::new(Code::InvalidArgument, message).detail("path", path)
}

fn no_side(path: &str, was: &str, other: &str) -> Refusal {
    refused("side", format!("{path} was {was}, so only its {other} side has lines"))
        .hint(format!("Call {TOOL} again with side = \"{other}\"."))
}

fn no_text(path: &str) -> Refusal {
    let message = format!("{path} has no lines to comment on: it is binary, a link or very long");
    refused("path", message).hint("Call follow_up instead.")
}

/// The refusal of lines that the file does not have. `all` is the number of its lines.
fn too_few(path: &str, lines: Span, all: u64) -> Refusal {
    let field = if lines.first > all { "line" } else { "last_line" };
    let plural = if all == 1 { "" } else { "s" };
    let refusal = refused(field, format!("{path} has {all} line{plural}"));
    match all {
        0 => refusal.hint("Call follow_up instead."),
        all if field == "line" && lines.count > 1 => {
            refusal.hint(format!("Call {TOOL} again with line = {all} and last_line = {all}."))
        }
        all => refusal.hint(format!("Call {TOOL} again with {field} = {all}.")),
    }
}
