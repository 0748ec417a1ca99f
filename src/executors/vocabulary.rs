//! What the CLIs have in common: the words of errors, when a limit ends, how tokens are counted, and the
//! ends of turns. Pure.

use provost_actors::event::{Action, ErrorType, Event, Timestamp, TokenUsage};
use provost_actors::executor::{Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::title;
use crate::executors::json::Out;

/// Words in errors of each kind, in lower case and separated by `|`. The first row that matches counts,
/// so the order matters.
const ERROR_WORDS: &[(ErrorType, &str)] = &[
    (ErrorType::Quota, "rate limit|rate_limit|ratelimit|usage limit|session limit|limit reached"),
    (ErrorType::Quota, "spend limit|out of usage|quota|resource_exhausted|too many requests"),
    (ErrorType::Quota, "credit balance|billing"),
    (ErrorType::Auth, "authenticat|unauthorized|unauthenticated|forbidden|api key|api_key|apikey"),
    (ErrorType::Auth, "api-key|logged in|log in|login|sign in|oauth|credential|auth method"),
    (ErrorType::Overloaded, "overloaded|internal server error|internal error|server_error"),
    (ErrorType::Overloaded, "bad gateway|unavailable|gateway timeout|high demand|at capacity"),
    (ErrorType::Setup, "enoent|command not found|not installed|configuration|unknown argument"),
    (ErrorType::Setup, "unknown option"),
];

/// Phrases that say that a conversation no longer fits into its model's context. They count before the
/// HTTP status, which is that of a bad request.
const CONTEXT_WORDS: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context length exceeded",
    "context_length_exceeded",
    "exceeds the context window",
    "model's context window",
    "context window exceeded",
    "exceeds the maximum number of tokens",
    "session too large",
];

/// The kind of an error: by the HTTP status of the model's server, given or in the text, else by the
/// text's words.
pub fn error_type(status: Option<u16>, text: &str) -> ErrorType {
    let text = text.to_lowercase();
    let holds = |words: &str| words.split('|').any(|word| text.contains(word));
    if CONTEXT_WORDS.iter().any(|words| text.contains(words)) {
        return ErrorType::Context;
    }
    let status = status.or_else(|| status_in(&text));
    match status {
        Some(401 | 403) => return ErrorType::Auth,
        Some(402 | 429) => return ErrorType::Quota,
        // Some agents report 500 for whatever their model's server refused.
        Some(500..=599) if is_no_model(&text) => return ErrorType::Setup,
        Some(500..=599) => return ErrorType::Overloaded,
        _ => {}
    }
    match ERROR_WORDS.iter().find(|(_, words)| holds(words)).map(|(kind, _)| *kind) {
        // A wrong model's name outranks the text's other words, such as "internal error".
        Some(ErrorType::Overloaded) | None if is_no_model(&text) => ErrorType::Setup,
        Some(kind) => kind,
        // A model's server answers 404 for a wrong name or address.
        None if status == Some(404) => ErrorType::Setup,
        None => ErrorType::Other,
    }
}

/// Whether a text in lower case says that the model does not exist.
fn is_no_model(text: &str) -> bool {
    const WORDS: &str = "model_not_found|modelnotfound|unknown model|no model|invalid model|\
        issue with the selected model";
    const MISSING: &str = "not found|does not exist";
    let holds = |text: &str, words: &str| words.split('|').any(|word| text.contains(word));
    let after = text.split_once("model").map_or("", |(_, rest)| rest);
    holds(text, WORDS) || holds(after, MISSING)
}

/// The message in the JSON answer of a model's server; a text of another form is returned as it is.
pub fn inner_message(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    answer["error"]["message"].as_str().unwrap_or(text).to_owned()
}

/// The HTTP status in a text: `API Error: 429 …`, `status 503`, `429 …`.
fn status_in(text: &str) -> Option<u16> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut before = "error";
    for word in words {
        let is_status = matches!(before, "error" | "status" | "code" | "http" | "statuscode");
        match word.parse() {
            Ok(status @ 400..=599) if is_status => return Some(status),
            _ => before = word,
        }
    }
    None
}

/// When a limit ends, as a text says it: a duration from `now`, seconds since 1970 after a `|`, or a time
/// in RFC 3339. Only a time after `now` counts.
pub fn resume_at(text: &str, now: Timestamp) -> Option<Timestamp> {
    const IN: &str = "again in|retry in|retry after|retry-after|retrydelay|resets in|reset in|\
        reset after";
    let text = text.to_lowercase();
    let after = |word: &str| text.split_once(word).map(|(_, rest)| rest.to_owned());
    let millis = IN.split('|').find_map(after).and_then(|rest| duration(&rest));
    let from_now = millis.map(|millis| Timestamp::from_millis(now.millis().saturating_add(millis)));
    let found = from_now.or_else(|| epoch(&text)).or_else(|| moment(&text));
    found.filter(|at| *at > now)
}

/// Reads `…|1755806400`.
fn epoch(text: &str) -> Option<Timestamp> {
    let digits = |rest: &str| -> String { rest.chars().take_while(char::is_ascii_digit).collect() };
    text.split('|').skip(1).find_map(|rest| from_epoch(digits(rest).parse().ok()?))
}

