//! The review of an attempt as a page: which turns are compared, the files, and the bar with which a
//! person submits comments and accepts the work. Pure.

use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, TaskId};
use provost_actors::journal::TaskStatus;

use super::files::{File, Layout, Shown, list};
use super::threads::{Span, Threads, state};
use crate::api::artifacts::GetAttemptChangesOutput;
use crate::api::attempts::AttemptStatus;
use crate::api::comments::{AttemptComments, CommentState};
use crate::api::timeline::{FinishRecord, Timeline};
use crate::http::assets;
use crate::http::page::attempt::finished;
use crate::http::page::form::{Button, Call, Forms, Look};
use crate::http::page::line;
use crate::http::page::need::FINISH_MS;
use crate::http::page::parts::{self, attempt_badge, badge};
use crate::http::page::shell::{self, Live};

/// Most turns that have a link of their own: the last ones.
const TURNS: u32 = 8;

/// What the page is made of.
pub struct Review<'r> {
    pub status: &'r AttemptStatus,
    pub timeline: &'r Timeline,
    pub changes: &'r GetAttemptChangesOutput,
    pub comments: &'r AttemptComments,
    pub threads: &'r Threads<'r>,
    pub shown: Shown<'r>,
    /// The first batch, and the number of its first file in the list.
    pub files: Vec<File<'r>>,
    pub first: usize,
}

/// The page's content.
pub fn page(review: &Review<'_>) -> Markup {
    let Review { status, timeline, changes, threads, shown, .. } = review;
    let id = status.attempt_id;
    let paths: Vec<&str> = changes.files.iter().map(|file| file.path.as_str()).collect();
    html! {
        link rel="stylesheet" href=(assets::path("colours.css"));
        link rel="stylesheet" href=(assets::path("attempt.css"));
        (shell::script("attempt.js"))
        div.wide {
            div.head {
                div {
                    p.crumbs {
                        (timeline.project_name) " / "
                        a href={ "/tasks/" (status.task_id) } { (status.handle) } " / "
                        a href={ "/attempts/" (id) } { "Attempt " (id.short()) }
                    }
                    h1 { "Review: " (line::plain(&timeline.task_title)) }
                }
                div.end {
                    (attempt_badge(status.state, status.phase, status.waiting_on))
                    (layouts(shown))
                }
            }
            (turns(review))
            (summary(changes))
            @if status.phase.is_busy() && shown.span.to.is_none() {
                p.muted { "A turn runs: the files may change while you read. Comments are on what the last turn left." }
            }
            div.review {
                (list(&changes.files, |path| threads.of(path).map_or(0, |it| it.all().count())))
                div.files {
                    h2.unseen { "Files" }
                    (shown.list_of(&threads.elsewhere(&paths)))
                    @if review.first > 0 { a.more href=(shown.path("")) { "Files before these" } }
                    (batch(shown, &review.files, review.first, changes.files.len()))
                    (bar(&Bar::of(review)))
                }
            }
            (writer(id, shown))
        }
    }
}

/// A batch of files, and the element that asks for the next one when it becomes visible. `first` is the
/// number of the first file, and `all` how many files there are.
pub fn batch(shown: &Shown<'_>, files: &[File<'_>], first: usize, all: usize) -> Markup {
    let next = first + files.len();
    html! {
        @for (number, file) in files.iter().enumerate() { (shown.file(file, first + number)) }
        @if next < all && !files.is_empty() {
            @let (part, whole) = (shown.path("/files"), shown.path(""));
            a.more href={ (whole) "&first=" (next) } hx-get={ (part) "&first=" (next) } hx-trigger="revealed, click" hx-swap="outerHTML" {
                (all - next) " more files"
            }
        }
    }
}

/// The link to the other layout.
fn layouts(shown: &Shown<'_>) -> Markup {
    let other = match shown.layout {
        Layout::Unified => Layout::Split,
        Layout::Split => Layout::Unified,
    };
    let (id, query) = (shown.reader.attempt, shown.span.query());
    let title = if other == Layout::Split { "Side by side" } else { "Unified" };
    html! {
        a.button href={ "/attempts/" (id) "/review?" (query) "&layout=" (other.word()) } data-key="u" {
            (title) kbd aria-hidden="true" { "u" }
        }
    }
}

