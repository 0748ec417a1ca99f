//! A destination that the proxy of a `strict` sandbox has refused, and that a person may allow for the
//! project's attempts, becomes an approval of the attempt: asked for once in the project, and open until
//! a person answers or the worktrees go. The agent does not wait; once the destination is allowed, the
//! agent can try again, in a later turn too.
//!
//! ```text
//!  proxy refuses ─▶ its file of decisions ─inotify─▶ `watched` ─▶ Asked ─▶ approval ─ approved ─▶
//!     ▲                                                                                         │
//!     └── reads the attempt's file of allowed destinations ◀── `decided` appends a line ◀───────┘
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::{Map, json};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::message::{TurnEvent, TurnHandle};
use crate::blocking::blocking;
use crate::event::{Action, ActionKind};
use crate::executor::{Request, Verdict};
use crate::ids::AttemptId;
use crate::journal::Attempt;
use crate::process::records::{self, Started};
use crate::sandbox::{ALLOWED_FILE, Decisions, Level};
use crate::task::spawn;
use crate::world::World;

/// The name of the tool in such a request, which begins its key too.
const TOOL: &str = "provost_allow_host";
/// The pause between two reads while there are questions: each question is a write to the board.
const PAUSE: Duration = Duration::from_secs(1);
/// How many destinations one process can have a person asked for.
const ASKED_MAX: usize = 10;

/// The request to allow a destination (`host:port`).
fn request(host: &str) -> Request {
    let mut detail = Map::new();
    detail.insert("url".to_owned(), json!(host));
    Request {
        key: format!("{TOOL}:{host}"),
        tool_call_id: None,
        tool_name: TOOL.to_owned(),
        text: format!("connect to {host} from the attempts of this project"),
        action: Action { kind: ActionKind::WebFetch, detail },
        question: None,
        context: json!({ "host": host }),
    }
}

/// The destination that the approval of a request allows; `None` for any other request. An executor can't
/// forge one that misleads: only a request that is equal to Provost's own counts, text included.
pub fn asked_for(asked: &Request) -> Option<&str> {
    let host = asked.context["host"].as_str()?;
    (*asked == request(host)).then_some(host)
}

/// Watches what the proxy of a process refuses, in a task, until the process's shim has ended. Only a
/// `strict` sandbox has a proxy.
pub(super) fn ask(
    world: &World,
    attempt: &Attempt,
    started: &Started,
    shim: &watch::Receiver<u64>,
    handle: &TurnHandle,
) {
    if started.sandbox.as_ref().is_none_or(|it| it.level != Level::Strict) {
        return;
    }
    let folder = world.settings.process_dir(attempt);
    let (shim, handle) = (shim.clone(), handle.clone());
    spawn(async move {
        if let Err(error) = watched(&folder, shim, &handle).await {
            tracing::warn!(%error, "no person is asked for the hosts that are refused");
        }
    });
}

/// Reads the proxy's decisions whenever their file changes, and has a person asked for what was refused.
async fn watched(
    folder: &Path,
    mut shim: watch::Receiver<u64>,
    handle: &TurnHandle,
) -> io::Result<()> {
    let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    // The proxy replaces the file with each decision, by a rename.
    inotify::add_watch(&changes, folder, WatchFlags::MOVED_TO)?;
    // SAFETY: the descriptor stays the same, and is open until it is dropped, after its registration.
    let changes = unsafe { AsyncFd::register(changes) };
    let changes = changes.map_err(|error| error.into_parts().1)?;
    let (mut asked, mut has_ended) = (BTreeMap::new(), false);
    loop {
        let from = folder.to_owned();
        let read = blocking(move || records::read(&from, Decisions::FILE)).await;
        let decisions: Decisions = read.ok().flatten().unwrap_or_default();
        let refused = decisions.newest_refusals.into_iter().rev();
        // The last refusal of each host.
        let refused: BTreeMap<_, _> = refused.filter_map(|it| Some((it.allow?, it.at))).collect();
        let mut has_asked = false;
        for (host, at) in refused {
            let known = asked.get(&host);
            // A destination that is refused again is asked for again: another attempt's question for it may
            // have been answered.
            if known.map_or(asked.len() < ASKED_MAX, |known| *known < at) {
                asked.insert(host.clone(), at);
                has_asked = true;
                let request = Box::new(request(&host));
                handle.ask(|done| TurnEvent::Asked(request, done)).await;
            }
        }
        if has_ended {
            return Ok(());
        }
        tokio::select! {
            ready = changes.readable() => {
                let mut ready = ready?;
                while rustix::io::read(changes.get_ref(), &mut [0; 4096]).is_ok() {}
                ready.clear_ready();
            }
            // One more read follows, for what was refused last.
            () = ended(&mut shim) => has_ended = true,
        }
        if has_asked && !has_ended {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = ended(&mut shim) => has_ended = true,
            }
        }
    }
}

/// Waits until the shim has ended, which closes the channel.
async fn ended(shim: &mut watch::Receiver<u64>) {
    while shim.changed().await.is_ok() {}
}

/// Allows a destination for an attempt if that is the verdict: its proxies read this file. Blocking.
pub(super) fn decided(attempt_dir: &Path, host: &str, verdict: &Verdict) -> io::Result<()> {
    if *verdict != Verdict::Approve {
        return Ok(());
    }
    let path = attempt_dir.join(ALLOWED_FILE);
    if fs::read_to_string(&path).unwrap_or_default().lines().any(|known| known == host) {
        return Ok(());
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
    writeln!(file, "{host}")
}

/// The destinations that a person has allowed for the attempts of a project.
pub(super) async fn allowed(world: &World, attempt: AttemptId) -> Vec<String> {
    // If that can't be read, none is allowed.
    let keys = world.journal.approved_of_project(attempt).await.unwrap_or_default();
    let host = |key: &String| Some(key.strip_prefix(TOOL)?.strip_prefix(':')?.to_owned());
    keys.iter().filter_map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_says_what_it_is_for_allows_a_host() {
        assert_eq!(asked_for(&request("a.b:443")), Some("a.b:443"));
        let lying = Request { text: "look around".to_owned(), ..request("a.b:443") };
        assert_eq!(asked_for(&lying), None);
        let other = Request { tool_name: "Bash".to_owned(), ..request("a.b:443") };
        assert_eq!(asked_for(&other), None);
    }

    #[test]
    fn a_host_is_allowed_once_and_only_by_an_approval() {
        let dir = tempfile::tempdir().unwrap();
        let deny = Verdict::Deny { reason: "no".to_owned() };
        for verdict in [deny, Verdict::Approve, Verdict::Approve] {
            decided(dir.path(), "a.b:443", &verdict).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join(ALLOWED_FILE)).unwrap(), "a.b:443\n");
    }
}
