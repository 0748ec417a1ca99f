//! One item that needs a person: what it is about, and the forms that resolve it in place. Pure.

use maud::{Markup, html};
use provost_actors::event::{Action, ActionKind, Timestamp};
use provost_actors::executor::AgentQuestion;
use serde_json::Value;

use super::form::{Button, Call, Forms, Look};
use super::parts::{Tone, ago, badge, priority, visible, word};
use crate::api::approvals::ApprovalSummary;
use crate::api::window::{AttemptCard, FailedCheck, Need, NeedDetail, NeedKind, TaskLine};
use crate::api::worker::inbox::{QuestionStatus, QuestionSummary};

/// How long a call from a page waits for a finish, in milliseconds. A finish that takes longer goes on,
/// and its end arrives as a change like any other.
pub const FINISH_MS: u32 = 10_000;

/// An item of the inbox, with its forms if the reader may write. Its id stays the same while the same
/// thing needs a person, so that the browser keeps focus and typed text.
pub fn item(need: &Need, forms: &Forms, now: Timestamp) -> Markup {
    html! {
        li.item #(need.id) data-item tabindex="-1" {
            (head(need, now))
            (body(need, now))
            @if forms.may_write { div.actions { (actions(need, forms)) } (replies(need, forms)) }
        }
    }
}

fn head(need: &Need, now: Timestamp) -> Markup {
    let (tone, label) = label(need);
    html! {
        div.item-head {
            (badge(tone, label))
            h2.title { (title(need)) }
            @match (&need.task, &need.detail) {
                (Some(task), _) => {
                    span.tag { (task.handle) }
                    span.muted.small { (task.project_name) }
                    (priority(task.priority))
                }
                (None, NeedDetail::Question(question)) => {
                    span.tag { (question.handle) }
                    @if let Some(task) = &question.task_id { span.tag { "in " (task) } }
                    (priority(question.priority))
                }
                _ => {}
            }
            (ago(need.at, now))
        }
    }
}

/// The badge of an item.
fn label(need: &Need) -> (Tone, &'static str) {
    match need.kind {
        NeedKind::Approval => (Tone::Asks, "approval"),
        NeedKind::Question => match &need.detail {
            NeedDetail::Question(it) if it.status == QuestionStatus::Unruled => {
                (Tone::Asks, "answer to confirm")
            }
            _ => (Tone::Asks, "question"),
        },
        NeedKind::ChecksFailed => (Tone::Bad, "checks failed"),
        NeedKind::Failed => (Tone::Bad, "failed"),
        NeedKind::Quota => (Tone::Waits, "rate limit"),
        NeedKind::Conflict => (Tone::Bad, "conflict"),
        NeedKind::Review => (Tone::Good, "to review"),
        NeedKind::Ready => (Tone::Good, "ready to merge"),
        NeedKind::Finishing => (Tone::Busy, "being finished"),
        NeedKind::Merged => (Tone::Good, "merged"),
    }
}

fn title(need: &Need) -> Markup {
    let Some(task) = &need.task else {
        let NeedDetail::Question(question) = &need.detail else { return html! {} };
        return html! { (question.question) };
    };
    html! {
        @match &need.attempt {
            Some(attempt) => a.title data-open href=(place(need.kind, attempt)) { (task.title) },
            None => a.title data-open href={"/tasks/" (task.task_id)} { (task.title) },
        }
    }
}

/// The page that shows the matter in full: the review where there is work to judge.
fn place(kind: NeedKind, attempt: &AttemptCard) -> String {
    let of_work = matches!(kind, NeedKind::Review | NeedKind::Ready | NeedKind::Conflict);
    let page = if of_work { "/review" } else { "" };
    format!("/attempts/{}{page}", attempt.attempt_id)
}

fn body(need: &Need, now: Timestamp) -> Markup {
    html! {
        @match &need.detail {
            NeedDetail::Approval(approval) => (approval_body(approval, now)),
            NeedDetail::Question(question) => (question_body(question)),
            NeedDetail::Checks(checks) => (checks_body(checks, need)),
            NeedDetail::Conflict(paths) => (paths_body(paths)),
            NeedDetail::Attempt => {}
        }
        @if let Some(attempt) = &need.attempt { (attempt_body(need.kind, attempt, now)) }
        @if let Some(task) = need.task.as_ref().filter(|task| task.attempts > 1) {
            p.small { a href={"/compare/" (task.task_id)} { "Compare " (task.attempts) " attempts" } }
        }
    }
}

