//! The few facts of a turn's log that the attempt's actor and its status need. A normalizer around the
//! executor's own sees every entry, so the log's checkpoints keep and restore these facts.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::blocking::lock;
use crate::event::{ErrorType, Event, RawEntry, Stream, Timestamp, TokenUsage};
use crate::executor::{Message, Normalizer, Observed, Request, TurnEnded};
use crate::journal::WaitingOn;
use crate::text::{cut, cut_front};

/// The longest final message that is kept, in characters.
const FINAL_MESSAGE_MAX: usize = 16_000;

/// An answer of many lines is cut when it has so many bytes, so that its characters are not counted at
/// each line.
const LINES_BYTES_MAX: usize = 8 * FINAL_MESSAGE_MAX;

/// The longest error that is kept, in characters.
const ERROR_MAX: usize = 2000;

/// How many of the last lines of standard error are kept, and how many characters of each.
const STDERR_LINES: usize = 3;
const STDERR_MAX: usize = 400;

/// An executor without an open tool call that writes nothing for so long counts as waiting for its model.
pub const MODEL_QUIET: Duration = Duration::from_secs(30);

/// How many open tool calls are remembered: an agent may begin any number and end none.
const CALLS_MAX: usize = 100;

/// The facts, as the entries so far show them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct TurnSummary {
    /// The last assistant message, or all of them if they are the lines of one answer.
    pub(super) final_message: Option<String>,
    /// More parts of that message are to follow.
    #[serde(default)]
    pub(super) open: bool,
    pub last_error: Option<String>,
    #[serde(default)]
    pub last_error_type: Option<ErrorType>,
    #[serde(default)]
    pub resume_at: Option<Timestamp>,
    /// The fault after which the executor tries again; `None` once it makes progress.
    #[serde(default)]
    pub retrying: Option<String>,
    pub executor_session_id: Option<String>,
    /// The executor does not know the session that it was to resume.
    #[serde(default)]
    pub session_lost: bool,
    pub usage: Option<TokenUsage>,
    /// The model was asked: it has produced output or used tokens.
    #[serde(default = "unknown")]
    pub model_asked: bool,
    /// The last lines of standard error.
    #[serde(default)]
    pub stderr: VecDeque<String>,
    pub turn_ended: Option<TurnEnded>,
    /// Tokens of the rounds that have ended. A turn has several rounds if its agent continues by itself.
    #[serde(default)]
    pub(super) rounds: Option<TokenUsage>,
    /// A round has ended, and the executor waits for its own work in the background.
    #[serde(default)]
    pub(super) is_between: bool,
    /// Tool calls without a result, at most 100.
    #[serde(default)]
    pub(super) open_calls: BTreeSet<String>,
    /// How the turn will have ended if the executor writes nothing for so many seconds.
    #[serde(default)]
    pub ends_if_quiet: Option<(u64, TurnEnded)>,
    /// The message that interrupts the turn now; `None`: a signal does.
    #[serde(default)]
    pub interrupt: Option<Message>,
    /// Steps of the conversation that are still to be taken. The output task takes them.
    #[serde(default)]
    pub outbox: VecDeque<Outgoing>,
}

/// A step of a two-way conversation. Its key lets it be taken once, however often it is tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outgoing {
    /// Send this to the executor.
    Say(Message),
    /// Have a person asked for this.
    Ask(Box<Request>),
    /// The executor waits no longer for the answer to the request with this key.
    Withdraw(String),
}

/// For the checkpoint of a turn that began before this was noted.
fn unknown() -> bool {
    true
}

impl TurnSummary {
    /// The agent's answer so far, 16,000 characters at most: the last ones of an answer in lines, else the
    /// first ones.
    pub fn answer(&self) -> Option<String> {
        self.final_message.clone().map(|lines| cut_front(lines, FINAL_MESSAGE_MAX))
    }

    fn has_ended_well(&self) -> bool {
        self.turn_ended.as_ref().is_some_and(|ended| !ended.failed)
    }

    /// What the executor waits for, after it has written nothing for `quiet`: its own work in the
    /// background, or its model. `None`: neither, or its turn has ended.
    pub fn waits_for(&self, quiet: Duration) -> Option<WaitingOn> {
        match self {
            Self { turn_ended: Some(_), .. } => None,
            Self { is_between: true, .. } => Some(WaitingOn::Background),
            _ if self.open_calls.is_empty() && quiet >= MODEL_QUIET => Some(WaitingOn::Model),
            _ => None,
        }
    }

