//! Trust: a command of a repository's own file runs only once a person has approved exactly the
//! commands of that file, by their hash. Until then the attempt waits, as for any other approval.
//!
//! ```text
//!  trusted? ─yes──────────────────────────────────────▶ on
//!     │ no: Asked                                        ▲
//!     ▼                                                  │
//!  trusted meanwhile? ─yes: Withdrawn────────────────────┤
//!     │ no                                               │
//!     ├─ the verdict comes by `SetupSignals` ─ approve ──┤
//!     ├─ another host's daemon has approved: Trusted ────┘
//!     └─ denied, or a stop ─▶ the turn fails
//! ```

use serde_json::{Map, json};

use super::signals::SetupSignals;
use crate::attempt::message::{TurnEvent, TurnHandle};
use crate::event::{Action, ActionKind};
use crate::executor::{Request, Verdict};
use crate::ids::AttemptId;
use crate::journal::{Attempt, AttemptRepo};
use crate::refusal::Refusal;
use crate::repo_settings::RepoSettings;
use crate::retry::while_store_fails;
use crate::world::World;

/// The name of the tool in such a request, which begins its key too.
pub const TRUST: &str = "provost_trust";

/// What an approval trusts: exactly the commands with this hash, of this repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// The repository's path on the board.
    pub repo: String,
    pub hash: String,
}

/// What the approval of a request would trust; `None` for the request of an executor.
pub fn trusted_by(request: &Request) -> Option<Trusted> {
    let text = |key: &str| Some(request.context[key].as_str()?.to_owned());
    (request.tool_name == TRUST).then_some(())?;
    Some(Trusted { repo: text("repo")?, hash: text("hash")? })
}

/// Whether a person has approved all that the repository's own files want. `true` if they want nothing.
pub async fn is_trusted(
    world: &World,
    repo: &AttemptRepo,
    settings: &RepoSettings,
) -> Result<bool, Refusal> {
    let Some(hash) = settings.commands_hash() else { return Ok(true) };
    world.journal.is_trusted(&repo.board_path, &hash).await
}

/// The same, for work that can wait until the store can be read.
pub(super) async fn is_trusted_by_then(
    world: &World,
    repo: &AttemptRepo,
    settings: &RepoSettings,
) -> Result<bool, Refusal> {
    let what = format!("reading whether {} is trusted", repo.board_path);
    while_store_fails(what, || is_trusted(world, repo, settings)).await
}

/// The command, for a hint, by which a person sees and approves what an attempt waits for.
pub fn trust_command(attempt: AttemptId) -> String {
    format!("`provost trust {}`", attempt.short())
}

/// Waits until a person has approved the commands of a repository. `Err` is a sentence: they were denied,
/// or a stop came.
pub(super) async fn wait(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    settings: &RepoSettings,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let is_trusted = async || {
        let read = is_trusted_by_then(world, repo, settings).await;
        read.map_err(|refusal| refusal.message)
    };
    let request = request(repo, settings);
    let key = request.key.clone();
    if is_trusted().await? {
        // An earlier daemon may have asked for it, and another host's daemon may have got the approval: the
        // question that is open here is closed.
        if world.host.has_lease && settings.commands_hash().is_some() {
            handle.ask(|done| TurnEvent::Trusted(key, done)).await;
        }
        return Ok(());
    }
    handle.ask(|done| TurnEvent::Asked(Box::new(request), done)).await;
    // An approval frees the requests that exist when it comes. One that came just before this request
    // has not seen it.
    if is_trusted().await? {
        handle.ask(|done| TurnEvent::Withdrawn(key, done)).await;
        return Ok(());
    }
    let verdict = tokio::select! {
        verdict = signals.verdict(&key) => Some(verdict),
        _ = signals.stop_beyond(None) => None,
        () = trusted_elsewhere(world, repo, settings) => {
            handle.ask(|done| TurnEvent::Trusted(key, done)).await;
            return Ok(());
        }
    };
    match verdict {
        Some(Verdict::Approve) => Ok(()),
        Some(Verdict::Deny { reason } | Verdict::Answer { text: reason }) => Err(format!(
            "setup of {}: what its provost.toml wants was not approved ({reason}). {} shows and \
             approves it; then send a follow-up",
            repo.name,
            trust_command(attempt.attempt_id)
        )),
        None => Err(format!("setup of {}: it waited for a person's approval", repo.name)),
    }
}

/// Waits until a person has approved the commands at the daemon of another host. Never ends on a host without
/// a lease.
async fn trusted_elsewhere(world: &World, repo: &AttemptRepo, settings: &RepoSettings) {
    if !world.host.has_lease {
        return std::future::pending().await;
    }
    loop {
        world.journal.trust_news().await;
        if is_trusted(world, repo, settings).await.unwrap_or(false) {
            return;
        }
    }
}

/// The request for the commands of a repository. Its key has their hash: other commands are another question.
fn request(repo: &AttemptRepo, settings: &RepoSettings) -> Request {
    let hash = settings.commands_hash().unwrap_or_default();
    let commands = settings.commands_text();
    // In one line, so that a list of questions shows all of the commands.
    let shown = commands.lines().collect::<Vec<_>>().join(" ⏎ ");
    let mut detail = Map::new();
    detail.insert("command".to_owned(), json!(commands));
    Request {
        key: format!("{TRUST}:{}:{hash}", repo.name),
        tool_call_id: None,
        tool_name: TRUST.to_owned(),
        text: format!("run the commands of provost.toml of {}: {shown}", repo.board_path),
        action: Action { kind: ActionKind::Command, detail },
        question: None,
        context: json!({"repo": repo.board_path, "hash": hash}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RepoId;
    use crate::journal::checks::CheckCommand;
    use crate::repo_settings::{ScriptSettings, Sourced};

    #[test]
    fn a_request_says_what_it_would_trust() {
        let run = Sourced {
            value: CheckCommand::Line("make".to_owned()),
            origin: "provost.toml:1".to_owned(),
            is_repos: true,
        };
        let setup = ScriptSettings { run: Some(run), ..ScriptSettings::default() };
        let settings = RepoSettings { setup, ..RepoSettings::default() };
        let repo = AttemptRepo {
            repo_id: RepoId::new(),
            name: "app".to_owned(),
            path: "/src/app".to_owned(),
            board_path: "/src/app".to_owned(),
            target_branch: "main".to_owned(),
            base_commit: "0".to_owned(),
        };
        let mut request = request(&repo, &settings);
        let hash = settings.commands_hash().unwrap();
        let expected = Trusted { repo: "/src/app".to_owned(), hash };
        assert_eq!(trusted_by(&request), Some(expected));
        assert_eq!(request.action.detail["command"], "setup.run: make");
        request.tool_name = "Bash".to_owned();
        assert_eq!(trusted_by(&request), None, "an agent can't ask for trust");
    }
}
