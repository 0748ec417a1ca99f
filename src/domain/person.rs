//! The methods behind the verbs for a person at a worktree: its environment, and how the attempt was
//! started.

use provost_actors::attempt;
use provost_actors::ids::AttemptId;
use provost_actors::journal::Attempt;
use provost_actors::refusal::Refusal;

use super::Domain;
use crate::api::person::{Environment, OfAttemptParams, StartedAs, StartedRepo};

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

    async fn attempt(&self, id: AttemptId) -> Result<Attempt, Refusal> {
        // Refuses one that was never started.
        self.store.project_of(id).await?;
        let found = self.world.journal.attempt(id).await?;
        found.ok_or_else(|| Refusal::internal(format!("attempt {id} can't be read")))
    }
}
