//! Comments on the changes of attempts, and the reviews that follow-ups carry. A submit writes its review,
//! the new state of its comments and the follow-up in one transaction ([`send`]). If the follow-up is
//! dropped, its comments become drafts again in the transaction of the drop ([`give_back`]).
//!
//! ```text
//!   draft ──submit──▶ sent ──resolve──▶ resolved
//!     ▲                │
//!     └─dropped, or its turn never began
//! ```
//!
//! Whether a comment was delivered is not stored: the process of its follow-up shows it.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, CommentId, ProcessId, QueueId, ReviewId};
use provost_actors::journal::{Idempotent, Key, Review, TurnSnapshot};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::approvals::count_change;
use super::{Code, Db, Refusal, Result, RetryBudget, Sql, Store, not_found, now};
use crate::api::comments::{Comment, CommentState, CurrentLines, SentReview, Side};

/// The limits of one attempt: all comments, and drafts.
const COMMENTS_MAX: u64 = 1000;
const DRAFTS_MAX: u64 = 100;

/// A detail of the refusal of a submit whose drafts have changed since the prompt was made of them.
pub const DRAFTS_CHANGED: &str = "drafts_changed";

/// The writer of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    /// The attempt that the writer works in; `None`: outside of all attempts.
    pub attempt: Option<AttemptId>,
}

/// A comment to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewComment {
    /// The name of the repository.
    pub repo: String,
    /// The changed file as `<repository>/<path>`, as the changes list it.
    pub path: String,
    /// The file of the commented side: the old name of a renamed file on the old side.
    pub file: String,
    pub side: Side,
    /// Both lines belong to the comment; the first line of a file is 1.
    pub first_line: u64,
    pub last_line: u64,
    /// The turn at whose end the lines were like this.
    pub turn: u32,
    /// The blob of the file in git at that time.
    pub blob_id: String,
    /// The text of the lines, shortened.
    pub quoted: String,
    pub text: String,
}

/// A stored comment; the fields of [`NewComment`] mean the same here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct KeptComment {
    pub comment_id: CommentId,
    pub attempt_id: AttemptId,
    pub repo: String,
    pub path: String,
    pub file: String,
    pub side: Side,
    pub first_line: u64,
    pub last_line: u64,
    pub turn: u32,
    pub blob_id: String,
    pub quoted: String,
    pub text: String,
    pub state: CommentState,
    /// Grows with each change of a draft; a submit names the version that it read.
    pub version: u32,
    /// The review that sent it; `None`: a draft.
    pub review_id: Option<ReviewId>,
    pub author: String,
    /// The attempt of its writer; `None`: outside of all attempts.
    pub author_id: Option<AttemptId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The turn that its review's follow-up has begun; `None`: no turn has begun.
    pub delivered: Option<u32>,
}

impl KeptComment {
    /// The comment for callers, as far as the rows show it: whether lines have moved is found elsewhere.
    pub fn to_output(&self) -> Comment {
        let state = match (self.state, self.delivered) {
            (CommentState::Sent, Some(_)) => CommentState::Delivered,
            (state, _) => state,
        };
        Comment {
            comment_id: self.comment_id,
            path: self.path.clone(),
            side: self.side,
            first_line: self.first_line,
            last_line: self.last_line,
            turn: self.turn,
            blob_id: self.blob_id.clone(),
            quoted: self.quoted.clone(),
            text: self.text.clone(),
            state,
            outdated: false,
            now: Some(CurrentLines {
                path: self.file.clone(),
                first_line: self.first_line,
                last_line: self.last_line,
            }),
            author: self.author.clone(),
            review_id: self.review_id,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// The first process that ran a review's prompt. A process that never ran has no pid and no end.
macro_rules! runs {
    ($what:literal) => {
        concat!(
            "(SELECT p.",
            $what,
            " FROM processes p WHERE p.queue_id = r.queue_id
              AND (p.pid IS NOT NULL OR p.exit_code IS NOT NULL OR p.exit_signal IS NOT NULL)
              ORDER BY p.turn, p.process_id LIMIT 1)"
        )
    };
}

/// Comments, oldest first; `$which` is the condition.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT c.*, ",
            runs!("turn"),
            " AS delivered
             FROM comments c LEFT JOIN reviews r ON r.review_id = c.review_id
             WHERE ",
            $which,
            " ORDER BY c.comment_id"
        )
    };
}

/// A change of one comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amendment {
    Edit(String),
    Remove,
    Resolve,
}

