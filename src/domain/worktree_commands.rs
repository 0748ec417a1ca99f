//! The methods behind the commands for a person at a worktree (`provost shell`, `provost resume`, …): its
//! environment, what runs in it, and how the attempt was started.

use provost_actors::attempt::{self, resume};
use provost_actors::gateway::{self, GatewayMessage};
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Attempt, Phase};
use provost_actors::refusal::Refusal;
use provost_actors::sandbox::Level;
use provost_actors::workspace::turn_snapshot;

use super::Domain;
use crate::api::person::{
    ByHand, EndedByHand, Environment, OfAttemptParams, Quieted, StartedAs, StartedRepo,
};

impl Domain {
    /// The variables that the attempt's executor and its scripts get, with the reserved ports.
    pub(super) async fn environment(&self, of: OfAttemptParams) -> Result<Environment, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        let ports = self.provision(of.attempt_id).await.map(|it| it.ports).unwrap_or_default();
        let variables = attempt::own_variables(&self.world.settings, &attempt, &ports);
        Ok(Environment { variables })
    }

    /// Called before a person's programs run in a worktree. If the agent is sandboxed, ends what it left
    /// running and repairs what git would execute there. Without a sandbox, the agent could do the same
    /// to the person anyway.
    pub(super) async fn quiet_worktree(&self, of: OfAttemptParams) -> Result<Quieted, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        let is_boxed = self.world.executors.get(&attempt.executor).is_none_or(|executor| {
            executor.sandbox(attempt.process.variant.as_deref()).level != Level::None
        });
        let notices = if is_boxed { self.quiet(&attempt).await? } else { Vec::new() };
        Ok(Quieted { notices })
    }

    /// What a person runs to continue the session in the executor's own interface.
    ///
    /// # Errors
    /// A turn runs, or the executor has no such interface.
    pub(super) async fn by_hand(&self, of: OfAttemptParams) -> Result<ByHand, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        resume::by_hand(&self.world, &attempt).await.map(ByHand)
    }

    /// Called when the person's program has ended: a login token that it renewed is copied back.
    pub(super) async fn ended_by_hand(&self, of: OfAttemptParams) -> Result<EndedByHand, Refusal> {
        let attempt = self.attempt(of.attempt_id).await?;
        resume::ended(&self.world, &attempt).await;
        Ok(EndedByHand {})
    }

    /// With what the attempt was started: `provost retry` starts another one the same way.
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

    /// Ends what earlier turns left running in the sandbox, which could plant files that a person's
    /// programs execute, and then repairs the worktrees. A dev server or a running turn is not ended: a
    /// notice says what it can do.
    async fn quiet(&self, attempt: &Attempt) -> Result<Vec<String>, Refusal> {
        let (id, mut notices) = (attempt.attempt_id, Vec::new());
        let short = id.short();
        if self.previewed(id).await.is_some_and(|it| it.state.is_alive()) {
            notices.push(format!(
                "Its dev server runs in the sandbox, and can change what your programs read: \
                 `provost preview {short} --stop` ends it."
            ));
        }
        if !matches!(attempt.phase, Phase::Settled | Phase::Idle) {
            notices.push(
                "It has a turn that runs or waits: your programs read what its agent writes \
                 meanwhile."
                    .to_owned(),
            );
            return Ok(notices);
        }
        if !attempt.leftovers.is_empty() {
            let stop = |port| GatewayMessage::Stop(None, id, false, port);
            let stopped = gateway::ask(&self.gateway, stop).await?.value;
            notices.extend((!stopped.signals.is_empty()).then(|| {
                "What its turns had left running was ended: it could change what your programs \
                 read."
                    .to_owned()
            }));
            notices.extend(
                (stopped.survivors > 0).then(|| {
                    format!("{} of its processes could not be killed.", stopped.survivors)
                }),
            );
        }
        for repo in &attempt.repos {
            let source = self.world.settings.source(attempt, repo);
            let putting = Box::pin(turn_snapshot::put_back(&source, &repo.base_commit));
            if let Err(error) = putting.await {
                notices.push(format!(
                    "What git opens in {} could not be put back: {error}. Run no git there.",
                    source.worktree().display()
                ));
            }
        }
        Ok(notices)
    }

    async fn attempt(&self, id: AttemptId) -> Result<Attempt, Refusal> {
        // Gives the right refusal for an attempt that does not exist.
        self.store.project_of(id).await?;
        let found = self.world.journal.attempt(id).await?;
        found.ok_or_else(|| Refusal::internal(format!("attempt {id} can't be read")))
    }
}
