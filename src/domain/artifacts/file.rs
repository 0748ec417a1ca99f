//! A piece of a file in an attempt's worktree.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::workspace::page::Range;
use provost_actors::workspace::quote;
use provost_actors::workspace::tree::{FileError, Piece, Tree};

use super::{DEFAULT_BYTES, Workspace, blocking, plain, use_another};
use crate::args::{Index, Limit};
use crate::domain::Domain;
use crate::mcp::tools::artifacts::{
    BlockedReason, Encoding, GetAttemptFileInput, GetAttemptFileOutput,
};

const TOOL: &str = "get_attempt_file";

impl Domain {
    pub(in crate::domain) async fn file(
        &self,
        input: GetAttemptFileInput,
    ) -> Result<GetAttemptFileOutput, Refusal> {
        let attempt = input.attempt_id;
        let workspace = self.workspace(attempt).await?;
        let most = self.artifacts.guards.file_max_bytes;
        let Ok(path) = plain(&input.path) else {
            let given = [String::from(input.path.clone())];
            let hint = match workspace.without_slash(&given).await?.as_deref() {
                Some([right]) => path_hint(right),
                _ => use_another(TOOL, "path"),
            };
            return Ok(blocked(&input.path, BlockedReason::PathOutsideWorkspace, hint));
        };
        let range = range(&input, most);
        let Some((repo, rest)) = workspace.locate(&path) else {
            return Err(elsewhere(workspace, &input.path, path).await);
        };
        if !workspace.is_made {
            return Err(workspace.file_not_found(&input.path));
        }
        if rest.is_empty() {
            return Ok(blocked(&input.path, BlockedReason::NotAFile, use_another(TOOL, "path")));
        }
        let tree = {
            let (worktrees, folder) = (workspace.worktrees.clone(), workspace.folder.clone());
            let name = repo.name.clone();
            blocking(move || Tree::open(&worktrees, &folder, &name)).await?
        };
        let tree = tree.map_err(|error| {
            let message = format!("the worktree of {} can't be read: {error}", repo.name);
            let hint = format!(
                "What was committed is on branch {} of {}; call start_task_attempt with task_id \
                 {} for a new worktree.",
                workspace.branch, repo.path, workspace.task
            );
            Refusal::new(Code::WorkspaceFailed, message).hint(hint)
        })?;
        let shown = quote::show(&repo.name, rest);
        let rest = rest.to_vec();
        match blocking(move || tree.read(&rest, range)).await? {
            Ok(piece) if input.max_bytes.is_some_and(|bytes| bytes.get() > most) => {
                let hint = format!("Call {TOOL} again with max_bytes = {most}.");
                let blocked = blocked(&input.path, BlockedReason::SizeExceeded, hint);
                Ok(GetAttemptFileOutput { size_bytes: piece.size, ..blocked })
            }
            Ok(piece) => Ok(found(shown, range, input.line_count, piece)),
            Err(FileError::Outside) => {
                let hint = use_another(TOOL, "path");
                Ok(blocked(&input.path, BlockedReason::PathOutsideWorkspace, hint))
            }
            Err(FileError::NotAFile) => {
                Ok(blocked(&input.path, BlockedReason::NotAFile, use_another(TOOL, "path")))
            }
            Err(FileError::NotFound) => Err(workspace.file_not_found(&input.path)),
            Err(FileError::Io(error)) => {
                let message = format!("{} can't be read: {error}", &*input.path);
                let hint = use_another(TOOL, "path");
                Err(Refusal::new(Code::WorkspaceFailed, message).hint(hint))
            }
        }
    }
}

fn range(input: &GetAttemptFileInput, most: usize) -> Range {
    let default = DEFAULT_BYTES.min(most);
    if input.offset.is_some() || input.max_bytes.is_some() {
        return Range::Bytes {
            offset: input.offset.map_or(0, Index::get),
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

/// The refusal of a path that begins with no repository of the attempt.
async fn elsewhere(workspace: Workspace, given: &str, path: Vec<u8>) -> Refusal {
    let refusal = workspace.file_not_found(given);
    let found = blocking(move || {
        workspace.repos.iter().find_map(|repo| {
            let tree = Tree::open(&workspace.worktrees, &workspace.folder, &repo.name).ok()?;
            tree.has(&path).then(|| quote::show(&repo.name, &path))
        })
    });
    match found.await {
        Ok(Some(right)) => refusal.hint(path_hint(&right)).detail("nearest", right),
        _ => refusal,
    }
}

fn path_hint(right: &str) -> String {
    format!("Call {TOOL} again with path = {}.", serde_json::json!(right))
}

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
        blocked: false,
        blocked_reason: None,
        truncated,
        hint,
    }
}

/// Text as it is. JSON would make six bytes of each NUL, which no text has.
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
        content: String::new(),
        encoding: Encoding::Utf8,
        size_bytes: 0,
        start_line: None,
        end_line: None,
        offset: None,
        next_offset: None,
        blocked: true,
        blocked_reason: Some(reason),
        truncated: false,
        hint: Some(hint),
    }
}
