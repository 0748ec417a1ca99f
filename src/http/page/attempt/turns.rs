//! The turns of an attempt, newest first: the prompt, how the turn ended, the agent's last message,
//! and, folded, what the agent did. Pure.

use maud::{Markup, html};
use provost_actors::event::{ProcessStatus, RunReason, Timestamp};
use provost_actors::ids::AttemptId;

use crate::api::attempts::AttemptStatus;
use crate::api::logs::LogEntry;
use crate::api::timeline::{Timeline, Turn, TurnProcess, WaitingPrompt};
use crate::http::page::entries::{self, ended, entry, tokens};
use crate::http::page::form::{Button, Call, Forms, Look};
use crate::http::page::parts::{ago, span, word};
use crate::http::page::shell::Live;
use crate::http::page::{line, markdown};

/// Longest prompt that is shown unfolded, in bytes.
const PROMPT_OPEN: usize = 1200;

/// The prompts that wait, next one first; nothing if there are none. `is_held`: a stop paused the queue
/// until the next prompt.
pub fn queue(
    id: AttemptId,
    waiting: &[WaitingPrompt],
    is_held: bool,
    forms: &Forms,
    now: Timestamp,
) -> Markup {
    html! {
        @if !waiting.is_empty() {
            h3 { "Queued" @if is_held { " (held)" } }
            ol.waiting {
                @for it in waiting {
                    li {
                        div.said { (line::plain(&it.prompt)) }
                        span.muted.small { (ago(it.queued_at, now)) }
                    }
                }
            }
            (Call::new("follow_up").with("attempt_id", id).with("action", "cancel")
                .button(forms, Button::new("Drop all that is queued").look(Look::Danger)
                    .confirm("Drop all queued prompts?")))
        }
    }
}

/// The form for the next prompt. It queues the prompt, which runs at once where no turn runs.
pub fn prompt_box(id: AttemptId, forms: &Forms) -> Markup {
    let content = html! {
        label { "Prompt for the agent"
            textarea name="prompt" rows="3" required data-key="r" placeholder="What should it do next?" {}
        }
        div.actions {
            (Button::new("Send").look(Look::Primary).markup())
            span.muted.small { "It runs now, or after the turn that runs." }
        }
    };
    Call::new("follow_up")
        .with("attempt_id", id)
        .with("action", "queue")
        .form(forms, "stack", None, &content)
}

/// All turns of a page: the place of the next one, those of the timeline, and the button for earlier
/// ones. Only the newest is unfolded.
pub fn list(status: &AttemptStatus, timeline: &Timeline, now: Timestamp) -> Markup {
    let id = status.attempt_id;
    let newest = timeline.turns.last().map_or(0, |turn| turn.number);
    html! {
        (next(id, newest))
        @for turn in timeline.turns.iter().rev() { (card(id, turn, turn.number == newest, now)) }
        (earlier(id, timeline))
    }
}

/// An empty live part. When the attempt changes, the browser replaces it with the turns that have begun
/// after `newest`, and with a new empty part ([`newer`]).
pub fn next(id: AttemptId, newest: u32) -> Markup {
    let path = format!("/attempts/{id}/turns?after={newest}");
    let of = id.to_string();
    Live { id: "next-turn", path: &path, topics: "attempt", of: Some(&of) }.wrap(&html! {})
}

/// The turns after `after`, in place of the part that [`next`] wrote.
pub fn newer(id: AttemptId, timeline: &Timeline, after: u32, now: Timestamp) -> Markup {
    let newest = timeline.turns.last().map_or(after, |turn| turn.number.max(after));
    let begun = timeline.turns.iter().rev().filter(|turn| turn.number > after);
    html! {
        (next(id, newest))
        @for turn in begun { (card(id, turn, turn.number == newest, now)) }
    }
}

/// The button for the turns before the first one, which its answer replaces; nothing without such turns.
pub fn earlier(id: AttemptId, timeline: &Timeline) -> Markup {
    let first = timeline.turns.first().filter(|_| timeline.has_earlier);
    html! {
        @if let Some(turn) = first {
            @let path = format!("/attempts/{id}/turns?before={}", turn.number);
            a.more href=(path) hx-get=(path) hx-swap="outerHTML" { "Earlier turns" }
        }
    }
}

/// The turns of a timeline, in place of the button that [`earlier`] wrote.
pub fn older(id: AttemptId, timeline: &Timeline, now: Timestamp) -> Markup {
    html! {
        @for turn in timeline.turns.iter().rev() { (card(id, turn, false, now)) }
        (earlier(id, timeline))
    }
}

fn card(id: AttemptId, turn: &Turn, is_open: bool, now: Timestamp) -> Markup {
    let number = turn.number;
    let path = format!("/attempts/{id}/turns/{number}/entries");
    let trigger = if is_open { "load" } else { "toggle from:closest details once" };
    html! {
        section.panel.turn id={ "turn-" (number) } data-item tabindex="-1" aria-labelledby={ "turn-" (number) "-title" } {
            (outcome(id, turn, now))
            details id={ "turn-" (number) "-did" } open[is_open] {
                summary data-key="o" { "What the agent did" }
                div hx-get=(path) hx-trigger=(trigger) hx-swap="innerHTML" { a href=(path) { "Show" } }
            }
        }
    }
}

