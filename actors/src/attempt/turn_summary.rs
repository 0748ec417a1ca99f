//! The few facts of a turn's log that an attempt's status shows. A normalizer around the
//! executor's own sees every entry, so the log's checkpoints keep and restore these facts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::blocking::lock;
use crate::event::{ErrorType, Event, RawEntry, Stream, Timestamp, TokenUsage};
use crate::executor::{Message, Normalizer, Observed, Request, TurnEnded};
use crate::text::{cut, cut_front};

/// Longest final message kept, in characters.
const FINAL_MESSAGE_MAX: usize = 16_000;

/// Lines are cut at so many bytes, so that a flood of short ones is not counted each time.
const LINES_BYTES_MAX: usize = 8 * FINAL_MESSAGE_MAX;

/// Longest error kept, in characters.
const ERROR_MAX: usize = 2000;

/// The last lines of standard error that are kept, and the longest, in characters.
const STDERR_LINES: usize = 3;
const STDERR_MAX: usize = 400;

/// The facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnSummary {
    /// The last assistant message, or all of them where they are the lines of one answer.
    pub(super) final_message: Option<String>,
    /// More parts of that message follow.
    #[serde(default)]
    pub(super) open: bool,
    pub last_error: Option<String>,
    #[serde(default)]
    pub last_error_type: Option<ErrorType>,
    #[serde(default)]
    pub resume_at: Option<Timestamp>,
    /// The fault after which the executor tries again, until it makes progress.
    #[serde(default)]
    pub retrying: Option<String>,
    pub executor_session_id: Option<String>,
    /// The session to resume is gone.
    #[serde(default)]
    pub session_lost: bool,
    pub usage: Option<TokenUsage>,
    /// The model has produced output or used tokens.
    #[serde(default = "unknown")]
    pub model_asked: bool,
    /// The last lines of standard error.
    #[serde(default)]
    pub stderr: VecDeque<String>,
    pub turn_ended: Option<TurnEnded>,
    /// What interrupts the turn, if not a signal.
    #[serde(default)]
    pub interrupt: Option<Message>,
    /// Steps of the conversation that have not been taken yet.
    #[serde(default)]
    pub outbox: VecDeque<Outgoing>,
}

/// A step of a two-way conversation, taken once for its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outgoing {
    Say(Message),
    Ask(Request),
    Withdraw(String),
}

/// For a turn that began before this was noted.
fn unknown() -> bool {
    true
}

impl TurnSummary {
    /// The agent's answer so far: 16,000 characters at most.
    pub fn answer(&self) -> Option<String> {
        self.final_message.clone().map(|lines| cut_front(lines, FINAL_MESSAGE_MAX))
    }

    fn see_stderr(&mut self, line: &str) {
        if !line.trim().is_empty() {
            self.stderr.push_back(cut(line.trim().to_owned(), STDERR_MAX));
        }
        if self.stderr.len() > STDERR_LINES {
            self.stderr.pop_front();
        }
    }

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
                    // The last lines of a program are its answer, the earlier ones its progress.
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
                self.usage = Some(TokenUsage { input_tokens, output_tokens, cost_usd: *cost_usd });
            }
            Observed::Usage(usage) => self.usage = Some(*usage),
            Observed::ExecutorSession(id) => {
                (self.executor_session_id, self.session_lost) = (Some(id.clone()), false);
            }
            Observed::SessionLost => (self.executor_session_id, self.session_lost) = (None, true),
            Observed::TurnEnded(ended) => {
                self.turn_ended = Some(ended.clone());
                self.last_error_type = ended.error_type.or(self.last_error_type);
                self.resume_at = ended.resume_at.or(self.resume_at);
                self.interrupt = None;
            }
            Observed::Interrupt(message) => self.interrupt.clone_from(message),
            Observed::Say(message) => self.outbox.push_back(Outgoing::Say(message.clone())),
            Observed::Ask(request) => self.outbox.push_back(Outgoing::Ask(request.clone())),
            Observed::Withdraw { key } => {
                self.outbox.push_back(Outgoing::Withdraw(key.clone()));
            }
            Observed::Entry(_) | Observed::InProgress(_) => {}
        }
    }
}

/// The summary of a process so far.
pub type SharedSummary = Arc<Mutex<TurnSummary>>;

/// The executor's normalizer with the summary beside it.
pub struct SummarizingNormalizer {
    inner: Box<dyn Normalizer>,
    summary: SharedSummary,
    /// Its assistant messages are the lines of one answer.
    in_lines: bool,
}

impl SummarizingNormalizer {
    /// `inner` begins here: a [restored](Normalizer::restore) one has forgotten it.
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
