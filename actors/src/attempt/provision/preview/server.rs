//! Which dev server an attempt has, and whether it may run. Reads only.

use super::super::{Provision, is_trusted, trust_command};
use crate::attempt::prepare;
use crate::journal::checks::CheckCommand;
use crate::journal::{Attempt, AttemptRepo};
use crate::ready_url::{ReadyUrl, Target};
use crate::refusal::{Code, Refusal};
use crate::world::World;

/// A dev server that is configured: in which repository, what is run, and where it answers.
pub struct Server {
    pub repo: AttemptRepo,
    pub provision: Provision,
    pub command: CheckCommand,
    /// The URL that is asked whether it is ready, or its port; `None`: it is ready as soon as it runs.
    pub target: Option<Target>,
}

impl Server {
    /// The dev server of the repository with this name, or, without a name, the only one.
    ///
    /// # Errors
    /// There is none, or several of which none is named.
    pub fn of(
        provision: Provision,
        attempt: &Attempt,
        name: Option<&str>,
    ) -> Result<Self, Refusal> {
        let refuse = |why: &str| Refusal::new(Code::InvalidArgument, why);
        let mut found = attempt.repos.iter().filter_map(|repo| {
            let settings = &provision.repos.get(&repo.name)?.settings.dev_server;
            let is_meant = name.is_none_or(|name| name == repo.name);
            is_meant.then_some((repo, settings, settings.run.as_ref()?))
        });
        let Some((repo, settings, run)) = found.next() else {
            let whose = name.map_or_else(String::new, |name| format!(" {name}"));
            return Err(refuse(&format!("the attempt's repository{whose} has no dev server"))
                .hint(
                    "Set dev_server.run in the repository's provost.toml, or under \
                 [projects.NAME.repos.REPO] in config.toml; it counts for new attempts.",
                ));
        };
        let others: Vec<&str> = found.map(|(repo, ..)| repo.name.as_str()).collect();
        if !others.is_empty() {
            let names = format!("{}, {}", repo.name, others.join(", "));
            return Err(refuse("several repositories of the attempt have a dev server")
                .hint(format!("Name one as `repo` (`provost preview ATTEMPT REPO`): {names}.")));
        }
        let port = settings.port.as_ref().and_then(|name| provision.ports.get(&name.value));
        let ready = settings.ready.as_ref().and_then(|url| ReadyUrl::parse(&url.value));
        let target = ready.and_then(|url| url.target(&provision.ports));
        let target = target.or_else(|| port.map(|port| Target::of_port(*port)));
        let (repo, command) = (repo.clone(), run.value.clone());
        Ok(Self { repo, provision, command, target })
    }

    /// The same, if it may be started now.
    ///
    /// # Errors
    /// The attempt has no worktrees, or a person has not approved the command of the repository's own file.
    pub async fn startable(
        world: &World,
        attempt: &Attempt,
        name: Option<&str>,
    ) -> Result<Self, Refusal> {
        let id = attempt.attempt_id;
        let failed = |why: String| {
            Refusal::new(Code::WorkspaceFailed, why).detail("attempt_id", id.to_string())
        };
        let has = prepare::has_worktrees(world, id).await;
        if !has.map_err(|error| failed(error.to_string()))? {
            let why = "the attempt has no worktrees yet, or not any more".to_owned();
            return Err(failed(why).hint("Call follow_up to make them; a preview runs in them."));
        }
        prepare::real_worktrees(world, attempt).await.map_err(failed)?;
        let provision = Provision::of(world, attempt).await.map_err(failed)?;
        let server = Self::of(provision, attempt, name)?;
        let (repo, settings) = (&server.repo, &server.provision.repos[&server.repo.name].settings);
        let is_repos = settings.dev_server.run.as_ref().is_some_and(|run| run.is_repos);
        if is_repos && !is_trusted(world, repo, settings).await? {
            let message =
                format!("the commands of the provost.toml of {} are not approved", repo.path);
            let hint =
                format!("A person runs {}, which shows and approves them.", trust_command(id));
            return Err(Refusal::new(Code::NotPermitted, message).hint(hint));
        }
        Ok(server)
    }
}
