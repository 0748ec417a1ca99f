//! What an attempt's log is made of: raw lines and normalized entries. Pure data.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Datelike, SecondsFormat, Timelike, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::ProcessId;

/// A moment; RFC 3339 in UTC with milliseconds where it is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    /// The wall clock's time, cut to milliseconds. It may go back when the clock is set.
    #[must_use]
    pub fn now() -> Self {
        Self::from_millis(Utc::now().timestamp_millis())
    }

    /// From milliseconds since 1970. What is out of chrono's range becomes 1970.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(DateTime::from_timestamp_millis(millis).unwrap_or_default())
    }

    /// The moment after so much time.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.millis().saturating_add(millis))
    }

    /// The time from an earlier moment to this one; zero if that moment is later.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.millis().saturating_sub(earlier.millis());
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    /// The text of a moment, written by hand because each entry of a log has one. `None` for a year that
    /// has not four digits: then chrono writes it.
    fn text(self) -> Option<[u8; 24]> {
        // Without the time zone: chrono would apply it again for each part.
        let time = self.0.naive_utc();
        let year = u32::try_from(time.year()).ok().filter(|year| *year <= 9999)?;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |end: usize, digits: usize, mut number: u32| {
            for digit in text[end - digits..end].iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
        };
        put(4, 4, year);
        put(7, 2, time.month());
        put(10, 2, time.day());
        put(13, 2, time.hour());
        put(16, 2, time.minute());
        put(19, 2, time.second());
        put(23, 3, time.nanosecond() / 1_000_000);
        Some(text)
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0.timestamp_millis()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?),
            None => f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true)),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text().as_ref().map(|text| str::from_utf8(text)) {
            Some(Ok(text)) => serializer.serialize_str(text),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Moment)
    }
}

/// Reads a moment from its text, or from the milliseconds since 1970 that a database has.
struct Moment;

impl serde::de::Visitor<'_> for Moment {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time, RFC 3339")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let time = DateTime::parse_from_rfc3339(text).map_err(E::custom)?;
        Ok(Timestamp::from_millis(time.timestamp_millis()))
    }

    fn visit_i64<E>(self, millis: i64) -> Result<Timestamp, E> {
        Ok(Timestamp::from_millis(millis))
    }

    fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<Timestamp, E> {
        i64::try_from(millis).map(Timestamp::from_millis).map_err(E::custom)
    }
}

/// A log channel of an attempt: `raw` has lines, `normalized` has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Normalized,
    Raw,
}

/// An output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// One line, or one part of a line longer than 64 KiB, of the raw channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawEntry {
    pub entry_index: u64,
    pub at: Timestamp,
    pub execution_process_id: ProcessId,
    pub stream: Stream,
    /// The line without its `\n` and one `\r` before it; invalid UTF-8 is U+FFFD.
    pub text: String,
    /// More of the same line follows in the stream's next entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continued: bool,
    /// `text` has U+FFFD in place of bytes that are not UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

/// One entry of the normalized channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalizedEntry {
    pub entry_index: u64,
    pub at: Timestamp,
    pub execution_process_id: ProcessId,
    /// The turn (one prompt and what it caused) within the attempt, from 1.
    pub turn: u32,
    #[serde(flatten)]
    pub event: Event,
}

