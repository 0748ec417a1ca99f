//! `get_attempt_file`: a piece of a file in an attempt's worktree, by lines or by bytes. The file is
//! opened beneath the worktree without following links, because the agent can write there.

use crate::api::placed::Needs;
use crate::api::{Caller, Code, Refusable, Refusal};
use async_trait::async_trait;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use provost_actors::nearest::nearest;
use provost_actors::workspace::page::Range;
use provost_actors::workspace::quote;
use provost_actors::workspace::tree::{FileError, Piece, SCAN_MAX, Tree};

use super::away::host_is_away;
use super::turns::Turns;
use super::{DEFAULT_BYTES, Workspace, plain, use_another};
use crate::api::args::Limit;
use crate::api::artifacts::{
    BlockedReason, Encoding, FileTool, GetAttemptFileInput, GetAttemptFileOutput,
};
use crate::domain::Domain;

const TOOL: &str = "get_attempt_file";

#[async_trait]
impl FileTool for Domain {
    async fn get_attempt_file(
        &self,
        caller: &Caller,
        input: GetAttemptFileInput,
    ) -> Refusable<GetAttemptFileOutput> {
        let id = input.attempt_id;
        if let Some(there) = self.forward_read(TOOL, Needs::Files, Some(caller), id, &input).await?
        {
            return Ok(there);
        }
        let attempt = input.attempt_id;
        let workspace = self.workspace(TOOL, attempt, Turns::default()).await?;
        if let Some((host, _)) = &workspace.away {
            let why = "its worktrees are there; get_attempt_patch shows what its last turn left";
            return Err(host_is_away(attempt, host, why));
        }
        let most = self.artifacts.guards.file_max_bytes;
        let Some(path) = plain(&input.path) else {
            let given = [String::from(input.path.clone())];
            let hint = match workspace.without_slash(&given).await?.as_deref() {
                Some([right]) => path_hint(right),
                _ => use_another(TOOL, "path"),
            };
            return Ok(blocked(&input.path, BlockedReason::PathOutsideWorkspace, hint));
        };
        let range = range(&input, most);
        let places: Vec<(String, Vec<u8>)> = workspace
            .view
            .repos
            .iter()
            .flat_map(|repo| {
                workspace.within(repo, &path).map(|rest| (repo.name.clone(), rest.to_vec()))
            })
            .collect();
        if places.is_empty() {
            return Err(self.elsewhere(workspace, &input.path, path).await);
        }
        if !workspace.is_made {
            return Err(workspace.file_not_found(&input.path));
        }
        let (repo, rest, piece) = self.read_in_worktree(&workspace, places, range).await?;
        let shown = quote::show(&repo, &rest);
        match piece {
            Ok(piece) if input.max_bytes.is_some_and(|bytes| bytes.get() > most) => {
                let hint = format!("Call {TOOL} again with max_bytes = {most}.");
                let blocked = blocked(&input.path, BlockedReason::SizeExceeded, hint);
                Ok(GetAttemptFileOutput { size_bytes: piece.size, ..blocked })
            }
            Ok(piece) => Ok(found(shown, range, input.line_count, piece)),
            Err(FileError::NotFound) => Err(self.elsewhere(workspace, &input.path, path).await),
            Err(error) => unreadable(&input.path, &shown, error),
        }
    }
}

impl Domain {
    async fn read_in_worktree(
        &self,
        workspace: &Workspace,
        places: Vec<(String, Vec<u8>)>,
        range: Range,
    ) -> Result<Found, Refusal> {
        let (worktrees, folder) = (workspace.worktrees.clone(), workspace.view.folder.clone());
        let read = move || read(&worktrees, &folder, places, range);
        self.artifacts.reading(read).await?.map_err(|error| {
            let attempt = workspace.attempt;
            let message = format!("the worktree of attempt {attempt} can't be read: {error}");
            let hint = format!(
                "What was committed is on branch {}; call start_task_attempt with task_id {} for \
                 a new worktree.",
                workspace.view.branch, workspace.view.task_id
            );
            Refusal::new(Code::WorkspaceFailed, message).hint(hint)
        })
    }

