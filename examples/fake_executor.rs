//! A program that Provost can run as an executor of the protocol `events`: a
//! model for adapters of your own. It needs nothing of Provost's.
//!
//! It is started in the attempt's worktree, gets its prompt on standard input
//! and its surroundings as `PROVOST_*` variables. Each line that it writes to
//! standard output is a log entry as JSON. Its exit code is the outcome.
//!
//! ```toml
//! [executors.scripted]
//! protocol = "events"
//! sandbox = "none"
//! command = ["/path/to/fake_executor"]
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const NOTES: &str = "NOTES.md";

fn main() -> Result<(), Box<dyn Error>> {
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt)?;
    let prompt = prompt.trim();

    // A follow-up names the conversation that it continues.
    let session = std::env::var("PROVOST_EXECUTOR_SESSION_ID").or_else(|_| new_session())?;
    tell(&json!({"kind": "session", "id": session}))?;

    let branch = std::env::var("PROVOST_BRANCH").unwrap_or_else(|_| "no branch".to_owned());
    tell(&json!({"kind": "thinking", "text": format!("I am on {branch}. I shall take notes.")}))?;
    take_notes(prompt)?;
    tell(&json!({"kind": "assistant_message", "text": format!("I wrote {NOTES}: {prompt}")}))?;
    tell(&json!({"kind": "token_usage", "input_tokens": prompt.len(), "output_tokens": 12}))?;

    if prompt.starts_with("hang") {
        tell(&json!({"kind": "system_message", "text": "Now I wait for a signal."}))?;
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

/// A tool call and its result are two entries with the same `tool_call_id`.
fn take_notes(prompt: &str) -> Result<(), Box<dyn Error>> {
    tell(&json!({
        "kind": "tool_use", "tool_call_id": "1", "tool_name": "write",
        "action": {"type": "file_edit", "path": NOTES},
    }))?;
    let written = File::create(NOTES).and_then(|mut notes| writeln!(notes, "{prompt}"));
    let (status, text) = match &written {
        Ok(()) => ("success", String::new()),
        Err(error) => ("failed", error.to_string()),
    };
    tell(&json!({"kind": "tool_result", "tool_call_id": "1", "status": status, "text": text}))?;
    Ok(written?)
}

fn new_session() -> Result<String, Box<dyn Error>> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(format!("{}-{}", since.as_millis(), std::process::id()))
}

/// Flushed line by line: entries are read as they come.
fn tell(entry: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{entry}")?;
    out.flush()
}
