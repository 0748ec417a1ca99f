//! `provost logs`: an attempt's log from its beginning to its end, page by
//! page, and on as it grows.

use std::time::Duration;

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::render;

/// Asked for at once; the tool gives less when it must.
const PAGE_ENTRIES: u64 = 1000;
const PAGE_BYTES: u64 = 1 << 20;

/// Between two looks at an attempt that says nothing.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(clap::Args, Debug)]
pub struct LogsArgs {
    /// The attempt's id, or 8 or more characters of its start or end [default: the newest
    /// attempt]
    attempt: Option<String>,
    /// Follow until it settles; Ctrl-C stops following, not the attempt
    #[arg(short, long)]
    follow: bool,
    /// The executor's own output instead of entries; verbatim when stdout is not a terminal
    #[arg(long)]
    raw: bool,
    /// Only the newest N entries, and with --follow those that come after them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

pub async fn logs(context: &mut Context, args: LogsArgs) -> Result<Exit, Failure> {
    let attempt = match &args.attempt {
        Some(attempt) => context.attempt(attempt).await?,
        None => context.newest_attempt().await?,
    };
    let channel = if args.raw { Channel::Raw } else { Channel::Normalized };
    let mut reader = Reader { channel, ..Reader::new(&attempt) };
    if let Some(limit) = args.limit {
        reader.skip_to_newest(context, limit).await?;
    }
    if args.follow {
        reader.follow(context).await?;
    } else {
        while reader.page(context).await?.has_more {}
    }
    Ok(Exit::Done)
}

/// Prints the normalized log until the attempt has settled; returns its status.
pub async fn follow(context: &mut Context, attempt: &str) -> Result<Value, Failure> {
    Reader::new(attempt).follow(context).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Normalized,
    Raw,
}

/// Where in an attempt's log we are.
pub struct Reader {
    attempt: String,
    channel: Channel,
    /// The index of the entry printed last; -1 before the first.
    after: i64,
}

struct Page {
    entries: Vec<Value>,
    has_more: bool,
}

impl Reader {
    /// At the beginning of the normalized log.
    pub fn new(attempt: &str) -> Self {
        Self { attempt: attempt.to_owned(), channel: Channel::Normalized, after: -1 }
    }

    fn arguments(&self) -> Value {
        json!({"attempt_id": self.attempt, "channel": self.channel_name()})
    }

    fn channel_name(&self) -> &'static str {
        match self.channel {
            Channel::Normalized => "normalized",
            Channel::Raw => "raw",
        }
    }

    /// Everything that was there when the status was told has been printed. What
    /// a settled attempt's leftovers write on is not waited for.
    fn has_come_to(&self, status: &Value) -> bool {
        let latest = status["latest_entry_index"][self.channel_name()].as_i64();
        self.after >= latest.unwrap_or(-1)
    }

    async fn skip_to_newest(&mut self, context: &mut Context, count: u32) -> Result<(), Failure> {
        let mut arguments = self.arguments();
        arguments["limit"] = json!(1);
        let newest = context.read("tail_attempt_logs", &arguments).await?;
        let latest = newest["latest_entry_index"].as_i64().unwrap_or(-1);
        self.after = (latest - i64::from(count)).max(-1);
        Ok(())
    }

    /// Prints the next page.
    async fn page(&mut self, context: &mut Context) -> Result<Page, Failure> {
        let mut arguments = self.arguments();
        arguments["after_entry_index"] = json!(self.after);
        arguments["limit"] = json!(PAGE_ENTRIES);
        arguments["max_bytes"] = json!(PAGE_BYTES);
        let mut page = context.read("tail_attempt_logs", &arguments).await?;
        let entries = match page["entries"].take() {
            Value::Array(entries) => entries,
            _ => Vec::new(),
        };
        let first = entries.first().and_then(|entry| entry["entry_index"].as_i64());
        if let Some(first) = first.filter(|first| *first > self.after + 1) {
            anstream::eprintln!("({} older entries are gone)", first - self.after - 1);
        }
        for entry in &entries {
            self.print(context, entry)?;
            self.after = entry["entry_index"].as_i64().unwrap_or(self.after + 1);
        }
        context.out.flush()?;
        let has_more = page["has_more"] == json!(true) && !entries.is_empty();
        Ok(Page { entries, has_more })
    }

    fn print(&self, context: &mut Context, entry: &Value) -> Result<(), Failure> {
        let out = &mut context.out;
        if self.channel == Channel::Normalized || out.is_json() {
            return print(out, entry);
        }
        let line = if out.is_terminal() { render::raw(entry) } else { text(entry, "text").into() };
        out.raw(&line)?;
        if entry["continued"] != json!(true) {
            out.raw("\n")?;
        }
        Ok(())
    }

    /// Prints what comes until the attempt has settled; returns its status.
    pub async fn follow(&mut self, context: &mut Context) -> Result<Value, Failure> {
        self.follow_until(context, |_| false).await
    }

    /// The same, but no further than the page with the entry that is wanted.
    pub async fn follow_until(
        &mut self,
        context: &mut Context,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            // Asked before the page: what was written by then is on the page.
            let status = json!({"attempt_id": self.attempt});
            let status = context.read("get_attempt_status", &status).await?;
            let page = self.page(context).await?;
            if page.entries.iter().any(&wanted) {
                return Ok(status);
            }
            if page.has_more {
                continue;
            }
            let is_silent = page.entries.is_empty();
            if matches!(text(&status, "phase"), "settled" | "idle") && self.has_come_to(&status) {
                return Ok(status);
            }
            pause = if is_silent { (pause * 2).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            tokio::time::sleep(pause).await;
        }
    }
}

/// Prints an entry: as JSON, or one of the normalized channel for people.
pub fn print(out: &mut Output, entry: &Value) -> Result<(), Failure> {
    if out.is_json() {
        return Ok(out.json_line(entry)?);
    }
    for line in render::normalized(entry).lines(|style, text| out.paint(style, text)) {
        out.line(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
