//! Where an attempt at rest is continued: on this host if its own is lost, on a host with the repository
//! if its work has to leave the worktrees; and what a start needs on a host without the repository at its
//! path.

use std::path::Path;

use provost_actors::attempt::{ensure_base, keep_base};
use provost_actors::gateway::{StartRequest, bring_here, is_able};
use provost_actors::host::{Host, HostRole};
use provost_actors::ids::AttemptId;
use provost_actors::journal::{
    AttemptRepo, Attempts as _, Bundles as _, Finishes as _, Hosts as _, MovedFrom, Repo,
    Tasks as _,
};
use provost_actors::workspace::bundle;
use provost_actors::workspace::git;
use provost_actors::workspace::push::{RemoteBranch, check_url};
use serde_json::{Map, json};

use super::Domain;
use super::elsewhere::for_a_page;
use crate::api::commands::{BaseParams, FoundBase};
use crate::api::placed::Needs;
use crate::api::{Code, ForwardedCall, OtherHosts as _, Refusable, Refusal};

impl Domain {
    /// The host that has to carry out a call about an attempt at rest, if it is not this one. Moves the
    /// attempt here where that is needed. `host` has the attempt now. In this order:
    ///
    /// 1. The call needs the repository, and `host` lacks it: this host if it has it, else another one that
    ///    has it.
    /// 2. The call may begin a turn, and the host would be a gateway, which runs none: this host, or a
    ///    runner if this one is a gateway too.
    /// 3. `host` if it is there; else the attempt is moved here.
    pub(super) async fn carrier_of(
        &self,
        attempt: AttemptId,
        host: String,
        needs: Needs,
    ) -> Refusable<Option<String>> {
        let own = &self.world.host.id;
        let alive = self.alive().await?;
        let is_alive = alive.contains(&host);
        let from = |host: String| {
            if is_alive { MovedFrom::Alive(host) } else { MovedFrom::Lost(host) }
        };
        if needs == Needs::Repository && self.store.lacks_repo(attempt, &host).await? {
            if host != *own && !self.store.lacks_repo(attempt, own).await? {
                let from = from(host);
                bring_here(&self.gateway, &self.world, attempt, from).await?;
                return Ok(None);
            }
            for other in alive.iter().filter(|other| *other != own && **other != host) {
                if !self.store.lacks_repo(attempt, other).await? {
                    return Ok(Some(other.clone()));
                }
            }
        }
        let target = if is_alive { &host } else { own };
        if needs == Needs::Turn && self.is_gateway(target).await? {
            if self.world.host.role == HostRole::Gateway {
                let runner = self.runner(attempt, &alive).await?;
                return Ok(runner.or(Some(host)).filter(|it| it != own));
            }
            bring_here(&self.gateway, &self.world, attempt, from(host)).await?;
            return Ok(None);
        }
        if host == *own {
            return Ok(None);
        }
        if is_alive {
            return Ok(Some(host));
        }
        match bring_here(&self.gateway, &self.world, attempt, from(host.clone())).await {
            Ok(()) => Ok(None),
            // The board lacks what this host would need, so only the lost host can do it.
            Err(refusal) if refusal.code == Code::DaemonUnavailable => Ok(Some(host)),
            Err(refusal) => Err(refusal),
        }
    }

    /// True if the host only serves callers, and runs no attempts.
    async fn is_gateway(&self, host: &str) -> Refusable<bool> {
        let hosts = self.store.hosts().await?;
        Ok(hosts.iter().any(|it| it.host_id == host && it.role == HostRole::Gateway))
    }

    /// A host that can run the next turn of an attempt at rest: it is there, and fits the attempt's
    /// demand.
    async fn runner(&self, attempt: AttemptId, alive: &[String]) -> Refusable<Option<String>> {
        let Some(found) = self.store.attempt(attempt).await? else { return Ok(None) };
        let hosts = self.store.hosts().await?.into_iter();
        let mut fit = hosts.filter(|it| it.runs(&found.demand()) && alive.contains(&it.host_id));
        Ok(fit.next().map(|it| it.host_id))
    }

    /// The ids of the hosts with a valid lease.
    pub(super) async fn alive(&self) -> Refusable<Vec<String>> {
        let is_there = |host: &Host| host.liveness().is_there();
        let hosts = self.store.hosts().await?.into_iter();
        Ok(hosts.filter(is_there).map(|host| host.host_id).collect())
    }