    /// Ends the turn as `ends_if_quiet` says, because nothing more was written in its time.
    pub fn end_quietly(&mut self) {
        if let Some((_, ended)) = self.ends_if_quiet.take() {
            self.see(&Observed::TurnEnded(ended), false);
        }
    }

    /// Keeps a line of standard error, in place of the oldest one.
    fn see_stderr(&mut self, line: &str) {
        if !line.trim().is_empty() {
            self.stderr.push_back(cut(line.trim().to_owned(), STDERR_MAX));
        }
        if self.stderr.len() > STDERR_LINES {
            self.stderr.pop_front();
        }
    }

    /// Takes in one observation. `in_lines`: the assistant messages are the lines of one answer.
    fn see(&mut self, observed: &Observed, in_lines: bool) {
        let is_output = matches!(
            observed,
            Observed::Entry(
                Event::AssistantMessage { .. } | Event::Thinking { .. } | Event::ToolUse { .. },
            )
        );
        if is_output {
            self.retrying = None;
        }
        if is_output || matches!(observed, Observed::InProgress(Some(_))) {
            self.ends_if_quiet = None;
            self.is_between = false;
        }
        self.model_asked |= is_output
            || match observed {
                Observed::Entry(event) => matches!(event, Event::TokenUsage { .. }),
                Observed::InProgress(text) => text.is_some(),
                Observed::Usage(usage) => usage.input_tokens > 0 || usage.output_tokens > 0,
                _ => false,
            };
        match observed {
            Observed::Retrying(fault) => self.retrying = Some(cut(fault.clone(), ERROR_MAX)),
            Observed::Entry(Event::AssistantMessage { text, continued }) => {
                let before = self.final_message.take().filter(|_| self.open || in_lines);
                self.final_message = Some(match before {
                    // The last lines of a program are its answer, and the earlier ones its progress.
                    Some(lines) if in_lines => {
                        let newline = if self.open { "" } else { "\n" };
                        let lines = lines + newline + text;
                        let is_long = lines.len() > LINES_BYTES_MAX;
                        if is_long { cut_front(lines, FINAL_MESSAGE_MAX) } else { lines }
                    }
                    begun => cut(begun.unwrap_or_default() + text, FINAL_MESSAGE_MAX),
                });
                self.open = *continued;
            }
            Observed::Entry(Event::ErrorMessage { text, error_type, resume_at }) => {
                self.last_error = Some(cut(text.clone(), ERROR_MAX));
                (self.last_error_type, self.resume_at) = (Some(*error_type), *resume_at);
            }
            Observed::Entry(Event::TokenUsage {
                input_tokens, output_tokens, cost_usd, ..
            }) => {
                let (input_tokens, output_tokens) = (*input_tokens, *output_tokens);
                let round = TokenUsage { input_tokens, output_tokens, cost_usd: *cost_usd };
                self.rounds = Some(added(self.rounds, round));
                self.usage = self.rounds;
            }
            Observed::Usage(usage) => self.usage = Some(added(self.rounds, *usage)),
            Observed::ExecutorSession(id) => {
                (self.executor_session_id, self.session_lost) = (Some(id.clone()), false);
            }
            Observed::SessionLost => (self.executor_session_id, self.session_lost) = (None, true),
            Observed::Entry(Event::ToolUse { tool_call_id, .. }) => {
                if self.open_calls.len() < CALLS_MAX {
                    self.open_calls.insert(tool_call_id.clone());
                }
            }
            Observed::Entry(Event::ToolResult { tool_call_id, .. }) => {
                self.open_calls.remove(tool_call_id);
            }
            Observed::RoundEnded => self.is_between = true,
            Observed::EndsIfQuiet(how) => self.ends_if_quiet.clone_from(how),
            // A failure that is reported after the turn has ended well does not undo that.
            Observed::TurnEnded(ended) if ended.failed && self.has_ended_well() => {}
            Observed::TurnEnded(ended) => {
                self.turn_ended = Some(ended.clone());
                self.ends_if_quiet = None;
                self.last_error_type = ended.error_type.or(self.last_error_type);
                self.resume_at = ended.resume_at.or(self.resume_at);
                self.interrupt = None;
            }
            Observed::Interrupt(message) => self.interrupt.clone_from(message),
            Observed::Say(message) => self.outbox.push_back(Outgoing::Say(message.clone())),
            Observed::Ask(request) => {
                self.outbox.push_back(Outgoing::Ask(Box::new(request.clone())));
            }
            Observed::Withdraw { key } => {
                self.outbox.push_back(Outgoing::Withdraw(key.clone()));
            }
            Observed::Entry(_) | Observed::InProgress(_) => {}
        }
    }
}

