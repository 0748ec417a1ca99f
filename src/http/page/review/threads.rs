//! Comments on the lines that are shown: below which line each one is, and which have no line in this
//! comparison. Pure.

use std::collections::HashMap;

use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;

use crate::api::comments::{AttemptComments, Comment, CommentState, Side as CommentSide};
use crate::http::page::form::{Button, Call, Forms, Look};
use crate::http::page::parts::{Tone, ago, badge};
use crate::http::page::patch::Side;
use crate::http::page::{line, markdown};

/// What is compared: the state after turn `from` (0: before the first one) with the state after turn
/// `to` (`None`: the worktree now).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub from: u32,
    pub to: Option<u32>,
}

impl Span {
    /// As a query's fields.
    pub fn query(self) -> String {
        let to = self.to.map(|to| format!("&to_turn={to}")).unwrap_or_default();
        format!("from_turn={}{to}", self.from)
    }
}

/// The side and line of a file below which a comment is shown.
type Anchor = (Side, u64);

/// The comments on one file.
#[derive(Default)]
pub struct OfFile<'c> {
    below: HashMap<Anchor, Vec<&'c Comment>>,
    /// Those whose lines are not in this comparison.
    apart: Vec<&'c Comment>,
}

/// The comments on each of the files that are compared.
pub struct Threads<'c> {
    files: HashMap<&'c str, OfFile<'c>>,
}

impl<'c> Threads<'c> {
    /// Places all comments of an attempt in a comparison.
    pub fn new(all: &'c AttemptComments, span: Span) -> Self {
        let mut files: HashMap<&str, OfFile<'_>> = HashMap::new();
        for comment in &all.comments {
            let place = place(comment, span, all.latest_turn);
            match place {
                Some((path, anchor)) => {
                    files.entry(path).or_default().below.entry(anchor).or_default().push(comment);
                }
                None => files.entry(&comment.path).or_default().apart.push(comment),
            }
        }
        Self { files }
    }

    /// The comments on one file; `None`: there are none.
    pub fn of(&self, path: &str) -> Option<&OfFile<'c>> {
        self.files.get(path)
    }

    /// The comments on files that are not among these.
    pub fn elsewhere<'t>(&'t self, paths: &[&str]) -> Vec<&'c Comment> {
        let others = self.files.iter().filter(|(path, _)| !paths.contains(path));
        let mut found: Vec<_> = others.flat_map(|(_, it)| it.all()).collect();
        found.sort_by_key(|it| it.comment_id);
        found
    }
}

impl<'c> OfFile<'c> {
    /// All comments on the file, in no order.
    pub fn all(&self) -> impl Iterator<Item = &'c Comment> {
        self.below.values().flatten().chain(&self.apart).copied()
    }

    /// The comments below a line, oldest first.
    pub fn below(&self, side: Side, line: u64) -> &[&'c Comment] {
        self.below.get(&(side, line)).map_or(&[], Vec::as_slice)
    }

    /// The comments that are below none of the lines that the page shows, oldest first.
    pub fn without_line(&self, is_there: impl Fn(Side, u64) -> bool) -> Vec<&'c Comment> {
        let hidden = self.below.iter().filter(|((side, line), _)| !is_there(*side, *line));
        let mut found: Vec<_> = hidden.flat_map(|(_, it)| it).chain(&self.apart).copied().collect();
        found.sort_by_key(|it| it.comment_id);
        found
    }
}

