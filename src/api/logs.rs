//! What an attempt's executor said and did.

use provost_actors::event::{Channel, NormalizedEntry, RawEntry};
use provost_actors::executor::InProgress;
use provost_actors::log::{Entry, PagePosition};

use crate::api::Refusable;
use crate::api::prelude::*;

/// The description of `tail_attempt_logs`, by which a model decides whether to call it.
pub const TAIL_ATTEMPT_LOGS: &str = "\
Use when: you want to read what an attempt's agent says and does, or only what is new.
Optional: channel, limit, max_bytes, cursor or after_entry_index (never both).
Next: the same with after_entry_index = latest_entry_index for news; get_attempt_status.
Avoid: reading the newest page repeatedly.";

/// `cursor` reads older pages and `after_entry_index` newer ones, so they exclude each other.
pub const TAIL_RULES: &[FieldRule] = &[FieldRule::Apart(&["cursor"], &["after_entry_index"])];

/// At most one of `cursor` and `after_entry_index` is there.
#[apply(input)]
pub struct TailAttemptLogsInput {
    pub attempt_id: AttemptId,
    /// normalized (messages, tool calls, results) or raw (lines as written).
    #[serde(default = "normalized")]
    pub channel: Channel,
    /// 1000 at most; 50 of normalized or 200 of raw if left out.
    limit: Option<Limit<50, 1000>>,
    /// Most bytes, 1048576 at most; one entry always fits.
    pub max_bytes: Limit<16_384, 1_048_576>,
    /// Older page: the entries before this index, a next_cursor; not with after_entry_index.
    cursor: Option<Index>,
    /// Newer page: the first entries after this index; -1 from the beginning; not with cursor.
    after_entry_index: Option<After>,
}

impl TailAttemptLogsInput {
    /// The position of the page that the call asks for: before an entry, after one, or the newest.
    pub fn page(&self) -> PagePosition {
        match (self.cursor, self.after_entry_index) {
            (Some(cursor), _) => PagePosition::Before(cursor.get().unsigned_abs()),
            (None, Some(after)) => PagePosition::After(after.get()),
            (None, None) => PagePosition::Newest,
        }
    }

    /// The most entries of the page; the default depends on the channel.
    pub fn limit(&self) -> usize {
        let default = match self.channel {
            Channel::Normalized => 50,
            Channel::Raw => 200,
        };
        self.limit.map_or(default, Limit::get)
    }
}

fn normalized() -> Channel {
    Channel::Normalized
}

#[apply(output)]
pub struct TailAttemptLogsOutput {
    pub attempt_id: AttemptId,
    /// Its latest process, a UUID; null before the first.
    pub execution_process_id: Option<ProcessId>,
    /// normalized or raw.
    pub channel: Channel,
    /// The entries, oldest first.
    #[schemars(with = "Vec<LogEntry>")]
    pub entries: Vec<Entry>,
    /// Give it as cursor to get older entries; null if there are none.
    pub next_cursor: Option<u64>,
    /// Whether there are more in reading direction: newer with after_entry_index, else older.
    pub has_more: bool,
    /// Whether the oldest entries were deleted.
    pub history_truncated: bool,
    /// Index of the oldest entry held; null if there is none.
    pub oldest_entry_index: Option<u64>,
    /// Index of the newest entry; give it as after_entry_index. Null if there is none.
    pub latest_entry_index: Option<u64>,
    /// The message being written right now; null if there is none.
    #[schemars(with = "Option<InProgressSchema>")]
    pub in_progress: Option<InProgress>,
    /// The attempt's host if that is lost: it has later entries.
    pub lost_host: Option<String>,
}

/// What an entry of either channel says. The tools answer the entry as it is kept: it is not read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LogEntry {
    Raw(RawEntry),
    Normalized(NormalizedEntry),
}

impl LogEntry {
    /// Reads a stored entry of a channel. Fails if the entry is damaged.
    pub fn read(channel: Channel, entry: &Entry) -> Refusable<Self> {
        let read = match channel {
            Channel::Raw => entry.parse().map(Self::Raw),
            Channel::Normalized => entry.parse().map(Self::Normalized),
        };
        read.map_err(|error| Refusal::internal(format!("an entry can't be read: {error}")))
    }
}

/// The schema of `InProgress`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "stands for a type of a crate that knows no schemas")]
struct InProgressSchema {
    /// Kind of the entry that it will become.
    kind: String,
    /// The tail of its text.
    text: String,
}

// One flat object with the fields of all kinds: it is far shorter than a union, and a reader looks at `kind`
// first in any case.
schema!([] LogEntry, |_| {
    let text = |says: &str| json_schema!({ "type": "string", "description": says });
    let number = |says: &str| json_schema!({ "type": "integer", "description": says });
    let flag = |says: &str| json_schema!({ "type": "boolean", "description": says });
    json_schema!({
        "type": "object",
        "required": ["entry_index", "at", "execution_process_id", "text"],
        "properties": {
            "entry_index": number("Index in its channel, counted over the whole attempt."),
            "at": text("When it was written, RFC 3339 UTC."),
            "execution_process_id": text("Process that wrote it, a UUID."),
            "text": text("The line, or what to show for the entry."),
            "stream": text("raw: stdout or stderr."),
            "continued": flag("The next entry of the stream goes on with the same line."),
            "lossy": flag("raw: the line had bytes that are not UTF-8."),
            "turn": number("normalized: number of the turn, from 1."),
            "kind": text("normalized: user_message, assistant_message, thinking, tool_use, tool_result, token_usage, error_message, system_message, process_start or process_end."),
            "tool_call_id": text("tool_use, tool_result: ties the two together."),
            "tool_name": text("tool_use: name of the agent's tool."),
            "action": {
                "type": "object",
                "description": "tool_use: what the call does.",
                "properties": {
                    "type": text("file_read, file_edit, command, search, web_fetch, mcp, todo, plan, task or other; further fields by type."),
                },
            },
            "status": text("tool_result: success, failed or denied. process_end: completed, failed or killed."),
            "exit_code": { "type": ["integer", "null"], "description": "Exit code of the command or process." },
            "exit_signal": { "type": ["integer", "null"], "description": "process_end: number of the signal." },
            "input_tokens": number("token_usage: tokens read."),
            "output_tokens": number("token_usage: tokens written."),
            "cached_tokens": number("token_usage: tokens read from a cache."),
            "cost_usd": { "type": "number", "description": "token_usage: cost in US dollars." },
            "error_type": text("error_message: auth, quota, overloaded, setup or other."),
            "command": {
                "type": "array",
                "items": { "type": "string" },
                "description": "process_start: program and arguments.",
            },
            "run_reason": text("process_start: coding_agent, setup_script, cleanup_script or dev_server."),
        },
    })
});

tools! { LogTools: read tail_attempt_logs(TailAttemptLogsInput) -> TailAttemptLogsOutput; }
