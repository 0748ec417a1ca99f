//! The methods behind `provost repo show` and `provost trust`: what is configured for the worktrees of
//! repositories, and which commands a person trusts. Trust is of one repository path and one hash of its
//! commands: when the commands change, a person has to approve again.

use std::path::Path;

use provost_actors::attempt::provision::declared::{self, Declared, DeclaredError};
use provost_actors::attempt::provision::{Provision, Trusted, trust_command, trusted_by};
use provost_actors::executor::Verdict;
use provost_actors::gateway;
use provost_actors::ids::{ApprovalId, AttemptId, ProjectId};
use provost_actors::journal::{ApprovalStatus, Approvals, Attempts, Bundles as _, Provisions};
use provost_actors::repo_settings::RepoSettings;
use provost_actors::workspace::git;
use serde_json::json;

use super::Domain;
use super::approvals::TEXT_MAX;
use super::elsewhere::for_a_page;
use crate::api::commands::{
    ReleasedLater, RepoParams, ShownRepo, ShownRepos, ShownSetting, TrustParams, TrustedRepos,
};
use crate::api::placed::{Needs, Subject};
use crate::api::projects::RepoSummary;
use crate::api::{Caller, Code, ForwardedCall, OtherHosts as _, Refusal};

/// How many approvals are read at once.
const PAGE: usize = 1000;
/// The method that shows what is configured.
const SETTINGS: &str = "provost/repo_settings";

impl TrustParams {
    /// True if the person has agreed. With `seen`, only to commands that were shown: others have another
    /// hash.
    fn approves(&self, hash: &String) -> bool {
        self.yes && self.seen.as_ref().is_none_or(|seen| seen.contains(hash))
    }
}

impl Domain {
    /// The settings of an attempt's or a project's repositories, and whether their commands are trusted.
    pub(super) async fn repo_settings(&self, params: RepoParams) -> Result<ShownRepos, Refusal> {
        Ok(ShownRepos { repos: self.shown(&params).await? })
    }

    /// Trusts the commands that `params.seen` names, or revokes all trust of the repositories. Attempts
    /// that wait for the trust continue.
    pub(super) async fn trust(&self, params: TrustParams) -> Result<TrustedRepos, Refusal> {
        let mut repos = self.shown(&params.repos).await?;
        let (mut released, mut later, mut revoked) = (Vec::new(), Vec::new(), 0);
        for repo in &mut repos {
            if params.revoke {
                revoked += self.store.distrust(&repo.path).await?;
                repo.is_trusted = false;
            } else if let Some(hash) = repo.hash.as_ref().filter(|hash| params.approves(hash)) {
                self.store.trust(&repo.path, hash, &repo.commands, "provost trust").await?;
                repo.is_trusted = true;
                let trusted = Trusted { repo: repo.path.clone(), hash: hash.clone() };
                let (now, then) = self.release(&trusted, None).await?;
                released.extend(now);
                later.extend(then);
            }
        }
        Ok(TrustedRepos { repos, released, later, revoked })
    }

    /// Approves the pending requests that this trust answers, apart from `except`. Attempts of other
    /// hosts find the trust in the store themselves. Returns the attempts that continue now, and those
    /// whose host is not there.
    async fn release(
        &self,
        trusted: &Trusted,
        except: Option<ApprovalId>,
    ) -> Result<(Vec<AttemptId>, Vec<ReleasedLater>), Refusal> {
        let (mut released, mut later, mut before) = (Vec::new(), Vec::new(), None);
        loop {
            let pending = Some(ApprovalStatus::Pending);
            let page = self.store.approvals(None, pending, before, PAGE).await?;
            for approval in &page.items {
                let (id, attempt_id) = (approval.approval_id, approval.attempt_id);
                if except == Some(id) || trusted_by(&approval.request).as_ref() != Some(trusted) {
                    continue;
                }
                if let Some(host) = self.other_host_of(attempt_id).await? {
                    match self.lost_host_of(&attempt_id.to_string()).await? {
                        Some(_) => later.push(ReleasedLater { attempt_id, host }),
                        None => released.push(attempt_id),
                    }
                    continue;
                }
                match gateway::respond(&self.gateway, &self.world, None, id, Verdict::Approve).await
                {
                    Ok(_) => released.push(attempt_id),
                    // Harmless: it was answered or withdrawn meanwhile, or it will ask again and find the
                    // trust.
                    Err(refusal) => {
                        tracing::warn!(approval = %id, %refusal, "a request is still open");
                    }
                }
            }
            match page.items.last().filter(|_| page.has_more) {
                Some(last) => before = Some(last.approval_id),
                None => return Ok((released, later)),
            }
        }
    }