/// The file and line below which a comment is shown; `None`: its lines are not in this comparison, or
/// have changed since. The order of the cases:
///
/// 1. Made on the new side of the turn where the comparison starts: those lines are its old side.
/// 2. Made on the turn where the comparison ends: the lines have not moved.
/// 3. The comparison ends with the newest state: the lines are where `now` says.
fn place(comment: &Comment, span: Span, latest: Option<u32>) -> Option<(&str, Anchor)> {
    let Comment { path, turn, side, last_line, now, .. } = comment;
    let side = match side {
        // A comment on turn N's result is on the old side of a comparison that starts at N.
        CommentSide::New if span.from > 0 && *turn == span.from => {
            return Some((path, (Side::Old, *last_line)));
        }
        CommentSide::New => Side::New,
        CommentSide::Old if span.from == 0 => Side::Old,
        CommentSide::Old => return None,
    };
    if span.to == Some(*turn) {
        return Some((path, (side, *last_line)));
    }
    let is_newest = span.to.is_none() || span.to == latest;
    let now = now.as_ref().filter(|_| is_newest)?;
    Some((&now.path, (side, now.last_line)))
}

/// What all comments of a page have in common: the attempt, the forms, and the moment to which times
/// are relative.
pub struct Reader<'r> {
    pub attempt: AttemptId,
    pub forms: &'r Forms,
    pub now: Timestamp,
}

impl Reader<'_> {
    /// The comments below a line, as markup; `None`: there are none.
    pub fn thread(&self, comments: &[&Comment]) -> Option<Markup> {
        (!comments.is_empty()).then(|| html! { @for it in comments { (self.comment(it, false)) } })
    }

    /// A comment. `with_lines` adds the quoted lines, for a comment that is not below them.
    pub fn comment(&self, it: &Comment, with_lines: bool) -> Markup {
        let (tone, state) = state(it.state);
        html! {
            article.comment.resolved[it.state == CommentState::Resolved]
                id={ "comment-" (it.comment_id) } aria-label={ "Comment, " (state) } {
                div.item-head {
                    (badge(tone, state))
                    @if it.outdated { (badge(Tone::Quiet, "outdated")) }
                    span.muted.small {
                        (lines(it)) ", turn " (it.turn) ", by " (author(&it.author))
                    }
                    (ago(it.created_at, self.now))
                }
                @if with_lines { pre.quoted { (line::plain(&it.quoted)) } }
                div.md { (markdown::render(&it.text)) }
                @if self.forms.may_write { (self.actions(it)) }
            }
        }
    }

    fn actions(&self, it: &Comment) -> Markup {
        let call = |action| {
            let call = Call::new("comment_on_changes").with("attempt_id", self.attempt);
            call.with("action", action).with("comment_id", it.comment_id)
        };
        let field = html! {
            label {
                span.unseen { "Comment" }
                textarea name="text" required maxlength="4000" { (it.text) }
            }
            (Button::new("Save").look(Look::Primary).markup())
        };
        html! {
            div.actions {
                @if it.state == CommentState::Draft {
                    details id={ "edit-" (it.comment_id) } {
                        summary { "Edit" }
                        (call("edit").form(self.forms, "stack", None, &field))
                    }
                    (call("remove").button(self.forms, Button::new("Remove").look(Look::Danger)))
                } @else if it.state != CommentState::Resolved {
                    (call("resolve").button(self.forms, Button::new("Resolve")))
                }
            }
        }
    }
}

fn lines(it: &Comment) -> String {
    let side = if it.side == CommentSide::Old { " before the change" } else { "" };
    if it.last_line > it.first_line {
        format!("lines {}–{}{side}", it.first_line, it.last_line)
    } else {
        format!("line {}{side}", it.first_line)
    }
}

/// The author's name; of an attempt, its short id.
fn author(author: &str) -> String {
    author
        .parse()
        .map_or_else(|_| author.to_owned(), |id: AttemptId| format!("attempt {}", id.short()))
}

/// The badge of a comment's state.
pub fn state(state: CommentState) -> (Tone, &'static str) {
    match state {
        CommentState::Draft => (Tone::Quiet, "draft"),
        CommentState::Sent => (Tone::Waits, "sent"),
        CommentState::Delivered => (Tone::Busy, "delivered"),
        CommentState::Addressed => (Tone::Asks, "addressed"),
        CommentState::Resolved => (Tone::Good, "resolved"),
    }
}
