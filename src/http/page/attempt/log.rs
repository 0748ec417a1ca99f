//! The log of an attempt: a window of its entries. The browser holds a few hundred rows, however long
//! the log is, and asks for others by index; a slider shows the position in the whole log.

use std::collections::VecDeque;

use maud::{Markup, html};
use provost_actors::event::Channel;
use provost_actors::executor::InProgress;
use provost_actors::ids::AttemptId;
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::api::logs::{LogEntry, TailAttemptLogsOutput};
use crate::api::{Refusable, Service};
use crate::http::page::entries::{entry, index, is_error};
use crate::http::page::{ansi, parts};

/// Most entries of one answer, and most bytes that are read for a page of the log.
const ENTRIES: usize = 200;
const BYTES: usize = 512 * 1024;

/// After how many errors a search for errors stops, and most pages of the log that it reads.
const ERRORS: usize = 50;
const PAGES: usize = 6;

/// Which entries are shown. Errors are those of the normalized channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tab {
    #[default]
    Raw,
    Normalized,
    Errors,
}

impl Tab {
    const ALL: [Self; 3] = [Self::Raw, Self::Normalized, Self::Errors];

    fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Normalized => "normalized",
            Self::Errors => "errors",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Raw => "Raw",
            Self::Normalized => "Normalized",
            Self::Errors => "Errors only",
        }
    }

    fn channel(self) -> Channel {
        if self == Self::Raw { Channel::Raw } else { Channel::Normalized }
    }
}

/// Entries before an index, or after one; the newest ones if neither is given. `after` may be -1, for
/// the first entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WindowQuery {
    #[serde(default)]
    pub tab: Tab,
    pub before: Option<u64>,
    pub after: Option<i64>,
}

/// A part of a channel. The entries are consecutive, except in the list of errors.
#[derive(Debug, Default)]
pub struct Window {
    pub entries: Vec<LogEntry>,
    /// The first and last index that was read, from which the browser continues. In the list of errors
    /// that is more than the entries. `None`: the log has no entries there.
    pub looked: Option<(u64, u64)>,
    /// The channel's oldest and newest index.
    pub oldest: Option<u64>,
    pub latest: Option<u64>,
    /// The message that the agent is still writing; it is shown after the newest entry.
    pub in_progress: Option<InProgress>,
    /// The lost host of the attempt, on whose disk later entries may be.
    pub lost_host: Option<String>,
}

/// A page of a channel, with typed entries.
pub struct ReadPage {
    pub entries: Vec<LogEntry>,
    pub has_more: bool,
    pub oldest_entry_index: Option<u64>,
    pub latest_entry_index: Option<u64>,
    pub in_progress: Option<InProgress>,
    pub lost_host: Option<String>,
}

/// Reads a page of a channel. `place`: before an index, or after one; the newest entries if neither is
/// given.
pub async fn page(
    service: &dyn Service,
    caller: &crate::api::Caller,
    attempt: AttemptId,
    channel: Channel,
    place: (Option<u64>, Option<i64>),
    limit: usize,
) -> Refusable<ReadPage> {
    let mut arguments = json!({
        "attempt_id": attempt, "channel": channel, "limit": limit, "max_bytes": BYTES,
    });
    match place {
        (Some(before), _) => arguments["cursor"] = json!(before),
        (None, Some(after)) => arguments["after_entry_index"] = json!(after),
        (None, None) => {}
    }
    let page = service.tail_attempt_logs(caller, input(arguments)?).await?;
    let TailAttemptLogsOutput {
        entries,
        has_more,
        oldest_entry_index,
        latest_entry_index,
        in_progress,
        lost_host,
        ..
    } = page;
    let entries = entries.iter().map(|entry| LogEntry::read(channel, entry));
    let entries = entries.collect::<Refusable<_>>()?;
    Ok(ReadPage {
        entries,
        has_more,
        oldest_entry_index,
        latest_entry_index,
        in_progress,
        lost_host,
    })
}

