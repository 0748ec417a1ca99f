//! Whether a turn may run in the sandbox that its executor has: whether this machine can provide it, and
//! whether it is as strict as the sandbox of whoever asked for the turn.

use std::path::Path;

use crate::attempt;
use crate::executor::Executors;
use crate::ids::AttemptId;
use crate::journal::Attempt;
use crate::refusal::{Code, Refusal};
use crate::sandbox::{self, Level, Wanted};
use crate::world::World;

/// The hint where this machine provides all of the sandbox but the network namespace.
const WITHOUT_NETWORK: &str = "Let this user make network namespaces (docs/security.md names the \
    settings of the kernel), or call the tool again with a variant that has sandbox = \
    \"workspace\": its network is open.";

/// Whether the executor's turns run in a sandbox.
///
/// # Errors
/// `sandbox_unavailable` where this machine can't provide it: no turn runs with less than is configured.
pub async fn require_available(
    world: &World,
    name: &str,
    variant: Option<&str>,
) -> Result<bool, Refusal> {
    let level = level(&*world.executors, name, variant);
    match attempt::box_obstacle(world, level).await {
        None => Ok(level != Level::None),
        Some(obstacle) => {
            let message = format!(
                "executor {name:?} is to run in a sandbox, and none can be had: {obstacle}"
            );
            let refusal = Refusal::new(Code::SandboxUnavailable, message);
            let refusal = refusal.detail("abi", sandbox::abi());
            Err(if level == Level::Strict { refusal.hint(WITHOUT_NETWORK) } else { refusal })
        }
    }
}

/// How strict the sandbox of an executor's variant is; none for an executor that is not configured.
pub fn level(executors: &dyn Executors, name: &str, variant: Option<&str>) -> Level {
    wanted(executors, name, variant).level
}

fn wanted(executors: &dyn Executors, name: &str, variant: Option<&str>) -> Wanted {
    executors.get(name).map(|it| it.sandbox(variant)).unwrap_or_default()
}

/// The strictest sandbox of the attempt's turns: the agents of all of them may be alive, and any may ask.
fn most_of(executors: &dyn Executors, attempt: &Attempt) -> Wanted {
    if let Some(executor) = executors.get(&attempt.executor) {
        return attempt::box_of_all_turns(&*executor, attempt);
    }
    let level = attempt.most_held.as_ref().map(|held| held.level).unwrap_or_default();
    Wanted { level, ..Wanted::default() }
}

/// What an agent in a sandbox starts needs a sandbox at least as strict: else starting an attempt would be a
/// way out of the sandbox. `parent` is the attempt whose agent asks; `None` is a person.
///
/// # Errors
/// `not_permitted`.
pub async fn require_as_strict_as_parent(
    world: &World,
    parent: Option<AttemptId>,
    executor: &str,
    variant: Option<&str>,
) -> Result<(), Refusal> {
    let Some(parent) = parent else { return Ok(()) };
    let Some(parent) = world.journal.attempt(parent).await? else { return Ok(()) };
    let executors = &*world.executors;
    let (own, least) = (wanted(executors, executor, variant), most_of(executors, &parent));
    if own.level < least.level {
        let (own, least) = (own.level.word(), least.level.word());
        let message = format!(
            "the agent of attempt {} runs in the sandbox {least:?}, and so has to what it starts: \
             executor {executor:?} has {own:?} here",
            parent.attempt_id,
        );
        return Err(Refusal::new(Code::NotPermitted, message).hint(format!(
            "Call the tool again with an executor, or a variant, that has sandbox = {least:?}. Or \
             a person starts the attempt.",
        )));
    }
    if least.level == Level::None {
        return Ok(());
    }
    let home = world.settings.launch.environment.get("HOME").map(Path::new);
    let beyond = own.beyond(&least, home);
    if beyond.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the agent of attempt {} runs in a sandbox, and executor {executor:?} would open for it what \
         that one does not: {}",
        parent.attempt_id,
        beyond.join(", ")
    );
    Err(Refusal::new(Code::NotPermitted, message).hint(format!(
        "Call the tool again with an executor whose sandbox_read, sandbox_write and allow_hosts open \
         no more. Or a person adds these to the lists of [executors.{}] in config.toml and restarts \
         the daemon, or starts the attempt.",
        parent.executor
    )))
}

/// An executor that answers an agent's question needs a sandbox at least as strict as the agent's.
///
/// # Errors
/// `not_permitted`: it is less strict, or the asking attempt is unknown. The question is left to a person.
pub async fn as_its_asker(
    world: &World,
    asker: AttemptId,
    executor: &str,
    variant: Option<&str>,
) -> Result<(), Refusal> {
    let Some(asker) = world.journal.attempt(asker).await? else {
        return Err(left_to_person("it is not known what holds you"));
    };
    let executors = &*world.executors;
    let (own, least) = (wanted(executors, executor, variant), most_of(executors, &asker));
    let home = world.settings.launch.environment.get("HOME").map(Path::new);
    if least.level == Level::None {
        Ok(())
    } else if own.level < least.level {
        let (own, least) = (own.level.word(), least.level.word());
        Err(left_to_person(&format!("its sandbox, {own:?}, holds less than yours, {least:?}")))
    } else if own.beyond(&least, home).is_empty() {
        Ok(())
    } else {
        Err(left_to_person("its sandbox opens what yours does not"))
    }
}

/// The refusal to have an executor answer a question. `why` continues "because".
pub fn left_to_person(why: &str) -> Refusal {
    let message = format!(
        "the executor that answers questions was not asked, because {why}: the question is in the \
         inbox, for a person"
    );
    Refusal::new(Code::NotPermitted, message).hint(
        "Call createTicket instead, or continue with other work: the answer is delivered later.",
    )
}