/// The sum of two usages. The cost is known only if both are.
fn added(before: Option<TokenUsage>, more: TokenUsage) -> TokenUsage {
    let Some(before) = before else { return more };
    let cost = before.cost_usd.zip(more.cost_usd).map(|(before, more)| before + more);
    TokenUsage {
        input_tokens: before.input_tokens.saturating_add(more.input_tokens),
        output_tokens: before.output_tokens.saturating_add(more.output_tokens),
        cost_usd: cost,
    }
}

/// The summary of one process, which the log's normalizer fills in and the actor reads.
pub type SharedSummary = Arc<Mutex<TurnSummary>>;

/// The executor's normalizer, with a summary of what it observes.
pub struct SummarizingNormalizer {
    inner: Box<dyn Normalizer>,
    summary: SharedSummary,
    /// The assistant messages are the lines of one answer.
    in_lines: bool,
}

impl SummarizingNormalizer {
    /// Wraps `inner` and begins it here, so that its first messages are in the summary. After a restart,
    /// [`Normalizer::restore`] replaces them by what the checkpoint has.
    pub fn new(mut inner: Box<dyn Normalizer>, summary: SharedSummary, in_lines: bool) -> Self {
        let mut opening = Vec::new();
        inner.begin(&mut opening);
        let normalizer = Self { inner, summary, in_lines };
        normalizer.see(&opening);
        normalizer
    }

    fn see(&self, observed: &[Observed]) {
        let mut summary = lock(&self.summary);
        for one in observed {
            summary.see(one, self.in_lines);
        }
    }
}