/// A kind of entry with its own fields. Each has a `text` to show, which may be empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    UserMessage {
        text: String,
    },
    AssistantMessage {
        text: String,
        /// More of the same line follows (lines over 64 KiB of a plain executor).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continued: bool,
    },
    Thinking {
        text: String,
    },
    ToolUse {
        #[serde(default)]
        text: String,
        tool_call_id: String,
        tool_name: String,
        action: Action,
    },
    ToolResult {
        #[serde(default)]
        text: String,
        tool_call_id: String,
        status: ToolStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    TokenUsage {
        #[serde(default)]
        text: String,
        input_tokens: u64,
        output_tokens: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cached_tokens: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    ErrorMessage {
        text: String,
        error_type: ErrorType,
        /// When the limit that it reports ends, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_at: Option<Timestamp>,
    },
    SystemMessage {
        text: String,
    },
    ProcessStart {
        #[serde(default)]
        text: String,
        command: Vec<String>,
        run_reason: RunReason,
    },
    ProcessEnd {
        #[serde(default)]
        text: String,
        exit_code: Option<i32>,
        exit_signal: Option<i32>,
        status: ProcessStatus,
    },
}

/// What a tool call does, as far as its name and arguments show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    #[serde(rename = "type")]
    pub kind: ActionKind,
    /// What the kind adds: `path`, `command`, `query`, `url`, …
    #[serde(flatten)]
    pub detail: serde_json::Map<String, serde_json::Value>,
}

impl Action {
    /// Most bytes of one value of `detail`.
    pub const VALUE_MAX: usize = 16 * 1024;

    /// The action with each value cut to [`Self::VALUE_MAX`], and with `truncated: true` if one was cut.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let mut is_cut = false;
        for value in self.detail.values_mut() {
            let size = value.as_str().map_or_else(|| value.to_string().len(), str::len);
            if size > Self::VALUE_MAX {
                let mut text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.truncate(text.floor_char_boundary(Self::VALUE_MAX));
                (*value, is_cut) = (text.into(), true);
            }
        }
        if is_cut {
            self.detail.insert("truncated".to_owned(), true.into());
        }
        self
    }
}

/// The kinds of what a tool call does, for all executors alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    FileRead,
    FileEdit,
    Command,
    Search,
    WebFetch,
    Mcp,
    Todo,
    Plan,
    Task,
    Other,
}

/// How a tool call ended. `Denied`: it was not permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Success,
    Failed,
    Denied,
}

/// What kind of fault ended a turn or a request to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The executor has no valid login.
    Auth,
    /// A rate limit or a spent budget.
    Quota,
    /// The service of the model is overloaded, and may work again soon.
    Overloaded,
    /// The process could not be started, or is set up wrongly: no such program, option or model.
    Setup,
    /// The conversation does not fit the model any more: only a new session can continue.
    Context,
    Other,
}

/// Why a process was started for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunReason {
    CodingAgent,
    SetupScript,
    CleanupScript,
    DevServer,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStatus {
    /// Chosen and written down, and not started yet.
    Planned,
    Running,
    Completed,
    Failed,
    /// A stop of Provost ended it.
    Killed,
}

/// Tokens and cost, as the executor reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_rfc_3339_has_it() {
        let year = 31_556_952_000_i64;
        for millis in (-2200..9000).map(|years| years * year + years * 86_461_007) {
            let moment = Timestamp::from_millis(millis);
            let expected = moment.0.to_rfc3339_opts(SecondsFormat::Millis, true);
            assert_eq!(moment.to_string(), expected);
            assert_eq!(serde_json::to_string(&moment).unwrap(), format!("\"{expected}\""));
        }
    }

    #[test]
    fn a_moment_is_read_from_its_text_and_from_the_milliseconds_of_a_database() {
        let moment = Timestamp::from_millis(1_700_000_000_123);
        let text = serde_json::to_string(&moment).unwrap();
        assert_eq!(text, "\"2023-11-14T22:13:20.123Z\"");
        for written in [&*text, "1700000000123", "\"2023-11-14T23:13:20.123+01:00\""] {
            assert_eq!(serde_json::from_str::<Timestamp>(written).unwrap(), moment, "{written}");
        }
        assert_eq!(serde_json::from_str::<Timestamp>("-1").unwrap(), Timestamp::from_millis(-1));
        for wrong in ["\"yesterday\"", "1.5", "18446744073709551615", "null"] {
            assert!(serde_json::from_str::<Timestamp>(wrong).is_err(), "{wrong}");
        }
    }
}
