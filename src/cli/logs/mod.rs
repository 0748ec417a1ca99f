//! `provost logs`: prints an attempt's log page by page, and follows it as it grows.

use std::time::{Duration, Instant};

use provost_actors::event::Channel;
use provost_actors::journal::WaitingOn;

use super::attempts::way_out;
use super::prelude::*;
use super::render;

/// The size of a page; the tool may give less.
const PAGE_ENTRIES: u64 = 1000;
const PAGE_BYTES: u64 = 1 << 20;

/// Pause between two calls while entries come in a steady stream, so that they are printed in pieces.
const PIECE: Duration = Duration::from_millis(20);
/// Most time between two looks at the attempt's status.
const PAUSE: Duration = Duration::from_millis(PAUSE_MS);
const PAUSE_MS: u64 = 500;

#[derive(clap::Args, Debug)]
pub struct LogsArgs {
    /// The attempt's id, or 8 or more characters of its start or end [default: the newest
    /// attempt]
    attempt: Option<String>,
    /// Follow until it settles; Ctrl-C stops following, not the attempt
    #[arg(short, long)]
    follow: bool,
    /// Print the executor's own output instead of entries; verbatim unless stdout is a terminal
    #[arg(long)]
    raw: bool,
    /// Only the newest N entries; with --follow, also those that come after them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// `provost logs`. Without an attempt it takes the newest.
pub async fn logs(context: &mut Context, args: LogsArgs) -> Result<Exit, Failure> {
    let attempt = match &args.attempt {
        Some(attempt) => context.attempt(attempt).await?,
        None => context.newest_attempt().await?,
    };
    let channel = if args.raw { Channel::Raw } else { Channel::Normalized };
    let mut reader = Reader { channel, ..Reader::new(attempt) };
    if let Some(limit) = args.limit {
        let newest = context.call::<LogPage>(reader.page_of(1)).await?;
        let latest = newest.latest_entry_index.unwrap_or(-1);
        reader.after = (latest - i64::from(limit)).max(-1);
    }
    if args.follow {
        reader.follow(context).await?;
    } else {
        while reader.page(context).await?.has_more {}
    }
    Ok(Exit::Done)
}

/// Prints an attempt's log, and knows the position up to which it has.
pub struct Reader {
    attempt: AttemptId,
    channel: Channel,
    /// The index of the last printed entry; -1 before the first.
    after: i64,
    /// Whether the loss of the attempt's host was reported: it is reported once.
    is_loss_shown: bool,
}

impl Reader {
    /// At the beginning of the normalized log.
    pub fn new(attempt: AttemptId) -> Self {
        Self { attempt, channel: Channel::Normalized, after: -1, is_loss_shown: false }
    }

    fn page_of(&self, limit: u64) -> Value {
        json!({"attempt_id": self.attempt, "channel": self.channel, "limit": limit})
    }

    /// Prints the next page.
    async fn page(&mut self, context: &mut Context) -> Result<LogPage, Failure> {
        let page = context.call::<LogPage>(self.next_page()).await?.output;
        self.print_page(context, page)
    }

    fn next_page(&self) -> Value {
        let mut arguments = self.page_of(PAGE_ENTRIES);
        arguments["after_entry_index"] = json!(self.after);
        arguments["max_bytes"] = json!(PAGE_BYTES);
        arguments
    }

    /// Prints entries as they come, until none comes for [`PAUSE`] or that time is over; then the caller
    /// looks at the status again.
    async fn print_news(&mut self, context: &mut Context) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < PAUSE {
            let asked = Instant::now();
            let wait = json!({"page": self.next_page(), "wait_ms": PAUSE_MS});
            let page = match context.call::<NextLogPage>(wait).await {
                Ok(page) => page.output.0,
                // This caller may not use the method, or an older daemon does not have it.
                Err(Failure::Client(ClientError::Rpc { .. })) => {
                    tokio::time::sleep(PAUSE).await;
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            };
            let page = self.print_page(context, page)?;
            if !page.has_more && asked.elapsed() < PIECE / 4 {
                // The answer came at once, so the log grows steadily. Without a pause, each entry
                // would be a call.
                tokio::time::sleep(PIECE).await;
            }
            if page.entries.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Prints a page, and says on standard error how many entries before it are no longer stored.
    fn print_page(&mut self, context: &mut Context, mut page: LogPage) -> Result<LogPage, Failure> {
        let first = page.entries.first().and_then(|entry| entry["entry_index"].as_i64());
        if let Some(first) = first.filter(|first| *first > self.after + 1) {
            anstream::eprintln!("({} older entries are gone)", first - self.after - 1);
        }
        for entry in &page.entries {
            self.print(context, entry)?;
            self.after = entry["entry_index"].as_i64().unwrap_or(self.after + 1);
        }
        context.out.flush()?;
        if let Some(host) = page.lost_host.as_ref().filter(|_| !page.has_more)
            && !std::mem::replace(&mut self.is_loss_shown, true)
        {
            let host = harmless(host);
            anstream::eprintln!("host {host} is lost: what it wrote after that is on its disk");
        }
        page.has_more &= !page.entries.is_empty();
        Ok(page)
    }

    fn print(&self, context: &mut Context, entry: &Value) -> Result<(), Failure> {
        let out = &mut context.out;
        if self.channel == Channel::Normalized || out.json {
            return print(out, entry);
        }
        let line = render::text(entry);
        out.raw(&if out.terminal { harmless(line) } else { line.to_owned() })?;
        if entry["continued"] != json!(true) {
            out.raw("\n")?;
        }
        Ok(())
    }

    /// Prints new entries until the attempt has settled and its log is printed; returns its status. Says on
    /// standard error what a person has to do while the attempt waits for one.
    pub async fn follow(
        &mut self,
        context: &mut Context,
    ) -> Result<Answer<AttemptStatus>, Failure> {
        let mut shown = None;
        loop {
            // The status is read before the page, so that the page has every entry that was written by then.
            let status = json!({"attempt_id": self.attempt});
            let status = context.call::<AttemptStatus>(status).await?;
            let page = self.page(context).await?;
            if page.has_more {
                continue;
            }
            let wait = wait(&status);
            if let Some(line) = wait.as_ref().filter(|_| wait != shown) {
                anstream::eprintln!("{line}");
            }
            shown = wait;
            let has_settled = matches!(status.phase, AttemptPhase::Settled | AttemptPhase::Idle);
            let latest = match self.channel {
                Channel::Normalized => status.latest_entry_index.normalized,
                Channel::Raw => status.latest_entry_index.raw,
            };
            // Processes can outlive a settled attempt; output that they write later is not waited for.
            let has = |latest| u64::try_from(self.after).is_ok_and(|after| after >= latest);
            if has_settled && latest.is_none_or(has) {
                return Ok(status);
            }
            self.print_news(context).await?;
        }
    }
}

/// What the attempt waits for, and the command with which a person ends that; `None`: it does not wait for a
/// person.
fn wait(status: &AttemptStatus) -> Option<String> {
    let verb = way_out(status)?;
    let is_drained = status.waiting_on == Some(WaitingOn::Host);
    let what = if is_drained { "its host drains" } else { "waits for approval" };
    Some(format!("{what}: `{}`", harmless(&verb)))
}

/// Prints an entry as a line of JSON, or an entry of the normalized channel for a person.
pub fn print(out: &mut Output, entry: &Value) -> Result<(), Failure> {
    if out.json {
        return Ok(out.json_line(entry)?);
    }
    for line in render::normalized(entry, |style, text| out.paint(style, text)) {
        out.painted(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
