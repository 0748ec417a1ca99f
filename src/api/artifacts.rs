//! What an attempt has made: its changes, its files and its patch.

use provost_actors::workspace::changes::Status;

use crate::api::prelude::*;

/// A path in a call; 4096 is `PATH_MAX` of Linux.
pub type ArtifactPath = Text<1, 4096>;

/// A number of lines or bytes, at least 1. It is not clamped, because a call beyond the limit is blocked
/// instead.
type Count = Limit<1, { usize::MAX }>;

/// The description of `get_attempt_changes`, by which a model decides whether to call it.
pub const GET_ATTEMPT_CHANGES: &str = "\
Use when: you want to know which files an attempt changed, and by how much.
Next: get_attempt_patch with paths from files; get_attempt_file for a whole file.
Avoid: force when summary alone answers the question.";

/// The description of `get_attempt_file`, by which a model decides whether to call it.
pub const GET_ATTEMPT_FILE: &str = "\
Use when: you want to read a file in an attempt's worktree, changed or not.
Optional: start_line, line_count, or else offset, max_bytes (never both pairs).
Next: follow hint to read on; get_attempt_patch for what changed in it.
Avoid: whole large files.";

/// The description of `get_attempt_patch`, by which a model decides whether to call it.
pub const GET_ATTEMPT_PATCH: &str = "\
Use when: you want to review or apply what an attempt changed in some files.
Next: follow hint for what was omitted; follow_up to have it changed; git apply on the merge base.
Avoid: many paths at once; a file that does not fit is left out whole.";

/// Which fields of `get_attempt_file` exclude each other.
pub const FILE_RULES: &[FieldRule] =
    &[FieldRule::Apart(&["start_line", "line_count"], &["offset", "max_bytes"])];

#[apply(input)]
pub struct GetAttemptChangesInput {
    pub attempt_id: AttemptId,
    /// true lists the files (5000 at most) even if a guard would block.
    pub force: bool,
    /// What changed after this turn; 0, the default, is the merge base.
    pub from_turn: Option<FromTurn>,
    /// What changed until the end of this turn; until now if left out.
    pub to_turn: Option<ToTurn>,
}

/// Counts over all changed files, also of those that are not listed.
#[apply(output)]
#[derive(Copy, Default, Eq)]
pub struct ChangesSummary {
    /// Changed files.
    pub file_count: u64,
    /// Lines added; binary files count none.
    pub added: u64,
    /// Lines deleted; binary files count none.
    pub deleted: u64,
    /// Bytes of the changed files as they are now.
    pub total_bytes: u64,
}

#[apply(output)]
pub struct ChangedFile {
    /// <repository>/<path>; bytes that are not UTF-8 as git quotes them.
    pub path: String,
    /// added, modified, deleted or renamed.
    #[schemars(with = "String")]
    pub status: Status,
    /// Lines added; 0 for a binary file.
    pub added: u64,
    /// Lines deleted; 0 for a binary file.
    pub deleted: u64,
    /// The setup had changed it. Else left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_setup: bool,
}

// What a merge brought to a branch.
#[apply(output)]
#[derive(Eq)]
pub struct MergedWork {
    /// Name of the repository.
    pub repo_name: String,
    /// Its target.
    pub branch: String,
    /// What was merged.
    pub commit: String,
    /// Where the branch was moved.
    pub merged_as: String,
}

/// Why an artifact is not given, or not whole.
#[apply(word)]
pub enum BlockedReason {
    ThresholdExceeded,
    PathOutsideWorkspace,
    SizeExceeded,
    TooManyPaths,
    NotAFile,
}

#[apply(output)]
pub struct GetAttemptChangesOutput {
    /// Everything since the merge base with the target branch or since the last merge, committed or not.
    pub summary: ChangesSummary,
    /// Whether a guard blocks the list.
    pub blocked: bool,
    /// threshold_exceeded; null if not blocked.
    #[schemars(with = "Option<String>")]
    pub blocked_reason: Option<BlockedReason>,
    /// The changed files, by repository and path; empty if blocked.
    pub files: Vec<ChangedFile>,
    /// Whether files holds only the first of them.
    pub truncated: bool,
    /// If nothing is new since: the merges that the files show. Else left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedWork>,
    pub hint: Option<String>,
}

/// Either lines or bytes are asked for, or neither.
#[apply(input)]
pub struct GetAttemptFileInput {
    pub attempt_id: AttemptId,
    /// <repository>/<path>, as in get_attempt_changes; also of an unchanged file.
    pub path: ArtifactPath,
    /// First line, from 1.
    pub start_line: Option<Count>,
    /// Most lines; as many as fit if left out.
    pub line_count: Option<Count>,
    /// First byte, from 0.
    pub offset: Option<Index>,
    /// Most bytes; 16384 if left out; over the daemon's limit it blocks.
    pub max_bytes: Option<Count>,
}

#[apply(word)]
#[derive(Default)]
pub enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    Base64,
}

#[apply(output)]
#[derive(Default)]
pub struct GetAttemptFileOutput {
    /// <repository>/<path> of the file.
    pub path: String,
    /// The piece of the file; empty if blocked or beyond its end.
    pub content: String,
    /// utf-8, or base64 for bytes that are not UTF-8 or contain NUL.
    #[schemars(with = "String")]
    pub encoding: Encoding,
    /// Bytes of the whole file; 0 if it does not exist.
    pub size_bytes: u64,
    /// First line of content, from 1; null when bytes were asked for.
    pub start_line: Option<u64>,
    /// Last line of content; null when bytes were asked for or there is none.
    pub end_line: Option<u64>,
    /// First byte of content, from 0; null if blocked.
    pub offset: Option<u64>,
    /// First byte after content; null at the end of the file.
    pub next_offset: Option<u64>,
    pub blocked: bool,
    /// path_outside_workspace, size_exceeded or not_a_file; null if not blocked.
    #[schemars(with = "Option<String>")]
    pub blocked_reason: Option<BlockedReason>,
    /// Whether more of the requested part follows.
    pub truncated: bool,
    pub hint: Option<String>,
}

#[apply(input)]
pub struct GetAttemptPatchInput {
    pub attempt_id: AttemptId,
    /// Changed files as get_attempt_changes gives them; over the daemon's limit (100 unless set) it blocks.
    pub paths: List<ArtifactPath, 1, 5000>,
    /// As in get_attempt_file.
    pub max_bytes: Option<Count>,
    /// As in get_attempt_changes.
    pub from_turn: Option<FromTurn>,
    /// As in get_attempt_changes.
    pub to_turn: Option<ToTurn>,
}

#[apply(output)]
#[derive(Default)]
pub struct GetAttemptPatchOutput {
    /// Applies with git apply on the merge base, or on what was there at from_turn: in the repository, or with several beside each other.
    pub patch: String,
    /// The files in the patch.
    pub files: Vec<ChangedFile>,
    pub blocked: bool,
    /// path_outside_workspace, size_exceeded or too_many_paths; null if not blocked.
    #[schemars(with = "Option<String>")]
    pub blocked_reason: Option<BlockedReason>,
    /// Whether a changed file was left out.
    pub truncated: bool,
    /// Requested paths that are not in the patch: too large, or unchanged.
    pub omitted: Vec<String>,
    pub hint: Option<String>,
}

tools! { ChangesTool: read get_attempt_changes(GetAttemptChangesInput) -> GetAttemptChangesOutput; }
tools! { FileTool: read get_attempt_file(GetAttemptFileInput) -> GetAttemptFileOutput; }
tools! { PatchTool: read get_attempt_patch(GetAttemptPatchInput) -> GetAttemptPatchOutput; }