impl Normalizer for SummarizingNormalizer {
    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>) {
        if entry.stream == Stream::Stderr {
            lock(&self.summary).see_stderr(&entry.text);
        }
        let before = out.len();
        self.inner.raw(entry, out);
        self.see(&out[before..]);
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        let before = out.len();
        self.inner.end(out);
        self.see(&out[before..]);
    }

    fn checkpoint(&self) -> serde_json::Value {
        serde_json::json!({ "digest": *lock(&self.summary), "inner": self.inner.checkpoint() })
    }

    fn restore(&mut self, checkpoint: &serde_json::Value) {
        if let Ok(summary) = serde_json::from_value(checkpoint["digest"].clone()) {
            *lock(&self.summary) = summary;
        }
        self.inner.restore(&checkpoint["inner"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, continued: bool) -> Observed {
        Observed::Entry(Event::AssistantMessage { text: text.into(), continued })
    }

    #[test]
    fn the_final_message_is_the_last_one_with_its_parts_joined_and_cut() {
        let mut summary = TurnSummary::default();
        summary.see(&message("first", false), false);
        summary.see(&message("sec", true), false);
        summary.see(&message("ond", false), false);
        assert_eq!(summary.final_message.as_deref(), Some("second"));
        summary.see(&message(&"é".repeat(FINAL_MESSAGE_MAX + 1), false), false);
        let kept = summary.final_message.unwrap();
        assert_eq!(kept.chars().count(), FINAL_MESSAGE_MAX);
        assert!(kept.ends_with('…'));
    }

    #[test]
    fn a_fault_is_remembered_until_the_executor_gets_on() {
        let mut summary = TurnSummary::default();
        summary.see(&Observed::Retrying("429 rate limited".into()), false);
        let again = Observed::Entry(Event::SystemMessage { text: "attempt 2 of 10".into() });
        summary.see(&again, false);
        assert_eq!(summary.retrying.as_deref(), Some("429 rate limited"));
        summary.see(&message("Hello", false), false);
        assert_eq!(summary.retrying, None);
    }

    #[test]
    fn an_executor_without_a_word_waits_for_its_model_unless_a_tool_runs() {
        let mut summary = TurnSummary::default();
        assert_eq!(summary.waits_for(MODEL_QUIET / 2), None);
        assert_eq!(summary.waits_for(MODEL_QUIET), Some(WaitingOn::Model));
        let call = |id: &str| {
            let action = crate::event::Action {
                kind: crate::event::ActionKind::Command,
                detail: serde_json::Map::default(),
            };
            let (text, tool_name, tool_call_id) = (String::new(), "Bash".to_owned(), id.to_owned());
            Observed::Entry(Event::ToolUse { text, tool_call_id, tool_name, action })
        };
        let result = |id: &str| {
            let status = crate::event::ToolStatus::Success;
            let (text, tool_call_id) = (String::new(), id.to_owned());
            Observed::Entry(Event::ToolResult { text, tool_call_id, status, exit_code: None })
        };
        for seen in [call("a"), call("b"), result("a")] {
            summary.see(&seen, false);
            assert_eq!(summary.waits_for(MODEL_QUIET), None);
        }
        summary.see(&result("b"), false);
        assert_eq!(summary.waits_for(MODEL_QUIET), Some(WaitingOn::Model));
        summary.see(&Observed::RoundEnded, false);
        assert_eq!(summary.waits_for(Duration::ZERO), Some(WaitingOn::Background));
        summary.see(&message("again", false), false);
        assert_eq!(summary.waits_for(Duration::ZERO), None);
    }

    #[test]
    fn rounds_add_up_and_nothing_undoes_a_good_end() {
        let mut summary = TurnSummary::default();
        let used = |input_tokens, output_tokens| {
            let usage = TokenUsage { input_tokens, output_tokens, cost_usd: Some(0.25) };
            Observed::Usage(usage)
        };
        let reported = |input_tokens, output_tokens| {
            let (text, cost_usd, cached_tokens) = (String::new(), Some(0.25), None);
            Observed::Entry(Event::TokenUsage {
                text,
                input_tokens,
                output_tokens,
                cached_tokens,
                cost_usd,
            })
        };
        for seen in [used(3, 1), reported(4, 2), used(5, 1), reported(10, 3)] {
            summary.see(&seen, false);
        }
        let both = TokenUsage { input_tokens: 14, output_tokens: 5, cost_usd: Some(0.5) };
        assert_eq!(summary.usage, Some(both));
        summary.see(&Observed::TurnEnded(TurnEnded::default()), false);
        let failed = TurnEnded { failed: true, ..TurnEnded::default() };
        summary.see(&Observed::TurnEnded(failed.clone()), false);
        assert_eq!(summary.turn_ended, Some(TurnEnded::default()));

        let mut quiet = TurnSummary::default();
        quiet.see(&Observed::EndsIfQuiet(Some((1, failed.clone()))), false);
        quiet.see(&message("more", false), false);
        quiet.end_quietly();
        assert_eq!(quiet.turn_ended, None, "it went on");
        quiet.see(&Observed::EndsIfQuiet(Some((1, failed.clone()))), false);
        quiet.end_quietly();
        assert_eq!(quiet.turn_ended, Some(failed));
    }

    #[test]
    fn lines_of_one_answer_are_joined_and_lose_their_beginning() {
        let mut summary = TurnSummary::default();
        for (text, continued) in [("Summary:", false), ("- fi", true), ("xed", false), ("", false)]
        {
            summary.see(&message(text, continued), true);
        }
        assert_eq!(summary.final_message.as_deref(), Some("Summary:\n- fixed\n"));
        for _ in 0..20 {
            summary.see(&message(&"é".repeat(9000), false), true);
            assert!(summary.final_message.as_ref().is_some_and(|it| it.len() <= LINES_BYTES_MAX));
        }
        summary.see(&message("Done.", false), true);
        let kept = summary.answer().unwrap();
        assert_eq!(kept.chars().count(), FINAL_MESSAGE_MAX);
        assert!(kept.starts_with('…') && kept.ends_with("é\nDone."));
    }

    #[test]
    fn a_digest_goes_on_from_its_checkpoint() {
        struct Silent;
        impl Normalizer for Silent {
            fn raw(&mut self, _: RawEntry, _: &mut Vec<Observed>) {}
            fn end(&mut self, _: &mut Vec<Observed>) {}
        }
        let first = SharedSummary::default();
        lock(&first).see(&Observed::ExecutorSession("abc".into()), false);
        let checkpoint =
            SummarizingNormalizer::new(Box::new(Silent), first.clone(), false).checkpoint();
        let second = SharedSummary::default();
        SummarizingNormalizer::new(Box::new(Silent), second.clone(), false).restore(&checkpoint);
        assert_eq!(*lock(&second), *lock(&first));
    }
}