    /// If the approval is one of a repository's commands: refuses every caller that is not a person, and
    /// records the trust before the attempt continues, so that all other attempts have it too.
    pub(super) async fn trust_by_approval(
        &self,
        caller: &Caller,
        id: ApprovalId,
        verdict: &Verdict,
    ) -> Result<(), Refusal> {
        let Some(approval) = self.store.approval(id).await? else { return Ok(()) };
        let Some(trusted) = trusted_by(&approval.request) else { return Ok(()) };
        let command = trust_command(approval.attempt_id);
        if !caller.is_person {
            let message =
                "only a person can approve or deny the commands of a repository's provost.toml";
            return Err(Refusal::new(Code::NotPermitted, message).hint(format!(
                "Ask a person to read them with {command}, and to approve them there."
            )));
        }
        if *verdict != Verdict::Approve || approval.status != ApprovalStatus::Pending {
            return Ok(());
        }
        let commands = &approval.request.text;
        // A list shows only the beginning, so no person can have read all of it there.
        if commands.chars().count() > TEXT_MAX {
            let message = "the request is too long to be shown whole where it is answered";
            return Err(Refusal::new(Code::NotPermitted, message)
                .hint(format!("Run {command}, which shows all of it and asks.")));
        }
        self.store.trust(&trusted.repo, &trusted.hash, commands, "provost approve").await?;
        self.release(&trusted, Some(id)).await?;
        Ok(())
    }

    /// The host of an attempt, if it is another one.
    async fn other_host_of(&self, attempt: AttemptId) -> Result<Option<String>, Refusal> {
        let own = &self.world.host;
        if !own.has_lease {
            return Ok(None);
        }
        let found = self.store.host_of(Subject::Attempt(&attempt.to_string())).await?;
        Ok(found.map(|(host, _)| host).filter(|host| *host != own.id))
    }

    /// The settings of the repositories that `params` names: of an attempt, else of a project.
    async fn shown(&self, params: &RepoParams) -> Result<Vec<ShownRepo>, Refusal> {
        let shown = match (params.attempt_id, params.project_id) {
            (Some(id), _) => {
                match self.forward_read(SETTINGS, Needs::Host, None, id, params).await? {
                    Some(ShownRepos { repos }) => repos,
                    None => self.shown_of_attempt(id, params.repo.as_deref()).await?,
                }
            }
            (None, Some(id)) => self.shown_of_project(id, params).await?,
            (None, None) => Vec::new(),
        };
        if shown.is_empty()
            && let Some(name) = &params.repo
        {
            let message = format!("there is no repository {name:?} in it");
            return Err(Refusal::new(Code::RepoNotFound, message)
                .hint("Leave the name out to see all of them."));
        }
        Ok(shown)
    }

    /// The settings that this attempt uses: those of its start, whatever its repositories contain by now.
    async fn shown_of_attempt(
        &self,
        id: AttemptId,
        only: Option<&str>,
    ) -> Result<Vec<ShownRepo>, Refusal> {
        let Some(attempt) = self.store.attempt(id).await? else {
            return Err(Refusal::new(Code::AttemptNotFound, format!("there is no attempt {id}")));
        };
        let unusable = |error: String| Refusal::new(Code::WorkspaceFailed, error);
        let world = &self.world;
        let provision = Provision::of(world, &attempt).await.map_err(unusable)?;
        let mut shown = Vec::new();
        for repo in attempt.repos.iter().filter(|it| only.is_none_or(|name| name == it.name)) {
            let settings = match provision.repos.get(&repo.name) {
                Some(provided) => provided.settings.clone(),
                None => declared::of(world, &attempt, repo).await.map_err(unusable)?,
            };
            let commit = declared::commit(world, &attempt, repo).await.map_err(unusable)?;
            let (name, path) = (repo.name.clone(), repo.board_path.clone());
            let at = (repo.target_branch.clone(), commit);
            shown.push(self.shown_repo((name, path), at, &settings).await?);
        }
        Ok(shown)
    }