    /// The refusal for a path at which nothing is, with the path that was probably meant.
    async fn elsewhere(&self, workspace: Workspace, given: &str, path: Vec<u8>) -> Refusal {
        let refusal = workspace.file_not_found(given);
        match self.artifacts.reading(move || meant(&workspace, &path)).await {
            Ok(Some(right)) => refusal.hint(path_hint(&right)).detail("nearest", right),
            _ => refusal,
        }
    }
}

/// The repository, the path in it, and what was read there.
type Found = (String, Vec<u8>, Result<Piece, FileError>);

/// Reads the first of these candidates (a repository and a path in it) that exists; if none does, the
/// first of all, whose error the caller shows.
fn read(
    worktrees: &Path,
    folder: &str,
    places: Vec<(String, Vec<u8>)>,
    range: Range,
) -> io::Result<Found> {
    let mut first = None;
    for (repo, path) in places {
        let tree = Tree::open(worktrees, folder, &repo)?;
        let is_there = path.is_empty() || tree.has(&path);
        let place = (tree, repo, path);
        if is_there {
            first = Some(place);
            break;
        }
        first.get_or_insert(place);
    }
    let Some((tree, repo, path)) = first else { return Err(io::ErrorKind::NotFound.into()) };
    let piece = tree.read(&path, range);
    Ok((repo, path, piece))
}

/// Guesses the path that was meant: the same path in another repository, the path without the `a/` or
/// `b/` that git writes in a patch, or the nearest name.
fn meant(workspace: &Workspace, path: &[u8]) -> Option<String> {
    let headless = [&b"a/"[..], b"b/"].into_iter().find_map(|head| path.strip_prefix(head));
    let open = |name: &str| Tree::open(&workspace.worktrees, &workspace.view.folder, name).ok();
    let mut places = Vec::new();
    for repo in &workspace.view.repos {
        let Some(tree) = open(&repo.name) else { continue };
        let tree = Arc::new(tree);
        for path in [Some(path), headless].into_iter().flatten() {
            let rests = super::below(repo, path).into_iter().chain([path]);
            places.extend(rests.map(|rest| (repo, Arc::clone(&tree), rest)));
        }
    }
    let there = places.iter().find(|(_, tree, rest)| !rest.is_empty() && tree.has(rest));
    if let Some((repo, _, rest)) = there {
        return Some(quote::show(&repo.name, rest));
    }
    let like = |given: &str, names: &[String]| {
        nearest(given, names.iter().map(String::as_str)).map(str::to_owned)
    };
    places
        .iter()
        .find_map(|(repo, tree, rest)| Some(quote::show(&repo.name, &tree.nearest(rest, like)?)))
}

/// The answer or the refusal for a path that is no readable file.
fn unreadable(given: &str, shown: &str, error: FileError) -> Refusable<GetAttemptFileOutput> {
    let another = || use_another(TOOL, "path");
    let (reason, hint) = match error {
        FileError::Outside => (BlockedReason::PathOutsideWorkspace, another()),
        FileError::NotAFile => (BlockedReason::NotAFile, another()),
        FileError::Folder(names) => (BlockedReason::NotAFile, folder_hint(shown, &names)),
        FileError::TooFar => {
            let hint = format!(
                "Call {TOOL} again with offset = {SCAN_MAX} instead of start_line and \
                 line_count. No line is looked for beyond that byte."
            );
            (BlockedReason::SizeExceeded, hint)
        }
        error @ (FileError::NotFound | FileError::Io(_)) => {
            let message = format!("{given} can't be read: {error}");
            return Err(Refusal::new(Code::WorkspaceFailed, message).hint(another()));
        }
    };
    Ok(blocked(given, reason, hint))
}

