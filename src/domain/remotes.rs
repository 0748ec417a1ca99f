//! The method behind `provost repo remotes`: shows the remotes of a project's repositories, and records
//! them once a person has said so. Work is pushed only to a remote that still leads to its recorded URL,
//! because agents can write a repository's configuration.

use std::collections::BTreeSet;
use std::path::Path;

use provost_actors::journal::Finishes;
use provost_actors::workspace::push;

use super::Domain;
use crate::api::remotes::{Remotes, RemotesParams, ShownRemote};
use crate::api::{Code, Refusal};

impl Domain {
    /// The remotes as git has them and as they are recorded; with `yes`, records what git has first. URLs
    /// are shown without secrets.
    pub(super) async fn remotes(&self, params: RemotesParams) -> Result<Remotes, Refusal> {
        let mut repos = self.store.repos(params.project_id).await?;
        if let Some(name) = &params.repo {
            repos.retain(|repo| repo.repo_name == *name);
            if repos.is_empty() {
                let message = format!("the project has no repository {name:?}");
                return Err(Refusal::new(Code::RepoNotFound, message));
            }
        }
        let mut shown = Vec::new();
        for repo in repos {
            let found = push::remotes(Path::new(&repo.path)).await.map_err(|error| {
                Refusal::new(Code::WorkspaceFailed, format!("{}: {error}", repo.path))
            })?;
            if params.yes {
                self.store.record_remotes(repo.repo_id, &found).await?;
            }
            let recorded = Finishes::remotes(&self.store, repo.repo_id).await?;
            let names: BTreeSet<&String> = found.keys().chain(recorded.keys()).collect();
            let shown_url = |url: &String| push::shown(url);
            shown.extend(names.into_iter().map(|name| ShownRemote {
                repo_name: repo.repo_name.clone(),
                remote: name.clone(),
                url: found.get(name).map(shown_url),
                recorded: recorded.get(name).map(shown_url),
            }));
        }
        Ok(Remotes { remotes: shown })
    }
}
