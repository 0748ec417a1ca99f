//! `comment_on_changes`: comments on the lines that an attempt changed. Drafts are rows of the store; a
//! submit sends them as one follow-up, whose owner writes it and the state of the drafts in one
//! transaction. The life of a comment is drawn in `store/comments.rs`.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::gateway::{self, FollowUpRequest};
use provost_actors::ids::{AttemptId, CommentId, QueueId, ReviewId};
use provost_actors::journal::{
    FollowUpAction, FollowedUp, Idempotent, Key, Review, TurnSnapshot, remembered,
};
use provost_actors::workspace::file_versions::Span;

use super::artifacts::Lines;
use super::{Domain, answered};
use crate::api::comments::{
    AttemptComments, Comment, CommentAction, CommentOnChangesInput, CommentOnChangesOutput,
    CommentState, CommentTools, CurrentLines, SubmittedReview,
};
use crate::api::person::OfAttemptParams;
use crate::api::placed::Needs;
use crate::api::users::OWNER;
use crate::api::{Caller, Code, Refusable, Refusal};
use crate::store::{Amendment, Author, DRAFTS_CHANGED, KeptComment};
use crate::work::comments::prompt;

const TOOL: &str = "comment_on_changes";

/// Most comments in an answer: the newest ones.
const LISTED: usize = 100;

/// How often a submit is tried while other calls change its drafts.
const TRIES: usize = 5;

#[async_trait]
impl CommentTools for Domain {
    async fn comment_on_changes(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: CommentOnChangesInput,
    ) -> Refusable<Idempotent<CommentOnChangesOutput>> {
        let (attempt, by) = (input.attempt_id, author(caller));
        let id = input.comment_id;
        match (input.action, id, &input.text) {
            (CommentAction::Add, _, Some(text)) => {
                let text = text.to_string();
                self.add_comment(attempt, &by, key, &input, text).await
            }
            (CommentAction::Edit, Some(id), Some(text)) => {
                self.amend(attempt, &by, key, id, Amendment::Edit(text.to_string())).await
            }
            (CommentAction::Remove, Some(id), _) => {
                self.amend(attempt, &by, key, id, Amendment::Remove).await
            }
            (CommentAction::Resolve, Some(id), _) => {
                self.amend(attempt, &by, key, id, Amendment::Resolve).await
            }
            (CommentAction::Submit, ..) => {
                let message = input.text.map(String::from);
                self.submit(attempt, &by, key, message).await
            }
            (CommentAction::List, ..) => {
                let newest = newest(self.comments_of(attempt).await?);
                Ok(Idempotent { value: newest, deduplicated: false })
            }
            // The field rules refuse it before.
            _ => Err(Refusal::new(Code::MissingRequired, "the action lacks a field")),
        }
    }

    async fn comments_of(&self, attempt: AttemptId) -> Refusable<AttemptComments> {
        let asked = OfAttemptParams { attempt_id: attempt };
        if let Some(there) =
            self.forward_read("provost/comments", Needs::Files, None, attempt, &asked).await?
        {
            return Ok(there);
        }
        let kept = self.store.comments(attempt).await?;
        let reviews = self.store.reviews(attempt).await?;
        let snapshots = self.store.all_snapshots(attempt).await?;
        let latest_turn = snapshots.last().map(|(turn, _)| *turn);
        let comments = match self.lost_host_of(&attempt.to_string()).await? {
            // Positions need the files, which only the lost host has.
            Some(_) => kept.iter().map(KeptComment::to_output).collect(),
            None => self.judged(attempt, &kept, &snapshots).await?,
        };
        Ok(AttemptComments { attempt_id: attempt, comments, reviews, latest_turn })
    }
}

impl Domain {
    /// The method by which another host's daemon reads the comments of an attempt of this host.
    pub(super) async fn comments_by(&self, params: OfAttemptParams) -> Refusable<AttemptComments> {
        self.comments_of(params.attempt_id).await
    }

