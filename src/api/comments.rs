//! Comments on the lines that an attempt changed: drafts, sent as one follow-up, and what has
//! become of them.

use crate::api::artifacts::ArtifactPath;
use crate::api::prelude::*;

/// The description of `comment_on_changes`, by which a model decides whether to call it.
pub const COMMENT_ON_CHANGES: &str = "\
Use when: lines that an attempt changed need other work.
Next: submit once after all add, then wait_for_attempts.
Avoid: a submit for each comment.";

/// The actions on one existing comment.
const OF_ONE: &[&str] = &["edit", "remove", "resolve"];

/// Which fields each action of `comment_on_changes` takes and needs.
pub const COMMENT_RULES: &[FieldRule] = &[
    FieldRule::Only(&["path", "line", "last_line", "side", "turn"], "action", &["add"]),
    FieldRule::Only(&["text"], "action", &["add", "edit", "submit"]),
    FieldRule::Only(&["comment_id"], "action", OF_ONE),
    FieldRule::Needs("action", &["add"], &["path", "line", "text"]),
    FieldRule::Needs("action", OF_ONE, &["comment_id"]),
    FieldRule::Needs("action", &["edit"], &["text"]),
];

#[apply(word)]
pub enum CommentAction {
    Add,
    Edit,
    Remove,
    Submit,
    Resolve,
    List,
}

/// Which version of a changed file a comment is on.
#[apply(word)]
#[derive(Default)]
pub enum Side {
    /// As it was before the changes.
    Old,
    #[default]
    New,
}

/// What has become of a comment.
#[apply(word)]
pub enum CommentState {
    Draft,
    /// The follow-up that carries it waits.
    Sent,
    /// The turn of that follow-up has begun.
    Delivered,
    /// That turn, or a later one, changed the lines.
    Addressed,
    Resolved,
}

/// The number of a line.
pub type LineNumber = Between<1, { i64::MAX }>;

#[apply(input)]
pub struct CommentOnChangesInput {
    pub attempt_id: AttemptId,
    /// add, edit, remove: drafts. submit: all drafts as one follow-up. resolve: what was sent.
    pub action: CommentAction,
    /// A comment, by its UUID.
    #[schemars(with = "Option<crate::api::args::Id>")]
    pub comment_id: Option<CommentId>,
    /// Changed file, as in get_attempt_changes.
    pub path: Option<ArtifactPath>,
    /// First line, from 1.
    pub line: Option<LineNumber>,
    /// line if left out.
    pub last_line: Option<LineNumber>,
    /// old: before the changes. new if left out.
    pub side: Option<Side>,
    /// As it was when this turn had ended; the last if left out.
    pub turn: Option<ToTurn>,
    /// The comment; of submit, what precedes all.
    pub text: Option<Text<1, 4000>>,
}

#[apply(output)]
pub struct CommentOnChangesOutput {
    /// Oldest first; `now` is where the lines are.
    pub comments: Vec<Comment>,
    /// Whether there are older ones.
    pub has_more: bool,
    /// Of submit; else null.
    pub review: Option<SubmittedReview>,
}

/// What a submit has sent. The same for a repeated call, whatever has become of it.
#[apply(output)]
pub struct SubmittedReview {
    /// A UUID.
    #[schemars(with = "crate::api::args::Id")]
    pub review_id: ReviewId,
    /// How many comments were sent.
    pub comment_count: usize,
    /// When.
    pub submitted_at: Timestamp,
    pub session_id: SessionId,
    /// Id of the follow-up, a UUID.
    pub queue_id: QueueId,
    /// The process whose turn this call began, a UUID; null if the follow-up waits.
    pub execution_process_id: Option<ProcessId>,
}

/// A comment, with what has become of it and of its lines.
#[apply(output)]
#[expect(clippy::struct_field_names, reason = "an id is named after what it is of")]
pub struct Comment {
    /// A UUID.
    #[schemars(with = "crate::api::args::Id")]
    pub comment_id: CommentId,
    /// <repository>/<path>, as get_attempt_changes lists it.
    pub path: String,
    pub side: Side,
    /// First of the lines, as they were commented on.
    pub first_line: u64,
    /// Their last.
    pub last_line: u64,
    /// The turn at whose end they were so.
    pub turn: u32,
    /// The file's blob in git then.
    pub blob_id: String,
    /// The lines' text, cut.
    pub quoted: String,
    /// The comment.
    pub text: String,
    /// draft; sent (its follow-up waits); delivered (its turn has begun); addressed (that or a later turn
    /// changed the lines); resolved.
    pub state: CommentState,
    /// Whether the lines have moved or changed since.
    pub outdated: bool,
    /// Where they are now, by the newest snapshot; null if they have changed.
    pub now: Option<CurrentLines>,
    /// person, orchestrator, or the attempt that wrote it.
    pub author: String,
    /// The submit that sent it, a UUID; null for a draft.
    #[schemars(with = "Option<crate::api::args::Id>")]
    pub review_id: Option<ReviewId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Where commented lines are now.
#[apply(output)]
pub struct CurrentLines {
    /// <repository>/<path>.
    pub path: String,
    /// Their first line.
    pub first_line: u64,
    /// Their last.
    pub last_line: u64,
}

/// A submit as it is now, and the follow-up that carries its comments.
#[apply(output)]
pub struct SentReview {
    #[schemars(with = "crate::api::args::Id")]
    pub review_id: ReviewId,
    pub message: Option<String>,
    pub submitted_at: Timestamp,
    /// Id of the follow-up; while it waits, follow_up shows it in its queue.
    pub queue_id: QueueId,
    pub session_id: SessionId,
    /// The process that runs its prompt, and that one's turn; null while the follow-up waits.
    pub execution_process_id: Option<ProcessId>,
    pub turn: Option<u32>,
}

/// All comments of an attempt.
#[apply(output)]
pub struct AttemptComments {
    pub attempt_id: AttemptId,
    /// Oldest first.
    pub comments: Vec<Comment>,
    /// Those that have comments, oldest first.
    pub reviews: Vec<SentReview>,
    /// The newest turn with a snapshot, by which lines are compared; null before the first.
    pub latest_turn: Option<u32>,
}

tools! {
    CommentTools:
    change comment_on_changes(CommentOnChangesInput) -> CommentOnChangesOutput;
    /// Everything that a page shows of an attempt's comments.
    async fn comments_of(&self, attempt: AttemptId) -> crate::api::Refusable<AttemptComments>;
}
