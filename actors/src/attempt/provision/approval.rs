//! Trust: a command of a repository's own file runs only once a person has approved exactly the
//! commands of that file. Until then the attempt waits, as for any other approval.

use serde_json::{Map, json};

use super::signals::SetupSignals;
use crate::attempt::message::{TurnEvent, TurnHandle};
use crate::event::{Action, ActionKind};
use crate::executor::{Request, Verdict};
use crate::journal::AttemptRepo;
use crate::repo_settings::RepoSettings;
use crate::retry::while_store_fails;
use crate::world::World;

/// The tool of such a request.
pub const TRUST: &str = "provost_trust";

/// What is trusted: exactly these commands of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// The repository's path.
    pub repo: String,
    pub hash: String,
}

/// What the approval of a request would trust; `None` for an executor's request.
pub fn trusted_by(request: &Request) -> Option<Trusted> {
    let text = |key: &str| Some(request.context[key].as_str()?.to_owned());
    (request.tool_name == TRUST).then_some(())?;
    Some(Trusted { repo: text("repo")?, hash: text("hash")? })
}

/// Waits until the commands of a repository are trusted. `Err` is a sentence.
pub(super) async fn wait(
    world: &World,
    repo: &AttemptRepo,
    settings: &RepoSettings,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    let Some(hash) = settings.commands_hash() else { return Ok(()) };
    let what = format!("reading whether {} is trusted", repo.path);
    let is_trusted = while_store_fails(what, || world.journal.is_trusted(&repo.path, &hash));
    if is_trusted.await.map_err(|refusal| refusal.message)? {
        return Ok(());
    }
    let request = request(repo, settings, &hash);
    let key = request.key.clone();
    handle.ask(|done| TurnEvent::Asked(Box::new(request), done)).await;
    let verdict = tokio::select! {
        verdict = signals.verdict(&key) => Some(verdict),
        _ = signals.stop_beyond(None) => None,
    };
    match verdict {
        Some(Verdict::Approve) => Ok(()),
        Some(Verdict::Deny { reason }) => Err(format!(
            "setup of {}: the commands of its provost.toml were not approved ({reason}). \
             `provost trust` shows and approves them; then send a follow-up",
            repo.name
        )),
        None => Err(format!("setup of {}: it waited for a person's approval", repo.name)),
    }
}

fn request(repo: &AttemptRepo, settings: &RepoSettings, hash: &str) -> Request {
    let commands = settings.commands_text();
    // In one line, so that a person who approves them sees all of them.
    let shown = commands.lines().collect::<Vec<_>>().join(" ⏎ ");
    let mut detail = Map::new();
    detail.insert("command".to_owned(), json!(commands));
    Request {
        key: format!("{TRUST}:{}:{hash}", repo.name),
        tool_call_id: None,
        tool_name: TRUST.to_owned(),
        text: format!("run the commands of provost.toml of {}: {shown}", repo.path),
        action: Action { kind: ActionKind::Command, detail },
        context: json!({"repo": repo.path, "hash": hash}),
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
            target_branch: "main".to_owned(),
            base_commit: "0".to_owned(),
        };
        let mut request = request(&repo, &settings, "abc");
        let expected = Trusted { repo: "/src/app".to_owned(), hash: "abc".to_owned() };
        assert_eq!(trusted_by(&request), Some(expected));
        assert_eq!(request.action.detail["command"], "setup.run: make");
        request.tool_name = "Bash".to_owned();
        assert_eq!(trusted_by(&request), None, "an agent can't ask for trust");
    }
}