    /// Writes a draft on lines that exist in the changes of a turn.
    async fn add_comment(
        &self,
        attempt: AttemptId,
        by: &Author,
        key: Option<Key>,
        input: &CommentOnChangesInput,
        text: String,
    ) -> Refusable<Idempotent<CommentOnChangesOutput>> {
        // A repeated call answers from its key: the lines may be gone by now.
        if let Some(before) = remembered::<Comment>(&self.store, key.as_ref()).await? {
            return Ok(answered(self.with_positions(attempt, before).await, only));
        }
        let on = lines(input)?;
        let comment = self.commented(attempt, &on, text).await?;
        let added = self.store.add_comment(key.as_ref(), attempt, by, &comment).await?;
        Ok(answered(self.with_positions(attempt, added).await, only))
    }

    /// Edits, removes or resolves a comment.
    async fn amend(
        &self,
        attempt: AttemptId,
        by: &Author,
        key: Option<Key>,
        id: CommentId,
        amendment: Amendment,
    ) -> Refusable<Idempotent<CommentOnChangesOutput>> {
        let done = self.store.amend_comment(key.as_ref(), attempt, by, id, &amendment).await?;
        Ok(answered(self.with_positions(attempt, done).await, only))
    }

    /// Adds the current position of the comment's lines. The change is already written, so an error here
    /// leaves the comment as it was stored.
    async fn with_positions(
        &self,
        attempt: AttemptId,
        mut done: Idempotent<Comment>,
    ) -> Idempotent<Comment> {
        let id = done.value.comment_id;
        if let Ok(all) = self.comments_of(attempt).await
            && let Some(it) = all.comments.into_iter().find(|it| it.comment_id == id)
        {
            (done.value.now, done.value.outdated) = (it.now, it.outdated);
        }
        done
    }

    /// Sends the caller's drafts as one follow-up. A caller inside an attempt has the drafts that were
    /// written in that attempt; callers outside share all others.
    async fn submit(
        &self,
        attempt: AttemptId,
        by: &Author,
        key: Option<Key>,
        message: Option<String>,
    ) -> Refusable<Idempotent<CommentOnChangesOutput>> {
        if let Some(before) = remembered::<FollowedUp>(&self.store, key.as_ref()).await? {
            return Ok(answered(before, sent));
        }
        self.store.session(Some(attempt), None).await?;
        let mut tries = 1..TRIES;
        loop {
            let mut drafts = self.store.comments(attempt).await?;
            let is_own = |it: &KeptComment| it.author_id == by.attempt;
            drafts.retain(|it| it.state == CommentState::Draft && is_own(it));
            if drafts.is_empty() {
                return Err(no_drafts(attempt));
            }
            let request = self.review(attempt, &drafts, message.as_deref()).await?;
            match gateway::follow_up(&self.gateway, &self.world, key.clone(), request).await {
                Ok(done) => return Ok(answered(done, sent)),
                Err(refusal) => {
                    // The transaction found other drafts than the prompt was made of: it is made again
                    // from the new ones.
                    let is_over = !refusal.details.contains_key(DRAFTS_CHANGED);
                    if is_over || tries.next().is_none() {
                        return Err(refusal);
                    }
                }
            }
        }
    }

    /// The follow-up of a review: its prompt, and the versions of the drafts that the prompt was made of.
    async fn review(
        &self,
        attempt: AttemptId,
        drafts: &[KeptComment],
        message: Option<&str>,
    ) -> Result<FollowUpRequest, Refusal> {
        let snapshots = self.store.all_snapshots(attempt).await?;
        let comments = Box::pin(self.judged(attempt, drafts, &snapshots)).await?;
        let queue_id = QueueId::new();
        let review = Review {
            review_id: ReviewId::new(),
            queue_id,
            submitted_at: Timestamp::now(),
            message: message.map(str::to_owned),
            drafts: drafts.iter().map(|draft| (draft.comment_id, draft.version)).collect(),
        };
        Ok(FollowUpRequest {
            attempt_id: attempt,
            queue_id,
            // The turn begins at once unless another one runs.
            action: FollowUpAction::Queue,
            prompt: prompt(message, &comments),
            variant: None,
            unless_stopped: false,
            review: Some(review),
        })
    }