impl Store {
    /// An attempt's comments, oldest first. Refused if the attempt is unknown.
    pub async fn comments(&self, attempt: AttemptId) -> Result<Vec<KeptComment>, Refusal> {
        self.read(async |db| {
            let is_there: bool = db.one(KNOWN, (attempt,)).await?;
            if !is_there {
                return Err(not_found::attempt(attempt).into());
            }
            db.all(select!("c.attempt_id = $1"), (attempt,)).await
        })
        .await
    }

    /// The reviews of an attempt that still have comments, oldest first.
    pub async fn reviews(&self, attempt: AttemptId) -> Result<Vec<SentReview>, Refusal> {
        let sql = concat!(
            "SELECT r.review_id, r.message, r.submitted_at, r.queue_id,
                    (SELECT session_id FROM sessions s WHERE s.attempt_id = r.attempt_id
                     ORDER BY session_id DESC LIMIT 1) AS session_id, ",
            runs!("process_id"),
            " AS execution_process_id, ",
            runs!("turn"),
            " AS turn
             FROM reviews r WHERE r.attempt_id = $1
               AND EXISTS (SELECT 1 FROM comments c WHERE c.review_id = r.review_id)
             ORDER BY r.review_id"
        );
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }

    /// All snapshots of an attempt with their turns: one for each turn and repository.
    pub async fn all_snapshots(
        &self,
        attempt: AttemptId,
    ) -> Result<Vec<(u32, TurnSnapshot)>, Refusal> {
        let sql = "SELECT turn, json_object('repo', repo, 'commit_id', commit_id,
                                            'tree_id', tree_id, 'base_id', base_id)
             FROM turn_snapshots WHERE attempt_id = $1 ORDER BY turn, repo";
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }

    /// Adds a draft. Refused when the attempt has as many comments or drafts as are allowed.
    pub async fn add_comment(
        &self,
        key: Option<&Key>,
        attempt: AttemptId,
        author: &Author,
        comment: &NewComment,
    ) -> Result<Idempotent<Comment>, Refusal> {
        let added = self
            .keyed(RetryBudget::Long, key, "comment", async |db| {
                let sql = "SELECT count(*), count(*) FILTER (WHERE state = 'draft') FROM comments
                     WHERE attempt_id = $1";
                let (all, drafts): (u64, u64) = db.one(sql, (attempt,)).await?;
                if all >= COMMENTS_MAX || drafts >= DRAFTS_MAX {
                    return Err(too_many(all, drafts).into());
                }
                let (id, now) = (CommentId::new(), now());
                let mut row = json!(comment);
                row["comment_id"] = json!(id);
                row["attempt_id"] = json!(attempt);
                row["state"] = json!(CommentState::Draft);
                row["version"] = json!(1);
                row["author"] = json!(author.name);
                row["author_id"] = json!(author.attempt);
                (row["created_at"], row["updated_at"]) = (json!(now), json!(now));
                db.insert("INTO comments", row).await?;
                count_change(db, attempt).await?;
                Ok(one(db, attempt, id).await?.to_output())
            })
            .await?;
        self.changes.announce(attempt);
        Ok(added)
    }

    /// Changes a comment. A writer inside an attempt may change only comments that were written in it. Drafts
    /// can be edited or removed; sent comments can only be resolved.
    pub async fn amend_comment(
        &self,
        key: Option<&Key>,
        attempt: AttemptId,
        author: &Author,
        id: CommentId,
        amendment: &Amendment,
    ) -> Result<Idempotent<Comment>, Refusal> {
        let amended = self
            .keyed(RetryBudget::Long, key, "comment", async |db| {
                let found = one(db, attempt, id).await?;
                if author.attempt.is_some() && author.attempt != found.author_id {
                    return Err(not_own(id).into());
                }
                let now = now();
                match (found.state, amendment) {
                    (CommentState::Draft, Amendment::Edit(text)) => {
                        let sql = "UPDATE comments SET text = $2, version = version + 1,
                                    updated_at = $3 WHERE comment_id = $1";
                        db.run(sql, (id, text, now)).await?;
                    }
                    (CommentState::Draft, Amendment::Remove) => {
                        db.run("DELETE FROM comments WHERE comment_id = $1", (id,)).await?;
                        count_change(db, attempt).await?;
                        return Ok(found.to_output());
                    }
                    (CommentState::Draft, Amendment::Resolve) => {
                        return Err(is_draft(id).into());
                    }
                    (_, Amendment::Resolve) => {
                        let sql = "UPDATE comments SET state = 'resolved', updated_at = $2
                             WHERE comment_id = $1 AND state <> 'resolved'";
                        db.run(sql, (id, now)).await?;
                    }
                    (_, Amendment::Edit(_) | Amendment::Remove) => return Err(was_sent(id).into()),
                }
                count_change(db, attempt).await?;
                Ok(one(db, attempt, id).await?.to_output())
            })
            .await?;
        self.changes.announce(attempt);
        Ok(amended)
    }
}

