//! What is configured for the worktrees of repositories, and whose commands a person trusts.

use std::path::Path;

use provost_actors::attempt::provision::trusted_by;
use provost_actors::executor::Verdict;
use provost_actors::gateway;
use provost_actors::ids::{ApprovalId, AttemptId};
use provost_actors::journal::{ApprovalStatus, Approvals, Provisions};
use provost_actors::repo_settings::{REPO_FILE, RepoSettings};
use provost_actors::workspace::{committed, git};

use super::Domain;
use crate::api::commands::{
    RepoParams, ShownRepo, ShownRepos, ShownSetting, TrustParams, TrustedRepos,
};
use crate::api::projects::RepoSummary;
use crate::api::{Caller, Code, Refusal};

/// Most approvals that one `provost trust` answers.
const APPROVALS_MAX: usize = 1000;

impl TrustParams {
    fn approves(&self, hash: &String) -> bool {
        self.yes && self.seen.as_ref().is_none_or(|seen| seen.contains(hash))
    }
}

impl Domain {
    pub(super) async fn repo_settings(&self, params: RepoParams) -> Result<ShownRepos, Refusal> {
        Ok(ShownRepos { repos: self.shown(&params).await? })
    }

    pub(super) async fn trust(&self, params: TrustParams) -> Result<TrustedRepos, Refusal> {
        let mut repos = self.shown(&params.repos).await?;
        let (mut released, mut revoked) = (Vec::new(), 0);
        for repo in &mut repos {
            if params.revoke {
                revoked += self.store.distrust(&repo.path).await?;
                repo.is_trusted = false;
            } else if let Some(hash) = repo.hash.as_ref().filter(|hash| params.approves(hash)) {
                self.store.trust(&repo.path, hash, &repo.commands, "provost trust").await?;
                repo.is_trusted = true;
                released.extend(self.release(&repo.path, hash).await?);
            }
        }
        Ok(TrustedRepos { repos, released, revoked })
    }

    /// Approves the requests that wait for this trust. Returns their attempts.
    async fn release(&self, repo: &str, hash: &str) -> Result<Vec<AttemptId>, Refusal> {
        let pending = Some(ApprovalStatus::Pending);
        let waiting = self.store.approvals(None, pending, None, APPROVALS_MAX).await?;
        let mut released = Vec::new();
        for approval in waiting.items {
            let is_meant = trusted_by(&approval.request)
                .is_some_and(|trusted| trusted.repo == repo && trusted.hash == hash);
            if is_meant {
                let (gateway, world, id) = (&self.gateway, &self.world, approval.approval_id);
                gateway::respond(gateway, world, None, id, Verdict::Approve).await?;
                released.push(approval.attempt_id);
            }
        }
        Ok(released)
    }

    /// An approval of a repository's commands: only a person gives it, and it is kept for all
    /// attempts before this one goes on.
    pub(super) async fn trust_by_approval(
        &self,
        caller: &Caller,
        id: ApprovalId,
        verdict: &Verdict,
    ) -> Result<(), Refusal> {
        let Some(approval) = self.store.approval(id).await? else { return Ok(()) };
        let Some(trusted) = trusted_by(&approval.request) else { return Ok(()) };
        if !caller.is_person {
            let message = "only a person can approve the commands of a repository's provost.toml";
            return Err(Refusal::new(Code::NotPermitted, message).hint(
                "Ask a person to read them with `provost trust`, and to approve them there.",
            ));
        }
        if *verdict == Verdict::Approve && approval.status == ApprovalStatus::Pending {
            let commands = &approval.request.text;
            self.store.trust(&trusted.repo, &trusted.hash, commands, "provost approve").await?;
        }
        Ok(())
    }

    async fn shown(&self, params: &RepoParams) -> Result<Vec<ShownRepo>, Refusal> {
        let project = self.store.project_name(params.project_id).await?;
        let mut repos = self.store.repos(params.project_id).await?;
        let names: Vec<String> = repos.iter().map(|repo| repo.repo_name.clone()).collect();
        if let Some(name) = &params.repo {
            repos.retain(|repo| repo.repo_name == *name);
            if repos.is_empty() {
                let message =
                    format!("the project has no repository {name:?}; it has: {}", names.join(", "));
                return Err(Refusal::new(Code::RepoNotFound, message));
            }
        }
        let mut shown = Vec::new();
        for repo in repos {
            shown.push(self.shown_repo(params, &project, repo).await?);
        }
        Ok(shown)
    }

    async fn shown_repo(
        &self,
        params: &RepoParams,
        project: &str,
        repo: RepoSummary,
    ) -> Result<ShownRepo, Refusal> {
        let path = Path::new(&repo.path);
        let unusable = |error: String| {
            Refusal::new(Code::WorkspaceFailed, format!("{}: {error}", repo.path))
                .detail("repo_path", repo.path.as_str())
        };
        let branch = params.branch.as_ref().unwrap_or(&repo.default_target_branch);
        let tip =
            git::branch_tip(path, branch).await.map_err(|error| unusable(error.to_string()))?;
        let commit = tip.ok_or_else(|| unusable(format!("there is no branch {branch:?}")))?;
        let text = committed::text(path, &commit, REPO_FILE).await;
        let text = text.map_err(|error| unusable(format!("{REPO_FILE}: {error}")))?;
        let config = &self.world.settings.repos;
        let own = match text {
            Some(text) => (config.read)(&text).map_err(|error| {
                Refusal::new(Code::InvalidArgument, format!("{error} (in commit {commit})"))
                    .hint(format!("Mend {REPO_FILE} in a commit on {branch}."))
            })?,
            None => RepoSettings::default(),
        };
        let project_id = params.project_id.to_string();
        let settings = own.under(config.of(&project_id, project, &repo.repo_name));
        let hash = settings.commands_hash();
        let is_trusted = match &hash {
            Some(hash) => self.store.is_trusted(&repo.path, hash).await?,
            None => true,
        };
        let entries = settings.entries().into_iter();
        Ok(ShownRepo {
            branch: branch.clone(),
            commit,
            settings: entries
                .map(|(key, it)| ShownSetting { key, value: it.value, origin: it.origin })
                .collect(),
            commands: settings.commands_text(),
            hash,
            is_trusted,
            repo_name: repo.repo_name,
            path: repo.path,
        })
    }
}
