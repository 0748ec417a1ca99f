//! What a person needs to continue an attempt's session by hand (`provost resume`): the executor's own
//! terminal interface, in the worktree, in the sandbox of the attempt's turns and with its state.
//!
//! While the person's program runs it holds a lock of a file. [`obstacle`] sees that, and no turn begins.

use std::fs::File;
use std::path::PathBuf;

use super::own_state::{self, Session};
use super::prepare;
use super::provision::Provision;
use super::sandbox_plan;
use super::variables;
use crate::blocking::blocking;
use crate::executor::Executor;
use crate::ids::AttemptId;
use crate::journal::{Attempt, Phase};
use crate::process::by_hand::ByHand;
use crate::refusal::{Code, Refusal};
use crate::sandbox::Level;
use crate::world::{ActorSettings, World};

/// The file in the attempt's folder that is locked while a person works by hand.
const LOCK: &str = "by-hand.lock";

fn lock(settings: &ActorSettings, attempt: AttemptId) -> PathBuf {
    settings.attempt_dir(attempt).join(LOCK)
}

/// All that starts the interface. The command of the person starts it, not the daemon.
///
/// # Errors
/// A turn runs or waits; there is no session or no worktree; the executor has no such interface; or the
/// sandbox is one that only a turn can have.
pub async fn by_hand(world: &World, attempt: &Attempt) -> Result<ByHand, Refusal> {
    world.host.require(attempt)?;
    let name = &attempt.executor;
    is_at_rest(attempt)?;
    let id = session(attempt)?;
    let executor = world.executors.get(name).ok_or_else(|| {
        let gone = format!("executor {name:?} is not configured any longer");
        Refusal::new(Code::ExecutorNotFound, gone).hint(SHELL)
    })?;
    let wanted = executor.sandbox(attempt.process.variant.as_deref());
    let interface = interface(&*executor, attempt, &id)?;
    has_worktree(world, attempt).await?;
    if wanted.level == Level::Strict {
        let message = "the sandbox of its variant is \"strict\", and only a turn has the proxy that \
                       its network goes through";
        return Err(Refusal::new(Code::SandboxUnavailable, message).hint(SEND));
    }
    let is_boxed = wanted.level != Level::None;
    let holds = own_state::holds(world, attempt.attempt_id, wanted.state, id.clone()).await;
    if !is_boxed && holds {
        let message = "its session is of turns in a sandbox, and its newest variant has none";
        return Err(Refusal::new(Code::NoSessionYet, message).hint(SEND));
    }
    let cwd = prepare::working_dir(world, attempt);
    let session = Session { of: attempt.attempt_id, id, cwd: cwd.clone() };
    let failed = |text: String| Refusal::new(Code::SpawnFailed, text);
    let boxed =
        sandbox_plan::around(world, attempt, &*executor, Some(session)).await.map_err(failed)?;
    let provision = Provision::of(world, attempt).await.map_err(failed)?;
    let mut env = variables::of(&world.settings, &interface.env, attempt, &provision.ports);
    if let Some(boxed) = &boxed {
        boxed.change(&mut env);
    }
    let program = interface.program;
    let sandbox = match boxed {
        Some(boxed) => Some(boxed.holding(world, program.clone()).await.map_err(failed)?),
        None => None,
    };
    let lock = lock(&world.settings, attempt.attempt_id);
    Ok(ByHand { program, args: interface.args, env, cwd, sandbox, lock })
}

/// A person has ended the interface: a token that it has renewed goes back to the person's credentials.
pub async fn ended(world: &World, attempt: &Attempt) {
    own_state::in_step(world, attempt).await;
}

/// Hints: what else a person can do.
const SHELL: &str = "`provost shell ATTEMPT` starts a shell in its worktree.";
const SEND: &str = "Call follow_up with action = \"send\". The agent's next turn goes on with it.";

/// Refuses while a turn runs or waits.
fn is_at_rest(attempt: &Attempt) -> Result<(), Refusal> {
    if matches!(attempt.phase, Phase::Settled | Phase::Idle) {
        return Ok(());
    }
    let message = format!("attempt {} has a turn that runs or waits", attempt.attempt_id.short());
    Err(Refusal::new(Code::TurnActive, message))
}

/// The executor's id of the attempt's session.
fn session(attempt: &Attempt) -> Result<String, Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let id = attempt.process.executor_session_id.clone();
    // An agent has chosen this text, and it becomes an argument of a command.
    let id = id.filter(|id| !id.starts_with('-') && id.chars().all(plain));
    id.ok_or_else(|| {
        let message = format!(
            "attempt {} has no session of its agent that could be resumed",
            attempt.attempt_id.short()
        );
        Refusal::new(Code::NoSessionYet, message).hint(SEND)
    })
}

/// The command line of the interface.
fn interface(
    executor: &dyn Executor,
    attempt: &Attempt,
    id: &str,
) -> Result<crate::executor::Launch, Refusal> {
    let resumed = executor.resume(attempt.process.variant.as_deref(), id);
    let unavailable = |text: String| Refusal::new(Code::ExecutorUnavailable, text).hint(SHELL);
    resumed.map_err(unavailable)?.ok_or_else(|| {
        unavailable(format!(
            "executor {:?} has no terminal interface that is known: `resume` in its table names the \
             arguments",
            attempt.executor
        ))
    })
}

/// Refuses without worktrees, or if a link has taken the place of one.
async fn has_worktree(world: &World, attempt: &Attempt) -> Result<(), Refusal> {
    let gone = |why: String| Refusal::new(Code::WorkspaceFailed, why).hint(SEND);
    let has = prepare::has_worktrees(world, attempt.attempt_id).await;
    if !has.map_err(|error| gone(error.to_string()))? {
        let id = attempt.attempt_id.short();
        return Err(gone(format!("the worktree of attempt {id} is gone")));
    }
    prepare::real_worktrees(world, attempt).await.map_err(gone)
}

/// A sentence that says why no turn may begin now: a person continues the session by hand. `None` also if
/// that can't be found out.
pub async fn obstacle(world: &World, attempt: &Attempt) -> Option<String> {
    let path = lock(&world.settings, attempt.attempt_id);
    let looked = blocking(move || {
        let Ok(file) = File::open(path) else { return Ok(false) };
        Ok::<_, std::io::Error>(file.try_lock_shared().is_err())
    });
    looked.await.unwrap_or(false).then(|| {
        "a person goes on with its session by hand (`provost resume`): end that, then send the \
         prompt again"
            .to_owned()
    })
}