    /// Makes mirrors of those repositories of a start that this host does not have, with the target
    /// branches as they are in the repository.
    pub(super) async fn have_mirrors(&self, request: &StartRequest) -> Refusable<()> {
        // If another host will run the attempt, that host makes the mirrors.
        let is_here = is_able(&self.world, &request.executor).await.unwrap_or(false);
        if !self.world.host.has_lease || !is_here {
            return Ok(());
        }
        let wanted = request.repos.as_ref().filter(|wanted| !wanted.is_empty());
        let source = match request.fork {
            Some((id, _)) => self.store.attempt(id).await?,
            None => None,
        };
        for repo in self.store.start_context(request.task_id).await?.repos {
            let place = self.world.settings.worktrees.places.of(repo.repo_id, &repo.path);
            let forked =
                source.as_ref().map(|it| it.repos.iter().find(|its| its.repo_id == repo.repo_id));
            let chosen = wanted.map(|all| all.iter().find(|(id, _)| *id == repo.repo_id));
            let is_left_out = chosen.map_or(forked == Some(None), |chosen| chosen.is_none());
            if is_left_out || !self.world.settings.worktrees.places.is_mirror(&place) {
                continue;
            }
            let branch = match chosen.flatten() {
                Some((_, branch)) => branch.clone(),
                None => forked.flatten().map(|its| its.target_branch.clone()),
            };
            let branch = branch.unwrap_or_else(|| repo.default_target_branch.clone());
            match (self.have_mirror(repo, &place, branch).await, forked.flatten()) {
                // A fork begins from a commit that the board has, so it works also if no host has the
                // branch now.
                (Err(refusal), Some(its)) if refusal.code == Code::DaemonUnavailable => {
                    let is_agents = source.as_ref().is_some_and(|it| it.fork.is_some());
                    let had = ensure_base(&self.world, its, is_agents).await;
                    had.map_err(|why| Refusal::new(Code::WorkspaceFailed, why))?;
                }
                (made, _) => made?,
            }
        }
        Ok(())
    }

    /// Makes the mirror of one repository, with the target branch at its current commit.
    async fn have_mirror(&self, repo: Repo, place: &Path, branch: String) -> Refusable<()> {
        let failed = |why: String| Refusal::new(Code::WorkspaceFailed, why);
        let base_commit = self.base(&repo, place, &branch).await?;
        let named = format!("refs/heads/{branch}");
        let Repo { repo_id, name, path: board_path, .. } = repo;
        let path = place.to_string_lossy().into_owned();
        let (target_branch, commit) = (branch, base_commit.clone());
        let repo = AttemptRepo { repo_id, name, path, board_path, target_branch, base_commit };
        ensure_base(&self.world, &repo, false).await.map_err(failed)?;
        // Set explicitly, because the branch may have been reset to an older commit since the last start.
        let referred = bundle::refer(place, &named, &commit).await;
        referred.map_err(|error| failed(error.to_string()))
    }

    /// The commit of a branch: from a host that has the repository and is there, else from a recorded
    /// remote.
    async fn base(&self, repo: &Repo, place: &Path, branch: &str) -> Refusable<String> {
        let alive = self.alive().await?;
        let hosts = self.store.hosts_with(repo.repo_id).await?;
        let own = &self.world.host.id;
        if let Some(host) = hosts.iter().find(|host| *host != own && alive.contains(host)) {
            let params = json!({"repo_id": repo.repo_id, "branch": branch});
            let arguments = params.as_object().cloned().unwrap_or_else(Map::new);
            let tool = "provost/base".to_owned();
            let call = ForwardedCall { tool, caller: for_a_page(), arguments, id: None };
            let answer = self.carry(host, call).await?;
            let found: FoundBase = serde_json::from_value(answer.value)
                .map_err(|error| Refusal::internal(error.to_string()))?;
            return Ok(found.commit);
        }
        let made = bundle::make_mirror(place, false).await;
        made.map_err(|error| Refusal::new(Code::WorkspaceFailed, error.to_string()))?;
        let scratch = &self.world.settings.folders.scratch;
        for url in self.store.remotes(repo.repo_id).await?.values() {
            if check_url(url).is_err() {
                continue;
            }
            match (RemoteBranch { repo: place, scratch, url, branch }).tip().await {
                Ok(Some(commit)) => return Ok(commit),
                Ok(None) => {}
                Err(error) => tracing::warn!(repo = repo.path, %error, "a remote can't be read"),
            }
        }
        let away = if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") };
        let message = format!(
            "branch {branch:?} of {} can't be had here: {away} has the repository, and neither its \
             daemon nor a remote has the branch now",
            repo.path
        );
        Err(Refusal::new(Code::DaemonUnavailable, message)
            .hint("Call the tool again when the daemon of a host with the repository runs.")
            .detail("hosts", hosts))
    }

    /// The commit of a branch of a repository of this host. The commit is kept for other hosts, so that
    /// the host that asks can fetch it.
    pub(super) async fn find_base(&self, params: BaseParams) -> Refusable<FoundBase> {
        let BaseParams { repo_id, branch } = params;
        let failed = |why: String| Refusal::new(Code::WorkspaceFailed, why);
        let path = self.store.repo_paths().await?.into_iter().find(|(id, _)| *id == repo_id);
        let (_, path) = path.ok_or_else(|| failed(format!("there is no repository {repo_id}")))?;
        let place = self.world.settings.worktrees.places.of(repo_id, &path);
        let tip = git::branch_tip(&place, &branch).await;
        let tip = tip.map_err(|error| failed(format!("{path}: {error}")))?;
        let commit = tip.ok_or_else(|| {
            let message = format!("{path} has no branch {branch:?} with a commit on it");
            Refusal::new(Code::BranchNotFound, message).detail("target_branch", branch.as_str())
        })?;
        let kept = keep_base(&self.world, repo_id, &place, &commit).await;
        kept.map_err(|error| failed(format!("{path}: {error}")))?;
        Ok(FoundBase { commit })
    }
}