/// A time in seconds or milliseconds since 1970, told apart by the number's size; `None` for numbers
/// before 2001 or after 2286.
pub fn from_epoch(number: i64) -> Option<Timestamp> {
    match number {
        1_000_000_000..10_000_000_000 => Some(Timestamp::from_millis(number * 1000)),
        1_000_000_000_000..10_000_000_000_000 => Some(Timestamp::from_millis(number)),
        _ => None,
    }
}

/// Reads `… resets at 2026-11-22T15:00:00Z`.
fn moment(text: &str) -> Option<Timestamp> {
    let (_, rest) = ["reset", "again", "until"].iter().find_map(|word| text.split_once(word))?;
    let words = rest.split(|c: char| c.is_whitespace() || "\"'(),".contains(c));
    let texts = words.map(|word| Value::from(word.trim_end_matches('.').to_uppercase()));
    texts.into_iter().find_map(|text| serde_json::from_value(text).ok())
}

/// The milliseconds of `1h 2m 3.5s`, `2 days and 3 hours` or `30` (seconds); `None`: no number comes
/// first. A word that is no unit counts as seconds.
fn duration(text: &str) -> Option<i64> {
    let mut rest = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut total = None;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else { return total };
        rest = rest[end..].trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" | "millis" | "milliseconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            _ => 1000.0,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a cast from f64 saturates")]
        let millis = (number * unit) as i64;
        total = Some(total.unwrap_or(0_i64).saturating_add(millis));
        rest = rest[end..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
}

/// The tokens of a turn. CLIs differ in whether their input includes cached tokens; here `input` does,
/// and `cached` is that part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    /// US dollars; `None`: not known.
    pub cost_usd: Option<f64>,
}

impl Tokens {
    /// The sum of both. A cost that is known on one side only counts as the whole cost.
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            },
        }
    }

    /// Reports them as what a running turn has used so far.
    pub fn so_far(self) -> Observed {
        let Self { input: input_tokens, output: output_tokens, cost_usd, .. } = self;
        Observed::Usage(TokenUsage { input_tokens, output_tokens, cost_usd })
    }

    /// Reports them as the turn's usage, with a `token_usage` entry; nothing if all are zero.
    pub fn report(self, out: &mut Out) {
        let is_free = self.cost_usd.is_none_or(|cost| cost <= 0.0);
        if self.input == 0 && self.output == 0 && is_free {
            return;
        }
        let Self { input: input_tokens, output: output_tokens, cached, cost_usd } = self;
        out.push(self.so_far());
        out.push(Observed::Entry(Event::TokenUsage {
            text: String::new(),
            input_tokens,
            output_tokens,
            cached_tokens: Some(cached),
            cost_usd,
        }));
    }
}

/// The entry of a tool call. Its text is left out where it would only repeat the tool's name.
pub fn tool_use(id: &str, tool_name: &str, action: Action) -> Observed {
    let title = title(tool_name, &action);
    Observed::Entry(Event::ToolUse {
        text: if title == tool_name { String::new() } else { title },
        tool_call_id: id.to_owned(),
        tool_name: tool_name.to_owned(),
        action,
    })
}

/// Ends a turn that failed, with an error entry. `status`: the HTTP status, if known. `limit`: when the
/// limit ends that caused the failure, if the CLI said so apart from the error.
pub fn fail(
    error: String,
    status: Option<u16>,
    limit: Option<Timestamp>,
    at: Timestamp,
    out: &mut Out,
) {
    let kind = error_type(status, &error);
    let is_limit = kind == ErrorType::Quota;
    let resume_at = limit.or_else(|| resume_at(&error, at)).filter(|_| is_limit);
    fail_as(error, kind, resume_at, out);
}

/// Whether the CLI says that it does not know the session to resume. After any other error the session
/// is kept, because the next try may succeed.
pub fn is_lost_session(error: &str) -> bool {
    contains_any(error, &LOST_SESSION)
}

/// Whether a text contains one of these phrases; upper and lower case are equal.
pub fn contains_any(text: &str, words: &[impl AsRef<str>]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|words| text.contains(&words.as_ref().to_lowercase()))
}

/// What the CLIs say when they do not know a session.
const LOST_SESSION: [&str; 8] = [
    // Claude Code 2.0 to 2.1.
    "no conversation found",
    // `thread/resume` of Codex 0.98 to 0.169.
    "no rollout found",
    // `turn/start` of the same.
    "thread not found",
    // ACP agents.
    "no saved session found",
    "session not found",
    "no previous sessions found",
    "resource not found: session",
    "unknown session",
];

/// Ends a turn with a failure of this kind.
pub fn fail_as(error: String, error_type: ErrorType, resume_at: Option<Timestamp>, out: &mut Out) {
    let text = error.clone();
    out.push(Observed::Entry(Event::ErrorMessage { text, error_type, resume_at }));
    let (error, error_type) = (Some(error), Some(error_type));
    out.push(Observed::TurnEnded(TurnEnded { failed: true, error, error_type, resume_at }));
}