    /// The comments with the current position of their lines, and `Addressed` where the review's turn
    /// changed them.
    async fn judged(
        &self,
        attempt: AttemptId,
        kept: &[KeptComment],
        snapshots: &[(u32, TurnSnapshot)],
    ) -> Result<Vec<Comment>, Refusal> {
        let mut stands = self.standings(attempt, kept, snapshots).await?;
        let judged = kept.iter().map(|kept| {
            let mut comment = kept.to_output();
            let Some((standing, path)) = stands.remove(&kept.comment_id) else { return comment };
            comment.now = standing.now.map(|lines| CurrentLines {
                path,
                first_line: lines.first,
                last_line: lines.end() - 1,
            });
            comment.outdated = comment
                .now
                .as_ref()
                .is_none_or(|now| (now.first_line, &now.path) != (kept.first_line, &kept.file));
            if comment.state == CommentState::Delivered && standing.is_addressed {
                comment.state = CommentState::Addressed;
            }
            comment
        });
        Ok(judged.collect())
    }
}

/// The author of the caller's comments. `attempt` comes from the kernel, so an agent can't write as a
/// person.
fn author(caller: &Caller) -> Author {
    let attempt = caller.place.attempt();
    let name = match attempt {
        Some(attempt) => attempt.to_string(),
        None if let Some(user) = caller.origin.user.as_ref().filter(|it| *it != OWNER) => {
            user.clone()
        }
        None if caller.is_person => "person".to_owned(),
        None => "orchestrator".to_owned(),
    };
    Author { name, attempt }
}

/// The lines that the arguments name. `last_line` defaults to `line`.
fn lines(input: &CommentOnChangesInput) -> Result<Lines<'_>, Refusal> {
    let (Some(path), Some(line)) = (&input.path, input.line) else {
        // The field rules refuse it before.
        return Err(Refusal::new(Code::MissingRequired, "the action lacks a field"));
    };
    let first = line.get().unsigned_abs();
    let last = input.last_line.map_or(first, |last| last.get().unsigned_abs());
    if last < first {
        let message = format!("last_line {last} is before line {first}");
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint(format!("Call {TOOL} again with line = {last} and last_line = {first}."))
            .detail("path", "last_line"));
    }
    let span = Span { first, count: last - first + 1 };
    let turn = input.turn.map(|turn| u32::try_from(turn.get()).unwrap_or(u32::MAX));
    Ok(Lines { path, side: input.side.unwrap_or_default(), span, turn })
}

fn only(comment: Comment) -> CommentOnChangesOutput {
    CommentOnChangesOutput { comments: vec![comment], has_more: false, review: None }
}

/// The answer to a submit.
fn sent(done: FollowedUp) -> CommentOnChangesOutput {
    let FollowedUp { session_id, execution_process_id, review, .. } = done;
    let review = review.map(|review| SubmittedReview {
        review_id: review.review_id,
        comment_count: review.comment_count,
        submitted_at: review.submitted_at,
        session_id,
        queue_id: review.queue_id,
        execution_process_id,
    });
    CommentOnChangesOutput { comments: Vec::new(), has_more: false, review }
}

/// The newest [`LISTED`] comments, oldest first.
fn newest(all: AttemptComments) -> CommentOnChangesOutput {
    let mut comments = all.comments;
    let older = comments.len().saturating_sub(LISTED);
    comments.drain(..older);
    CommentOnChangesOutput { comments, has_more: older > 0, review: None }
}

fn no_drafts(attempt: AttemptId) -> Refusal {
    let message = format!("attempt {attempt} has no drafts of yours to submit");
    Refusal::new(Code::InvalidArgument, message)
        .hint(format!("Call {TOOL} again with action, which is add for the first one."))
        .detail("path", "action")
}