/// The hint for a path that is a folder: its entries, of which those that end with `/` are folders.
fn folder_hint(folder: &str, names: &[String]) -> String {
    let folder = folder.trim_end_matches('/');
    if names.is_empty() {
        return use_another(TOOL, "path");
    }
    let file = names.iter().find(|name| !name.ends_with('/'));
    let such =
        file.map(|file| format!(", such as {}", serde_json::json!(format!("{folder}/{file}"))));
    let (such, names) = (such.unwrap_or_default(), names.join(", "));
    format!("Call {TOOL} again with path, that of a file{such}. The folder has: {names}.")
}

/// The part to read. Offsets win over lines; a caller that names `line_count` gets up to the limit
/// `most`, every other caller at most [`DEFAULT_BYTES`] unless it sets `max_bytes`.
fn range(input: &GetAttemptFileInput, most: usize) -> Range {
    let default = DEFAULT_BYTES.min(most);
    if input.offset.is_some() || input.max_bytes.is_some() {
        return Range::Bytes {
            offset: input.offset.map_or(0, |offset| offset.get().unsigned_abs()),
            max_bytes: input.max_bytes.map_or(default, Limit::get).min(most),
        };
    }
    let lines = |count: Limit<1, { usize::MAX }>| count.get() as u64;
    Range::Lines {
        start: input.start_line.map_or(1, lines),
        count: input.line_count.map_or(u64::MAX, lines),
        max_bytes: if input.line_count.is_some() { most } else { default },
    }
}

fn path_hint(right: &str) -> String {
    format!("Call {TOOL} again with path = {}.", serde_json::json!(right))
}

/// The answer with a piece. If something is left, the hint says how to read on: by the next line, or by
/// the next byte if a line is longer than one answer.
fn found(
    path: String,
    range: Range,
    line_count: Option<Limit<1, { usize::MAX }>>,
    piece: Piece,
) -> GetAttemptFileOutput {
    let next_offset = piece.next_offset();
    let (start_line, end_line) = match range {
        Range::Lines { start, .. } => {
            (Some(start), (piece.lines > 0).then(|| start + piece.lines - 1))
        }
        Range::Bytes { .. } => (None, None),
    };
    // Complete only if all lines asked for were read and the last one was not cut inside.
    let left = line_count.map(|count| (count.get() as u64).saturating_sub(piece.lines));
    let is_done = left == Some(0) && !piece.in_line;
    let truncated = next_offset.is_some() && !is_done;
    let hint = next_offset.filter(|_| truncated).map(|next| match end_line {
        Some(end) if !piece.in_line => {
            let count = left.map(|left| format!(" and line_count = {left}")).unwrap_or_default();
            format!("Call {TOOL} again with start_line = {}{count}. It reads on.", end + 1)
        }
        Some(end) => format!(
            "Call {TOOL} again with offset = {next} instead of start_line and line_count. Line \
             {end} is longer than is given at once."
        ),
        None => format!("Call {TOOL} again with offset = {next}. It reads on."),
    });
    let (size_bytes, offset) = (piece.size, Some(piece.offset));
    let (content, encoding) = encode(piece.content);
    GetAttemptFileOutput {
        path,
        content,
        encoding,
        size_bytes,
        start_line,
        end_line,
        offset,
        next_offset,
        truncated,
        hint,
        ..GetAttemptFileOutput::default()
    }
}

/// Text as UTF-8, everything else as Base64. A file with a NUL is no text, and JSON would write six bytes
/// for each NUL.
fn encode(bytes: Vec<u8>) -> (String, Encoding) {
    if bytes.contains(&0) {
        return (BASE64_STANDARD.encode(bytes), Encoding::Base64);
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, Encoding::Utf8),
        Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), Encoding::Base64),
    }
}

fn blocked(path: &str, reason: BlockedReason, hint: String) -> GetAttemptFileOutput {
    GetAttemptFileOutput {
        path: path.to_owned(),
        blocked: true,
        blocked_reason: Some(reason),
        hint: Some(hint),
        ..GetAttemptFileOutput::default()
    }
}