/// The end of a turn whose CLI ended without its final event: a failure, whatever the exit code.
pub fn unended() -> Observed {
    Observed::TurnEnded(TurnEnded { failed: true, ..TurnEnded::default() })
}

/// When an agent's last work in the background has ended, the agent begins its next round at once. If it
/// is quiet for so many seconds instead, its turn has ended.
pub const QUIET_SECS: u64 = 30;

/// The log's entry between two rounds of a turn, with the names of the work in the background.
pub fn goes_on<'a>(background: impl Iterator<Item = &'a String>) -> Observed {
    super::json::system(format!("goes on by itself when this has ended: {}", names(background)))
}

/// The end of a turn whose CLI ended while its agent still had work in the background: a failure.
pub fn cut_off<'a>(background: impl Iterator<Item = &'a String>) -> Observed {
    let error = format!("what ran in the background was cut off: {}", names(background));
    Observed::TurnEnded(TurnEnded { failed: true, error: Some(error), ..TurnEnded::default() })
}

fn names<'a>(background: impl Iterator<Item = &'a String>) -> String {
    background.map(String::as_str).collect::<Vec<_>>().join("; ")
}

/// The end of a turn that was interrupted or cancelled; `how` is the word for it.
pub fn stopped(how: &str) -> Observed {
    let error = Some(format!("the turn was {how}"));
    Observed::TurnEnded(TurnEnded { failed: true, error, ..TurnEnded::default() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_are_sorted_by_status_or_else_by_text() {
        for (status, text, kind) in [
            (Some(401), "", ErrorType::Auth),
            (Some(429), "", ErrorType::Quota),
            (Some(529), "", ErrorType::Overloaded),
            (Some(404), "model: x", ErrorType::Setup),
            (Some(400), "invalid request", ErrorType::Other),
            (None, "API Error: 429 mock: rate limited", ErrorType::Quota),
            (None, "429 mock", ErrorType::Quota),
            (None, "[API Error: 503 Service]", ErrorType::Overloaded),
            (None, "Claude AI usage limit reached|1755806400", ErrorType::Quota),
            (None, "Invalid API key · Please run /login", ErrorType::Auth),
            (None, "{\"type\":\"overloaded_error\"}", ErrorType::Overloaded),
            (None, "spawn rg ENOENT", ErrorType::Setup),
            (None, "waited 500 ms", ErrorType::Other),
            (None, "{\"message\":\"invalid x-api-key\"}", ErrorType::Auth),
            (Some(500), "model not found: nope", ErrorType::Setup),
            (Some(500), "models/nope is not found for API version v1beta", ErrorType::Setup),
            (Some(503), "The model is overloaded.", ErrorType::Overloaded),
            (None, "Internal error: the model nope does not exist", ErrorType::Setup),
            (None, "Error: The requested model is not there (HTTP 404)", ErrorType::Setup),
            (Some(400), "prompt is too long: 210000 tokens > 200000 maximum", ErrorType::Context),
            (None, "This model's maximum context length is 200000 tokens", ErrorType::Context),
            (
                Some(400),
                "The input token count (9) exceeds the maximum number of tokens allowed (8)",
                ErrorType::Context,
            ),
            (None, "Codex ran out of room in the model's context window.", ErrorType::Context),
            (None, "Session too large to compact", ErrorType::Context),
            (Some(429), "too many tokens per minute", ErrorType::Quota),
            (None, "copied 404 files", ErrorType::Other),
            (None, "", ErrorType::Other),
        ] {
            assert_eq!(error_type(status, text), kind, "{status:?} {text}");
        }
    }

    #[test]
    fn the_end_of_a_limit_is_found_in_the_ways_it_is_written() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let after = |text: &str| resume_at(text, now).map(|at| (at.millis() - now.millis()) / 100);
        assert_eq!(after("Claude AI usage limit reached|1700003600"), Some(36_000));
        assert_eq!(after("limit reached|1700003600000."), Some(36_000));
        assert_eq!(after("Please try again in 20s"), Some(200));
        assert_eq!(after("Please retry in 34.5s."), Some(345));
        assert_eq!(after("Retry-After: 30"), Some(300));
        assert_eq!(after("\"retryDelay\": \"34s\""), Some(340));
        assert_eq!(after("try again in 1 day, 2 hours and 3 minutes."), Some(937_800));
        assert_eq!(after("Your quota will reset after 1h2m3s."), Some(37_230));
        assert_eq!(after("it resets at 2023-11-14T22:13:21Z."), Some(10));
        assert_eq!(after("usage limit reached|1600000000"), None, "it is over");
        assert_eq!(after("rate limited, try again in a moment"), None);
        assert_eq!(after("resets 3pm (Europe/Berlin)"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,60}", word in "(retry after|again in|resets?|\\|) ?", rest in "[0-9.hms: TZ-]{0,30}.{0,9}") {
            let now = Timestamp::from_millis(0);
            for text in [format!("{text}{word}{rest}"), text] {
                resume_at(&text, now);
                error_type(None, &text);
                crate::executors::action::action(&text, &Value::from(text.clone()));
            }
        }
    }
}