/// Links to the comparisons: all turns, each of the last turns, and the worktree as it is now.
fn turns(review: &Review<'_>) -> Markup {
    let Review { status, shown, .. } = review;
    let last = status.latest_snapshot_turn.unwrap_or(0);
    let first = last.saturating_sub(TURNS - 1).max(1);
    let link = |span: Span, title: String| {
        let is_here = span == shown.span;
        let path = format!(
            "/attempts/{}/review?{}&layout={}",
            status.attempt_id,
            span.query(),
            shown.layout.word()
        );
        html! { a.button href=(path) aria-current=[is_here.then_some("page")] { (title) } }
    };
    html! {
        nav.actions aria-label="Turns" {
            @if last > 0 { (link(Span { from: 0, to: Some(last) }, "All turns".to_owned())) }
            @if last > 1 {
                @for turn in first..=last {
                    (link(Span { from: turn - 1, to: Some(turn) }, format!("Turn {turn}")))
                }
            }
            (link(Span { from: 0, to: None }, "Worktree now".to_owned()))
        }
    }
}

fn summary(changes: &GetAttemptChangesOutput) -> Markup {
    let it = &changes.summary;
    html! {
        p.muted {
            (parts::files(it.file_count)) ", " span.plus { "+" (it.added) } " " span.minus { "−" (it.deleted) }
            @if changes.truncated { ", of which the first " (changes.files.len()) " are listed" }
        }
        @for work in &changes.merged {
            p.muted {
                (line::plain(&work.repo_name)) ": nothing is new since the merge into "
                (line::plain(&work.branch)) " (" code { (work.merged_as.get(..12).unwrap_or(&work.merged_as)) }
                "): these are the changes that it brought."
            }
        }
        @if it.file_count == 0 { p.empty { "Nothing changed." } }
    }
}

/// The bar at the end of a review, with the counts of comments and the decision.
pub struct Bar<'b> {
    pub attempt: AttemptId,
    pub task: TaskId,
    pub task_status: TaskStatus,
    pub forms: &'b Forms,
    pub comments: &'b AttemptComments,
    /// The newest finish.
    pub finish: Option<&'b FinishRecord>,
    /// The last turn that the page compares (`None`: the worktree), and the last one that it could. If
    /// they differ, the bar says that there is something new.
    pub shown_turn: Option<u32>,
    pub latest_turn: Option<u32>,
    pub now: Timestamp,
}

impl<'b> Bar<'b> {
    fn of(review: &'b Review<'b>) -> Self {
        Self {
            attempt: review.status.attempt_id,
            task: review.status.task_id,
            task_status: review.timeline.task_status,
            forms: review.shown.reader.forms,
            comments: review.comments,
            finish: review.timeline.finishes.first(),
            shown_turn: review.shown.span.to,
            latest_turn: review.status.latest_snapshot_turn,
            now: review.shown.reader.now,
        }
    }
}

/// The bar as a live part: the rest of the review stays as it is while a person reads.
pub fn bar(bar: &Bar<'_>) -> Markup {
    let Bar { attempt, forms, .. } = bar;
    let seen = bar.shown_turn.map(|turn| format!("?turn={turn}")).unwrap_or_default();
    let path = format!("/attempts/{attempt}/review/bar{seen}");
    let of = attempt.to_string();
    let content = html! {
        section.submit-bar aria-label="Decision" {
            @if bar.shown_turn.is_some() && bar.shown_turn < bar.latest_turn {
                p { "Another turn has ended. " a href={ "/attempts/" (attempt) "/review" } { "Show its changes" } }
            }
            (states(bar.comments))
            @if let Some(finish) = bar.finish { (finished(finish, bar.now)) }
            @if forms.may_write {
                div.actions { (submit(bar)) (accept(bar)) (others(bar)) }
            }
        }
    };
    Live { id: "review-bar", path: &path, topics: "attempt", of: Some(&of) }.wrap(&content)
}

/// The number of comments in each state.
fn states(comments: &AttemptComments) -> Markup {
    use CommentState::{Addressed, Delivered, Draft, Resolved, Sent};
    let count = |wanted| comments.comments.iter().filter(|it| it.state == wanted).count();
    html! {
        @if !comments.comments.is_empty() {
            p.actions {
                @for wanted in [Draft, Sent, Delivered, Addressed, Resolved] {
                    @let (count, (tone, word)) = (count(wanted), state(wanted));
                    @if count > 0 { (badge(tone, &format!("{count} {word}"))) }
                }
            }
        }
    }
}