fn attempt_body(kind: NeedKind, attempt: &AttemptCard, now: Timestamp) -> Markup {
    let shows_words = matches!(
        kind,
        NeedKind::Review | NeedKind::Ready | NeedKind::Conflict | NeedKind::ChecksFailed
    );
    let words = attempt.final_message.as_deref().filter(|_| shows_words);
    html! {
        @if let Some(why) = &attempt.failure_summary { p.reason { (visible(why)) } }
        @if let Some(words) = words { p.said { (words) } }
        ul.facts {
            li { (attempt.executor) @if let Some(variant) = &attempt.variant { " · " (variant) } }
            li { "started " (ago(attempt.created_at, now)) }
            @if let Some(at) = attempt.resume_at { li { "limit over " time datetime=(at) { (at) } } }
        }
        @if matches!(kind, NeedKind::Review | NeedKind::Ready | NeedKind::Conflict) {
            (changes(attempt))
        }
    }
}

/// The changed files of an attempt, which the browser asks for when they are unfolded.
fn changes(attempt: &AttemptCard) -> Markup {
    let path = format!("/inbox/files/{}", attempt.attempt_id);
    html! {
        details #{"files-" (attempt.attempt_id)} hx-get=(path) hx-trigger="toggle once"
            hx-target="find div" hx-swap="innerHTML" {
            summary data-key="o" { "Changed files" }
            div aria-live="polite" {
                a href={"/attempts/" (attempt.attempt_id) "/review"} { "See the review" }
            }
        }
    }
}

fn approval_body(approval: &ApprovalSummary, now: Timestamp) -> Markup {
    html! {
        p { span.tag { (visible(&approval.tool_name)) } " " (visible(&approval.text)) }
        (action(&approval.action))
        @if let Some(at) = approval.expires_at {
            @let left = at.since(now).as_secs();
            p.small.muted {
                "Denied in " time datetime=(at) title=(at) { (super::parts::span(left)) }
                " without an answer."
            }
        }
    }
}

/// What a tool call would do: the command, the patch or the new content; of any other kind, all its
/// arguments. Everything is escaped visibly, because a person approves what they see.
fn action(action: &Action) -> Markup {
    let text = |name: &str| action.detail.get(name).and_then(Value::as_str);
    let is_cut = action.detail.get("truncated") == Some(&Value::Bool(true));
    html! {
        @match (action.kind, text("command"), text("diff"), text("content")) {
            (ActionKind::Command, Some(command), _, _) => pre tabindex="0" { code { (visible(command)) } },
            (_, _, Some(diff), _) => {
                @if let Some(path) = text("path") { p.mono { (visible(path)) } }
                (patch(diff))
            }
            (_, _, None, Some(content)) => {
                @if let Some(path) = text("path") { p.mono { (visible(path)) } }
                pre tabindex="0" { code { (visible(content)) } }
            }
            _ => (pairs(&Value::Object(action.detail.clone()))),
        }
        @if is_cut { p.small.muted { "Cut: the log has all of it." } }
    }
}

fn patch(diff: &str) -> Markup {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "added",
        Some(b'-') => "removed",
        Some(b'@') => "hunk",
        _ => "same",
    };
    html! {
        pre.patch tabindex="0" {
            @for line in diff.lines() { span class=(class(line)) { (visible(line)) "\n" } }
        }
    }
}

/// The members of an object, each in a line or a block.
fn pairs(value: &Value) -> Markup {
    let Value::Object(members) = value else {
        return html! { pre tabindex="0" { code { (visible(&word(value))) } } };
    };
    html! {
        @if !members.is_empty() {
            dl.pairs {
                @for (name, value) in members {
                    dt { (name.replace('_', " ")) }
                    dd.said { (visible(&word(value))) }
                }
            }
        }
    }
}

/// The answer that waits for confirmation, if there is one, and the question's context, which is JSON
/// or plain text.
fn question_body(question: &QuestionSummary) -> Markup {
    let context = question.context.as_deref();
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    html! {
        @if let Some(answer) = &question.answer {
            p.said { span.muted { (question.answered_by.as_deref().unwrap_or("An executor")) ": " } (answer) }
        }
        @if let Some(context) = context.map(read) { (pairs(&context)) }
    }
}