    /// The settings that a new attempt would use, at the tip of the target branch or of `params.branch`.
    async fn shown_of_project(
        &self,
        id: ProjectId,
        params: &RepoParams,
    ) -> Result<Vec<ShownRepo>, Refusal> {
        let project = self.store.project_name(id).await?;
        let mut repos = self.store.repos(id).await?;
        repos.retain(|repo| params.repo.as_ref().is_none_or(|name| *name == repo.repo_name));
        let mut shown = Vec::new();
        for repo in repos {
            if let Some(found) = self.shown_by_another(id, &repo, params).await? {
                shown.extend(found.repos);
                continue;
            }
            let path = Path::new(&repo.path);
            let unusable = |error: String| {
                Refusal::new(Code::WorkspaceFailed, format!("{}: {error}", repo.path))
                    .detail("repo_path", repo.path.as_str())
            };
            let branch = params.branch.clone().unwrap_or(repo.default_target_branch);
            let tip = git::branch_tip(path, &branch).await;
            let tip = tip.map_err(|error| unusable(error.to_string()))?;
            let commit = tip.ok_or_else(|| unusable(format!("there is no branch {branch:?}")))?;
            let config = &self.world.settings.worktrees.repos;
            let over = config.of(&id.to_string(), &project, &repo.repo_name);
            let declared = Declared { repo: path, commit: &commit, checkout: None };
            let settings = declared.read(config, over).await.map_err(|error| match error {
                DeclaredError::Faulty { .. } => {
                    Refusal::new(Code::InvalidArgument, error.to_string())
                        .hint(format!("Fix it in a commit on {branch}."))
                }
                DeclaredError::Unreadable { .. } | DeclaredError::Configured(_) => {
                    unusable(error.to_string())
                }
            })?;
            shown.push(
                self.shown_repo((repo.repo_name, repo.path), (branch, commit), &settings).await?,
            );
        }
        Ok(shown)
    }

    /// Asks a host that has the repository, if this host has it only as a mirror or not at all. `None`:
    /// this host has it at its path.
    async fn shown_by_another(
        &self,
        project_id: ProjectId,
        repo: &RepoSummary,
        params: &RepoParams,
    ) -> Result<Option<ShownRepos>, Refusal> {
        let places = &self.world.settings.worktrees.places;
        if !places.is_mirror(&places.of(repo.repo_id, &repo.path)) {
            return Ok(None);
        }
        let (alive, hosts) = (self.alive().await?, self.store.hosts_with(repo.repo_id).await?);
        let own = &self.world.host.id;
        let is_there = |host: &&String| *host != own && alive.contains(host);
        let Some(host) = hosts.iter().find(is_there) else {
            let message = format!(
                "this host has no repository at {}; those that have it are not there: {}",
                repo.path,
                hosts.join(", ")
            );
            return Err(Refusal::new(Code::DaemonUnavailable, message)
                .hint("Run the command again when the daemon of a host that has it runs.")
                .detail("hosts", hosts));
        };
        let asked = json!({
            "project_id": project_id, "repo": repo.repo_name, "branch": params.branch,
        });
        let arguments = asked.as_object().cloned().unwrap_or_default();
        let (tool, caller) = (SETTINGS.to_owned(), for_a_page());
        let answer = self.carry(host, ForwardedCall { tool, caller, arguments, id: None }).await?;
        let found = serde_json::from_value(answer.value);
        found.map(Some).map_err(|error| Refusal::internal(error.to_string()))
    }

    /// One repository's settings with their trust. Settings without commands need no trust.
    async fn shown_repo(
        &self,
        (repo_name, path): (String, String),
        (branch, commit): (String, String),
        settings: &RepoSettings,
    ) -> Result<ShownRepo, Refusal> {
        let hash = settings.commands_hash();
        let is_trusted = match &hash {
            Some(hash) => self.store.is_trusted(&path, hash).await?,
            None => true,
        };
        let entries = settings.entries().into_iter();
        let settings_shown =
            entries.map(|(key, it)| ShownSetting { key, value: it.value, origin: it.origin });
        Ok(ShownRepo {
            settings: settings_shown.collect(),
            commands: settings.commands_text(),
            branch,
            commit,
            hash,
            is_trusted,
            repo_name,
            path,
        })
    }
}