const KNOWN: &str = "SELECT EXISTS (SELECT 1 FROM attempts WHERE attempt_id = $1)";

async fn one(db: Db<'_>, attempt: AttemptId, id: CommentId) -> Result<KeptComment> {
    let found = db.find(select!("c.attempt_id = $1 AND c.comment_id = $2"), (attempt, id)).await?;
    let message = || format!("attempt {attempt} has no comment {id}");
    found.ok_or_else(|| refused(message()).hint(LIST_INSTEAD).into())
}

/// Sends the drafts of a review together with the follow-up that the transaction writes. Refused if a draft
/// has another version than the review was made of. Part of a transaction.
pub(super) async fn send(db: Db<'_>, attempt: AttemptId, review: &Review) -> Result<()> {
    let Review { review_id, queue_id, submitted_at, message, drafts } = review;
    let now = submitted_at.millis();
    let row = json!({
        "review_id": review_id, "attempt_id": attempt, "queue_id": queue_id, "message": message,
        "submitted_at": now,
    });
    db.insert("INTO reviews", row).await?;
    for (draft, version) in drafts {
        let sql = "UPDATE comments SET state = 'sent', review_id = $4, updated_at = $5
             WHERE comment_id = $2 AND attempt_id = $1 AND state = 'draft' AND version = $3";
        if db.run(sql, (attempt, draft, version, review_id, now)).await? == 0 {
            let message = "the drafts have changed while they were being sent";
            let refusal = Refusal::new(Code::InvalidArgument, message);
            let hint = "Call the tool again when the drafts no longer change.";
            return Err(refusal.hint(hint).detail(DRAFTS_CHANGED, true).into());
        }
    }
    Ok(())
}

/// Makes the comments of a dropped follow-up drafts again. Part of a transaction.
pub(super) async fn give_back(db: Db<'_>, follow_up: QueueId) -> Result<()> {
    let sql = "UPDATE comments SET state = 'draft', review_id = NULL, version = version + 1,
                updated_at = $2
         WHERE state = 'sent' AND review_id = (SELECT review_id FROM reviews WHERE queue_id = $1)";
    db.run(sql, (follow_up, now())).await.map(drop)
}

/// The same for a follow-up whose turn ended without having run. Part of a transaction.
pub(super) async fn give_back_unbegun(db: Db<'_>, process: ProcessId) -> Result<()> {
    let sql = "SELECT queue_id FROM processes WHERE process_id = $1 AND queue_id IS NOT NULL
           AND pid IS NULL AND exit_code IS NULL AND exit_signal IS NULL";
    match db.find(sql, (process,)).await? {
        Some(follow_up) => give_back(db, follow_up).await,
        None => Ok(()),
    }
}

const LIST_INSTEAD: &str = "Call the tool again with action = \"list\" instead of comment_id.";

fn refused(message: String) -> Refusal {
    Refusal::new(Code::InvalidArgument, message).detail("path", "comment_id")
}

fn not_own(id: CommentId) -> Refusal {
    let message = format!("comment {id} is not yours: an agent changes its own comments only");
    Refusal::new(Code::NotPermitted, message).hint(LIST_INSTEAD)
}

fn is_draft(id: CommentId) -> Refusal {
    refused(format!("comment {id} is a draft, which no agent has got"))
        .hint(format!("{LIST_INSTEAD} A draft can be removed."))
}

fn was_sent(id: CommentId) -> Refusal {
    refused(format!("comment {id} was sent, so it can only be resolved"))
        .hint(format!("{LIST_INSTEAD} What was sent stays as it is."))
}

fn too_many(all: u64, drafts: u64) -> Refusal {
    let (message, hint) = if drafts >= DRAFTS_MAX {
        let message = format!("the attempt has {drafts} drafts, and {DRAFTS_MAX} at most are kept");
        (message, "Call the tool again when its drafts were sent.")
    } else {
        (
            format!("the attempt has {all} comments, and {COMMENTS_MAX} at most are kept"),
            "Call follow_up instead.",
        )
    };
    Refusal::new(Code::RateLimited, message).hint(hint)
}