fn checks_body(checks: &[FailedCheck], need: &Need) -> Markup {
    let reason = need.task.as_ref().and_then(|task| task.blocked_reason.as_deref());
    html! {
        @if checks.is_empty() {
            @if let Some(reason) = reason { p.reason { (visible(reason)) } }
        } @else {
            ul {
                @for check in checks {
                    li {
                        (badge(Tone::Bad, &check.name)) " "
                        code { (visible(&check.command)) } " "
                        span.muted {
                            (check.outcome.replace('_', " "))
                            @if let Some(code) = check.exit_code { ", exit code " (code) }
                            @if let Some(reason) = &check.reason { ": " (visible(reason)) }
                        }
                    }
                }
            }
        }
    }
}

fn paths_body(paths: &[String]) -> Markup {
    html! {
        @if !paths.is_empty() {
            ul.mono { @for path in paths { li { (visible(path)) } } }
        }
    }
}

/// An approval on the page of its attempt, which has no item around it.
pub fn approval(approval: &ApprovalSummary, forms: &Forms, now: Timestamp) -> Markup {
    html! {
        div.item #{"approval-" (approval.approval_id)} data-item tabindex="-1" {
            div.item-head { (badge(Tone::Asks, "approval")) (ago(approval.asked_at, now)) }
            (approval_body(approval, now))
            @if forms.may_write { div.actions { (decide(approval, forms)) } }
        }
    }
}

/// The buttons of an item, each with a key.
fn actions(need: &Need, forms: &Forms) -> Markup {
    let (task, attempt) = (need.task.as_ref(), need.attempt.as_ref());
    html! {
        @match (need.kind, &need.detail) {
            (NeedKind::Approval, NeedDetail::Approval(it)) => (decide(it, forms)),
            (NeedKind::Review | NeedKind::Ready, _) => {
                @if let Some(attempt) = attempt {
                    (merge(attempt, forms))
                    a.button href=(place(need.kind, attempt)) { "Review" }
                    (discard(attempt, forms))
                }
                (task_is("done", "Mark done", "e", task, forms))
            }
            (NeedKind::Merged | NeedKind::Finishing, _) => (task_is("done", "Mark done", "e", task, forms)),
            (NeedKind::Failed | NeedKind::Quota | NeedKind::ChecksFailed | NeedKind::Conflict, _) => {
                @if let (Some(task), Some(attempt)) = (task, attempt) {
                    (start_again(task, attempt, forms))
                    (discard(attempt, forms))
                }
                (task_is("done", "Mark done", "e", task, forms))
                (task_is("cancelled", "Cancel task", "x", task, forms))
            }
            _ => {}
        }
    }
}

/// Approve or deny; where the agent asks a question with options, the answers instead.
fn decide(approval: &ApprovalSummary, forms: &Forms) -> Markup {
    let answer = |decision| {
        Call::new("answer").with("approval_id", approval.approval_id).with("decision", decision)
    };
    if let Some(question) = &approval.question {
        return reply(approval, question, forms);
    }
    let approve = Button::new("Approve").key("a").look(Look::Primary);
    let deny = html! {
        input type="text" name="reason" maxlength="2000" aria-label="Reason for the denial"
            placeholder="Reason (optional)";
        (Button::new("Deny").key("d").look(Look::Danger).markup())
    };
    html! {
        (answer("approve").button(forms, approve))
        (answer("deny").form(forms, "fields", None, &deny))
    }
}

/// The answers to an agent's question: a button for each option, a field if it accepts other answers,
/// and "No answer", which denies.
fn reply(approval: &ApprovalSummary, question: &AgentQuestion, forms: &Forms) -> Markup {
    let answer = || Call::new("answer").with("approval_id", approval.approval_id);
    let other = html! {
        input type="text" name="answer" maxlength="20000" required aria-label="Your answer"
            placeholder="Another answer";
        (Button::new("Answer").markup())
    };
    html! {
        @for option in &question.options {
            (answer().with("answer", option).button(forms, Button::new(option)))
        }
        @if question.is_open { (answer().form(forms, "fields", None, &other)) }
        (answer().with("decision", "deny").button(forms, Button::new("No answer").key("d")))
    }
}

