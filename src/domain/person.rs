//! The methods behind the verbs for a person at a worktree: its environment, how the attempt was
//! started, and the removal of a project.

use provost_actors::attempt::{self, CollectVerdict};
use provost_actors::host;
use provost_actors::ids::AttemptId;
use provost_actors::journal::Attempt;
use provost_actors::refusal::Refusal;

use super::Domain;
use crate::api::attempts::AttemptPhase;
use crate::api::commands::{CollectedAttempt, GcParams};
use crate::api::person::{
    Environment, OfAttemptParams, RemoveProjectParams, RemovedProject, StartedAs, StartedRepo,
};
use crate::store::busy_project;

impl Domain {
    pub(super) async fn environment(&self, of: OfAttemptParams) -> Result<Environment, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        let ports = self.provision(of.attempt_id).await.map(|it| it.ports).unwrap_or_default();
        let variables = attempt::own_variables(&self.world.settings, &attempt, &ports);
        Ok(Environment { variables })
    }

    pub(super) async fn started_as(&self, of: OfAttemptParams) -> Result<StartedAs, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        let (prompt, variant) = self.store.first_prompt(of.attempt_id).await?;
        let repos = attempt.repos.into_iter();
        let (from_attempt_id, from_turn) =
            attempt.fork.map(|fork| (fork.attempt_id, fork.turn)).unzip();
        Ok(StartedAs {
            task_id: attempt.task_id,
            executor: attempt.executor,
            variant,
            repos: repos
                .map(|repo| StartedRepo {
                    repo_id: repo.repo_id,
                    target_branch: repo.target_branch,
                })
                .collect(),
            prompt,
            from_attempt_id,
            from_turn,
            last_prompt: attempt.process.prompt,
        })
    }

    /// Takes the worktrees away, and then the project off the board. What is cut off, or refused
    /// because of a worktree, can be done again.
    pub(super) async fn remove_project(
        &self,
        wish: RemoveProjectParams,
    ) -> Result<RemovedProject, Refusal> {
        let id = wish.project_id;
        let (name, tasks) = self.store.project_size(id).await?;
        let attempts = self.store.overview(true).await?;
        let is_of = |host: &Option<String>| host.as_ref() == Some(&self.world.host.id);
        let is_busy = |phase: AttemptPhase| phase.is_busy() || phase == AttemptPhase::Waiting;
        let mut of_project = attempts.iter().filter(|it| it.line.project_id == id);
        if let Some(busy) = of_project.find(|attempt| is_busy(attempt.line.phase)) {
            return Err(busy_project(busy.line.attempt_id));
        }
        let mut of_project = attempts.iter().filter(|it| it.line.project_id == id);
        if let Some(other) = of_project.find(|attempt| !is_of(&attempt.line.host)) {
            let what = format!("attempt {} of the project", other.line.attempt_id);
            return Err(host::elsewhere(&what, other.line.host.as_deref().unwrap_or_default()));
        }
        let yes = wish.yes;
        let all = GcParams { yes, snapshot: true, older_than_secs: 0, project_id: Some(id) };
        let collected = self.gc(all).await?;
        let is_kept = |it: &CollectedAttempt| it.collection.verdict == CollectVerdict::Kept;
        let removed = yes && !collected.attempts.iter().any(is_kept);
        if removed {
            self.store.remove_project(id).await?;
            attempt::wake_pushes(&self.world);
        }
        Ok(RemovedProject { project_id: id, name, removed, tasks, collected })
    }

    async fn attempt(&self, id: AttemptId) -> Result<Attempt, Refusal> {
        // Refuses one that was never started.
        self.store.project_of(id).await?;
        let found = self.world.journal.attempt(id).await?;
        found.ok_or_else(|| Refusal::internal(format!("attempt {id} can't be read")))
    }
}