/// The part of a turn that changes until the turn has ended and its snapshot is made; then it is no
/// live part any more.
pub fn outcome(id: AttemptId, turn: &Turn, now: Timestamp) -> Markup {
    let content = outcome_content(id, turn, now);
    let is_over = turn.agent().is_some_and(|it| it.ended_at.is_some()) && turn.has_snapshot;
    if is_over {
        return content;
    }
    let (name, path) =
        (format!("turn-{}-outcome", turn.number), format!("/attempts/{id}/turns/{}", turn.number));
    let of = id.to_string();
    Live { id: &name, path: &path, topics: "attempt", of: Some(&of) }.wrap(&content)
}

/// A turn's head, prompt, outcome and last message.
fn outcome_content(id: AttemptId, turn: &Turn, now: Timestamp) -> Markup {
    let number = turn.number;
    let agent = turn.agent();
    html! {
        div.item-head {
            h2 id={ "turn-" (number) "-title" } { "Turn " (number) }
            @if let Some(it) = agent {
                (ended(it.status, it.exit_code, it.exit_signal))
                @if let Some(variant) = &it.variant { span.tag { (variant) } }
                @if let Some(usage) = &it.usage {
                    span.muted.small { (tokens(usage.input_tokens, usage.output_tokens, usage.cost_usd)) }
                }
                @if let Some(ended_at) = it.ended_at { span.muted.small { "took " (span(ended_at.since(it.created_at).as_secs())) } }
                (ago(it.created_at, now))
            }
        }
        (prompt(turn))
        @for it in others(turn) {
            p.small { (word(&it.run_reason).replace('_', " ")) " " (ended(it.status, it.exit_code, it.exit_signal)) }
            @if let Some(reason) = &it.failure_summary { p.reason { (line::plain(reason)) } }
        }
        @if let Some(it) = agent {
            @if let Some(reason) = &it.failure_summary { p.reason { (line::plain(reason)) } }
            @if let Some(message) = &it.final_message { div.md.last tabindex="0" { (markdown::render(message)) } }
        }
        @if turn.has_snapshot {
            p.small { a href={ "/attempts/" (id) "/review?from_turn=" (number - 1) "&to_turn=" (number) } { "Changes of this turn" } }
        }
    }
}

/// The other processes of a turn: scripts, and earlier runs of the agent, such as one that was lost.
/// Runs of the agent that are only planned say nothing yet.
fn others(turn: &Turn) -> impl Iterator<Item = &TurnProcess> {
    let agent = turn.agent().map(|it| it.process_id);
    turn.processes.iter().filter(move |it| {
        let is_news =
            it.run_reason != RunReason::CodingAgent || it.status != ProcessStatus::Planned;
        Some(it.process_id) != agent && is_news
    })
}

/// The prompt, or its beginning if the service cut it.
fn prompt(turn: &Turn) -> Markup {
    let is_cut = turn.prompt.chars().count() as u64 != turn.prompt_length;
    let text = html! {
        (entries::prompt(&turn.prompt))
        @if is_cut { p.muted.small { "… " (turn.prompt_length) " characters in all" } }
    };
    html! {
        @if turn.prompt.len() > PROMPT_OPEN {
            details id={ "turn-" (turn.number) "-prompt" } { summary { "Prompt" } (text) }
        } @else { div.prompt { (text) } }
    }
}

/// Entries of one turn, and the elements that ask for more of them.
pub struct Entries<'e> {
    pub id: AttemptId,
    pub turn: u32,
    pub those: &'e [LogEntry],
    /// The turn has entries before the first of these.
    pub has_earlier: bool,
    /// `Some`: the turn may get more entries, after this index. `None`: it has no later entries.
    pub live_after: Option<i64>,
}

impl Entries<'_> {
    /// The last entries of the turn, in a list of their own.
    pub fn last(&self) -> Markup {
        html! {
            (self.earlier_button())
            ol.entries { @for it in self.those { (entry(it)) } (self.sentinel()) }
        }
    }

    /// Earlier entries, in a list of their own, in place of the button.
    pub fn earlier(&self) -> Markup {
        html! {
            (self.earlier_button())
            ol.entries { @for it in self.those { (entry(it)) } }
        }
    }

    /// Later entries, in place of the sentinel at the end of the list.
    pub fn newer(&self) -> Markup {
        html! { @for it in self.those { (entry(it)) } (self.sentinel()) }
    }

    fn earlier_button(&self) -> Markup {
        let first = self.those.first().filter(|_| self.has_earlier).map(entries::index);
        html! {
            @if let Some(first) = first {
                @let path = format!("/attempts/{}/turns/{}/entries?before={first}", self.id, self.turn);
                a.more href=(path) hx-get=(path) hx-swap="outerHTML" { "Earlier entries" }
            }
        }
    }

    /// A list item that asks for later entries every 2 seconds, and is replaced by them.
    fn sentinel(&self) -> Markup {
        html! {
            @if let Some(after) = self.live_after {
                li.sentinel hx-get={ "/attempts/" (self.id) "/turns/" (self.turn) "/entries?after=" (after) }
                    hx-trigger="every 2s" hx-swap="outerHTML" {}
            }
        }
    }
}