/// The button for a squash merge, which is the page's default strategy.
pub fn merge(attempt: &AttemptCard, forms: &Forms) -> Markup {
    let merge = finish(attempt, "merge").with("strategy", "squash");
    merge.button(forms, Button::new("Merge").key("m").look(Look::Primary))
}

fn discard(attempt: &AttemptCard, forms: &Forms) -> Markup {
    let button = Button::new("Discard").key("d").look(Look::Danger);
    let asks = "Move the worktree of this attempt to the trash? A snapshot of its work is kept.";
    finish(attempt, "discard").button(forms, button.confirm(asks))
}

fn finish<'a>(attempt: &AttemptCard, action: &str) -> Call<'a> {
    Call::new("finish_attempt")
        .with("attempt_id", attempt.attempt_id)
        .with("action", action)
        .with("timeout_ms", FINISH_MS)
}

/// The button for a new attempt with the same executor and variant.
fn start_again(task: &TaskLine, attempt: &AttemptCard, forms: &Forms) -> Markup {
    let mut start = Call::new("start_task_attempt")
        .with("task_id", task.task_id)
        .with("executor", &attempt.executor);
    if let Some(variant) = &attempt.variant {
        start = start.with("variant", variant);
    }
    start.button(forms, Button::new("New attempt").key("t"))
}

/// The button that sets the task's status.
fn task_is(status: &str, label: &str, key: &str, task: Option<&TaskLine>, forms: &Forms) -> Markup {
    let Some(task) = task else { return html! {} };
    let update = Call::new("update_task").with("task_id", task.task_id).with("status", status);
    update.button(forms, Button::new(label).key(key))
}

/// The form for a text: the answer to a question, or a follow-up prompt. An approval has neither.
fn replies(need: &Need, forms: &Forms) -> Markup {
    if let NeedDetail::Question(question) = &need.detail {
        return answer(question, need, forms);
    }
    let Some(attempt) = need.attempt.as_ref().filter(|_| need.kind != NeedKind::Approval) else {
        return html! {};
    };
    let call = Call::new("follow_up").with("attempt_id", attempt.attempt_id).with("action", "send");
    let content = html! {
        label {
            "Prompt"
            textarea name="prompt" required data-key="r" rows="4" { (prompt(need)) }
        }
        div.actions { (Button::new("Send").look(Look::Primary).markup()) }
    };
    html! {
        details #{"reply-" (need.id)} {
            summary { "Follow up " kbd aria-hidden="true" { "r" } }
            (call.form(forms, "stack", None, &content))
        }
    }
}

/// The form for an answer. The answer that waits for confirmation is filled in.
fn answer(question: &QuestionSummary, need: &Need, forms: &Forms) -> Markup {
    let call = Call::new("answer").with("question_id", &question.question_id);
    let given = question.answer.as_deref().unwrap_or_default();
    let field = format!("answer-{}", need.id);
    let content = html! {
        label for=(field) { span { "Answer " kbd aria-hidden="true" { "r" } } }
        textarea #(field) name="answer" required data-key="r" rows="2" { (given) }
        div.actions { (Button::new("Send answer").look(Look::Primary).markup()) }
    };
    call.form(forms, "stack", None, &content)
}

/// The prompt that is filled in: what a person would ask for first. Empty: they have to write it.
fn prompt(need: &Need) -> String {
    match (&need.detail, need.kind) {
        (NeedDetail::Checks(checks), _) if !checks.is_empty() => {
            let failed: Vec<_> =
                checks.iter().map(|it| format!("- {}: {}", it.name, it.command)).collect();
            format!("These checks do not pass:\n{}\nMake them pass.", failed.join("\n"))
        }
        (NeedDetail::Conflict(paths), _) => {
            let paths: Vec<_> = paths.iter().map(|path| format!("- {path}")).collect();
            format!(
                "Your work does not merge with the target branch:\n{}\nMerge the target branch \
                 into yours and resolve the conflicts.",
                paths.join("\n")
            )
        }
        (_, NeedKind::Failed | NeedKind::Quota) => "Go on with the task.".to_owned(),
        _ => String::new(),
    }
}