/// The form that sends all drafts in one follow-up; nothing without drafts.
fn submit(bar: &Bar<'_>) -> Markup {
    let drafts = bar.comments.comments.iter().filter(|it| it.state == CommentState::Draft).count();
    if drafts == 0 {
        return html! {};
    }
    let label = format!("Submit {drafts} {}", if drafts == 1 { "comment" } else { "comments" });
    let content = html! {
        label { span.unseen { "Message before the comments" }
            input name="text" maxlength="4000" placeholder="Message (optional)" autocomplete="off";
        }
        (Button::new(&label).key("s").look(Look::Primary).markup())
    };
    let call = Call::new("comment_on_changes").with("attempt_id", bar.attempt);
    call.with("action", "submit").form(bar.forms, "inline reload", None, &content)
}

/// The buttons for a squash merge and for a task that is done without a merge.
fn accept(bar: &Bar<'_>) -> Markup {
    let merge = finish(bar, "merge").with("strategy", "squash");
    let done = Call::new("update_task").with("task_id", bar.task).with("status", "done");
    html! {
        (merge.button(bar.forms, Button::new("Merge (squash)").key("m").look(Look::Primary)))
        @if !matches!(bar.task_status, TaskStatus::Done | TaskStatus::Cancelled) {
            (done.button(bar.forms, Button::new("Mark done").key("e")))
        }
    }
}

fn finish<'a>(bar: &Bar<'_>, action: &'a str) -> Call<'a> {
    let call = Call::new("finish_attempt").with("attempt_id", bar.attempt);
    call.with("action", action).with("timeout_ms", FINISH_MS)
}

/// The other ways to finish.
fn others(bar: &Bar<'_>) -> Markup {
    let merges =
        [("merge", "Merge commit"), ("rebase", "Rebase"), ("fast_forward", "Fast-forward")];
    let others = [("commit", "Commit only"), ("push", "Push"), ("create_pr", "Pull request")];
    let question = "Discard this attempt? Its worktrees go to the trash.";
    let discard = Button::new("Discard").key("d").look(Look::Danger).confirm(question);
    html! {
        details #more-ways {
            summary { "More" }
            div.actions {
                @for (strategy, title) in merges {
                    (finish(bar, "merge").with("strategy", strategy).button(bar.forms, Button::new(title)))
                }
                @for (action, title) in others { (finish(bar, action).button(bar.forms, Button::new(title))) }
                (finish(bar, "discard").button(bar.forms, discard))
            }
        }
    }
}

/// The form for a comment: a template that the script copies below a line. Without a script, a form
/// with fields for the file and its lines.
fn writer(id: AttemptId, shown: &Shown<'_>) -> Markup {
    let Shown { reader, span, .. } = shown;
    let call = Call::new("comment_on_changes").with("attempt_id", id).with("action", "add");
    let field = html! {
        label { "Comment"
            textarea name="text" rows="3" required maxlength="4000" {}
        }
    };
    let in_place = html! {
        @for name in ["path", "side", "turn", "line", "last_line"] { input type="hidden" name=(name) value=""; }
        p.muted.small data-lines {}
        (field)
        div.actions {
            (Button::new("Add comment").look(Look::Primary).markup())
            button.ghost type="button" data-cancel { "Cancel" }
        }
    };
    let in_words = html! {
        div.fields {
            label { "File" input name="path" required; }
            label { "Line" input name="line" type="number" min="1" required; }
            label { "Last line" input name="last_line" type="number" min="1"; }
            label { "Side" select name="side" { option value="new" { "new" } option value="old" { "old" } } }
        }
        (field)
        (Button::new("Add comment").markup())
    };
    // A comment on the old side belongs to the turn that left those lines, on whose new side they are.
    // Lines from before the first turn have no such turn.
    let old_turn = (span.from > 0).then_some(span.from);
    html! {
        @if reader.forms.may_write {
            template #comment-form data-turn=[span.to] data-old-turn=[old_turn] {
                (call.form(reader.forms, "stack", None, &in_place))
            }
            noscript {
                section.panel { h2 { "Comment on a line" } (call.form(reader.forms, "stack", None, &in_words)) }
            }
        }
    }
}