impl Window {
    /// Reads a window. For errors it reads page after page in the query's direction, until it has enough
    /// errors, the log ends or [`PAGES`] are read; the browser continues from `looked`.
    pub async fn read(
        service: &dyn Service,
        caller: &crate::api::Caller,
        attempt: AttemptId,
        query: WindowQuery,
    ) -> Refusable<Self> {
        let channel = query.tab.channel();
        let (mut before, mut after) = (query.before, query.after);
        let limit = if query.tab == Tab::Errors { 1000 } else { ENTRIES };
        let mut window = Self::default();
        let mut found = VecDeque::new();
        for _ in 0..PAGES {
            let page = page(service, caller, attempt, channel, (before, after), limit).await?;
            (window.oldest, window.latest) = (page.oldest_entry_index, page.latest_entry_index);
            window.in_progress = page.in_progress;
            window.lost_host = page.lost_host;
            let ends = page.entries.first().map(index).zip(page.entries.last().map(index));
            let Some((first, last)) = ends else { break };
            let (from, to) = window.looked.unwrap_or((first, last));
            window.looked = Some((from.min(first), to.max(last)));
            if query.tab != Tab::Errors {
                found.extend(page.entries);
                break;
            }
            let errors = page.entries.into_iter().filter(is_error);
            if after.is_some() {
                found.extend(errors);
                after = i64::try_from(last).ok();
            } else {
                errors.rev().for_each(|error| found.push_front(error));
                before = Some(first);
            }
            if !page.has_more || found.len() >= ERRORS {
                break;
            }
        }
        window.entries = found.into();
        Ok(window)
    }

    /// The rows. The list's attributes say which part of the log they are.
    pub fn markup(&self) -> Markup {
        let looked = |end: fn((u64, u64)) -> u64| self.looked.map(end);
        let is_newest = self.latest.is_none() || looked(|it| it.1) == self.latest;
        html! {
            ol.entries data-first=[looked(|it| it.0)] data-last=[looked(|it| it.1)]
                data-oldest=[self.oldest] data-latest=[self.latest] {
                @for it in &self.entries { (entry(it)) }
                @if let Some(it) = self.in_progress.as_ref().filter(|_| is_newest || self.entries.is_empty()) {
                    li.entry.progress { span.muted { (parts::word(&it.kind).replace('_', " ")) " …" } pre { (ansi::show(&it.text)) } }
                }
                @if let Some(host) = self.lost_host.as_ref().filter(|_| is_newest) {
                    li.entry.muted { "Host " (host) " is lost: what it wrote after that is on its disk." }
                }
            }
        }
    }
}

/// The empty panel of the log, which the script fills. `is_live`: it asks for new entries.
pub fn panel(attempt: AttemptId, is_live: bool) -> Markup {
    let path = format!("/attempts/{attempt}/log");
    html! {
        section.panel.log aria-labelledby="log-title" data-log=(path) data-live=(is_live) {
            div.item-head {
                h2 #log-title { "Log" }
                div.tabs role="tablist" aria-label="Entries" {
                    @for tab in Tab::ALL {
                        button.ghost type="button" role="tab" data-tab=(tab.word())
                            aria-selected=(tab == Tab::Raw) aria-controls="log-rows" { (tab.title()) }
                    }
                }
                span.end.muted.small data-log-place {}
            }
            noscript { p { a href=(path) { "Show the log" } } }
            div.log-box #log-rows role="tabpanel" tabindex="0" aria-label="Log entries" {}
            label.slider { span.unseen { "Position in the log" }
                input type="range" min="0" max="0" value="0" step="1" data-log-slider;
            }
        }
    }
}

/// The log as a page, for a browser without script: links lead to older and newer entries.
pub fn whole(attempt: AttemptId, query: WindowQuery, window: &Window) -> Markup {
    let path = |tab: Tab, place: &str| format!("/attempts/{attempt}/log?tab={}{place}", tab.word());
    let older = window.looked.filter(|it| Some(it.0) > window.oldest).map(|it| it.0);
    let newer = window.looked.filter(|it| Some(it.1) < window.latest).map(|it| it.1);
    html! {
        div.head { h1 { "Log of " a href={ "/attempts/" (attempt) } { "attempt " (attempt.short()) } } }
        nav.actions aria-label="Entries" {
            @for tab in Tab::ALL {
                a.button href=(path(tab, "")) aria-current=[(tab == query.tab).then_some("page")] { (tab.title()) }
            }
            @if let Some(first) = older { a.button href=(path(query.tab, &format!("&before={first}"))) { "Older" } }
            @if let Some(last) = newer { a.button href=(path(query.tab, &format!("&after={last}"))) { "Newer" } }
        }
        section.log { (window.markup()) }
    }
}
