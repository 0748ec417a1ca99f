//! Checks of a start before anything is written. Reads only. Runs in the task of the call, and never in the
//! gateway's own `handle`.

use ractor::ActorRef;
use serde::Serialize;
use serde_json::json;

use crate::event::{ProcessStatus, RunReason};
use crate::executor::{Description, Executors, Unavailable};
use crate::host::{self, Demand, HostChoice, HostRole};
use crate::ids::{AttemptId, ProcessId, SessionId};
use crate::journal::{Attempt, AttemptRepo, Phase, Process, Repo, StartContext, State};
use crate::nearest::nearest;
use crate::refusal::{Code, Refusal};
use crate::sandbox::Level;
use crate::world::World;

use super::fork::{self, Source};
use super::message::{GatewayMessage, StartRequest};
use super::repository::{has_room, no_branch, tip, with_branch};
use super::{ending, sandbox_rules};

/// Checks a start and resolves it, down to the last name. The gateway then decides the phase.
///
/// # Errors
/// The task, executor, variant, repository or branch does not exist, a dependency is not done, the executor
/// can't run, or another host has to begin it (`elsewhere`: the caller forwards it).
pub async fn start(
    gateway: &ActorRef<GatewayMessage>,
    world: &World,
    request: &StartRequest,
) -> Result<Attempt, Refusal> {
    let context = world.journal.start_context(request.task_id).await?;
    let variant = request.variant.as_deref();
    let mut wanted = demand(world, &request.executor);
    if context.is_answer {
        // Its asker runs, and waits for it: an answer must not wait for memory that the asker has.
        wanted.memory = 0;
    }
    let source_host = fork::host(world, request.fork, &wanted).await?;
    let is_here = source_host.as_ref().is_some_and(|host| *host == world.host.id);
    if let Some(other) = source_host.filter(|_| !is_here && !request.is_carried) {
        let what = format!("what a start of executor {:?} begins from", request.executor);
        return Err(host::elsewhere(&what, &other));
    }
    let must_be_here = context.is_answer || is_here;
    // Checked after the choice of a host: the host that runs the executor judges whether it can.
    let host = match place(gateway, world, request, &wanted, must_be_here).await? {
        HostChoice::On(other) => {
            let what = format!("a start of executor {:?}", request.executor);
            return Err(host::elsewhere(&what, &other));
        }
        HostChoice::Here => world.host.id.clone(),
        HostChoice::Anywhere => String::new(),
    };
    executor(&*world.executors, &request.executor, variant)?;
    let is_boxed = sandbox_rules::require_available(world, &request.executor, variant).await?
        || sandbox_rules::level(&*world.executors, &request.executor, None) != Level::None;
    sandbox_rules::require_as_strict_as_parent(world, request.parent, &request.executor, variant)
        .await?;
    dependencies(&context, request.ignore_dependencies)?;
    let source = Box::pin(fork::source(world, &context, request.fork)).await?;
    let (mut repos, chosen) = (Vec::new(), chosen(&context, request, source.as_ref())?);
    for (n, (repo, branch)) in chosen.iter().enumerate() {
        let again = |other: &str| with_branch(request, &chosen, n, other);
        let place = world.settings.worktrees.places.of(repo.repo_id, &repo.path);
        let path = place.as_path();
        let Some(base_commit) = tip(path, branch).await? else {
            return Err(no_branch(path, branch, again).await);
        };
        Box::pin(has_room(path, &world.settings.worktrees.branch_prefix)).await?;
        let begun = match &source {
            Some(source) => Box::pin(source.commit_of(world, repo.repo_id)).await?,
            None => None,
        };
        let base_commit = begun.unwrap_or(base_commit);
        let Repo { repo_id, name, path: board_path, .. } = (*repo).clone();
        let (target_branch, path) = ((*branch).to_owned(), place.to_string_lossy().into_owned());
        let repo = AttemptRepo { repo_id, name, path, board_path, target_branch, base_commit };
        repos.push(repo);
    }
    let attempt_id = AttemptId::new();
    let folder = folder(attempt_id, &context.task.title);
    Ok(Attempt {
        attempt_id,
        task_id: context.task.task_id,
        task_title: context.task.title.clone(),
        project_id: context.task.project_id,
        project_name: context.project_name.clone(),
        priority: context.task.priority,
        is_answer: context.is_answer,
        branch: branch(&world.settings.worktrees.branch_prefix, attempt_id, &folder, is_boxed),
        folder,
        repos,
        executor: request.executor.clone(),
        host,
        labels: wanted.labels,
        memory: wanted.memory,
        parent: request.parent,
        fork: source.map(|source| source.fork),
        session_id: SessionId::new(),
        phase: Phase::Queued,
        state: State::Idle,
        epoch: 1,
        ended_as: None,
        leftovers: vec![],
        waiting: vec![],
        held: false,
        finish: None,
        lends: None,
        dev_server: None,
        snapshot_due: false,
        most_held: None,
        placed_epoch: 0,
        process: Process {
            process_id: ProcessId::new(),
            run_reason: RunReason::CodingAgent,
            turn: 1,
            prompt: request.prompt.clone().unwrap_or_else(|| default_prompt(&context)),
            variant: request.variant.clone(),
            queue_id: None,
            executor_session_id: None,
            status: ProcessStatus::Planned,
            exit_code: None,
            exit_signal: None,
        },
    })
}

/// The prompt of a start without one: title, description, the reason unless the description has it, brief.
fn default_prompt(context: &StartContext) -> String {
    let StartContext { task, brief, reason, .. } = context;
    let is_said =
        |reason: &&String| task.description.as_ref().is_some_and(|it| it.contains(reason.as_str()));
    let why = reason.as_ref().filter(|reason| !is_said(reason)).map(|why| format!("Why: {why}"));
    let parts = [Some(&task.title), task.description.as_ref(), why.as_ref(), brief.as_ref()];
    let parts = parts.into_iter().flatten().filter(|part| !part.trim().is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

/// What makes two starts the same call: all arguments, with the defaults filled in and the repositories
/// sorted. `parent` and `is_carried` are not among them: a start that is forwarded is the same call.
pub fn payload(world: &World, attempt: &Attempt, request: &StartRequest) -> impl Serialize + use<> {
    let default_variant = || world.executors.get(&attempt.executor)?.describe().default_variant;
    let mut repos: Vec<_> =
        attempt.repos.iter().map(|repo| (repo.repo_id, repo.target_branch.clone())).collect();
    repos.sort_unstable();
    json!({
        "task_id": attempt.task_id,
        "executor": attempt.executor,
        "variant": attempt.process.variant.clone().or_else(default_variant),
        "repos": repos,
        "prompt": attempt.process.prompt,
        "ignore_dependencies": request.ignore_dependencies,
        "fork": attempt.fork,
    })
}

/// Checks that an executor exists, has the variant, and can run.
///
/// # Errors
/// `executor_not_found`, `variant_not_found` or `executor_unavailable`.
pub fn executor(
    executors: &dyn Executors,
    name: &str,
    variant: Option<&str>,
) -> Result<(), Refusal> {
    let Some(executor) = executors.get(name) else { return Err(no_executor(executors, name)) };
    let Description { name, variants, unavailable, .. } = executor.describe();
    if let Some(variant) = variant.filter(|variant| !variants.iter().any(|it| it == variant)) {
        let message = format!("executor {name:?} has no variant {variant:?}");
        let mut refusal = Refusal::new(Code::VariantNotFound, message);
        if let Some(near) = nearest(variant, variants.iter().map(String::as_str)) {
            refusal = refusal.hint(format!("Call the tool again with variant = {near:?}."));
        }
        return Err(refusal.detail("path", "variant").detail("variants", variants));
    }
    let Some(reason) = unavailable else { return Ok(()) };
    // The daemon has the PATH of its start: what was installed later may not be on it.
    let freshly = if matches!(reason, Unavailable::NotOnPath(_)) {
        "; if you have installed it since the daemon started, run `provost shutdown`: agents keep \
         running, and the next command starts a daemon with your PATH"
    } else {
        ""
    };
    let message = format!("executor {name:?} can't run: {reason}{freshly}");
    Err(Refusal::new(Code::ExecutorUnavailable, message)
        .detail("unavailable_reason", reason.to_string()))
}

/// Whether this host may run the executor, by its role, labels and memory.
///
/// # Errors
/// `executor_unavailable` if no host has what the executor asks for.
pub async fn able(world: &World, executor: &str) -> Result<bool, Refusal> {
    require(world, executor, &demand(world, executor)).await
}

async fn require(world: &World, executor: &str, wanted: &Demand) -> Result<bool, Refusal> {
    let is_able = world.host.role != HostRole::Gateway;
    if wanted.is_none() {
        return Ok(is_able);
    }
    let hosts = world.journal.hosts().await?;
    host::require_host(executor, wanted, &hosts)?;
    Ok(is_able && hosts.iter().any(|it| it.host_id == world.host.id && it.has(wanted)))
}

/// What an executor asks of its host beside a slot; nothing for one that is not configured.
fn demand(world: &World, executor: &str) -> Demand {
    let executor = world.executors.get(executor);
    executor.map(|it| Demand { labels: it.labels(), memory: it.memory() }).unwrap_or_default()
}

/// Which host begins a start. One that another daemon has forwarded here is not forwarded again: it waits
/// for any host instead.
async fn place(
    gateway: &ActorRef<GatewayMessage>,
    world: &World,
    request: &StartRequest,
    wanted: &Demand,
    must_be_here: bool,
) -> Result<HostChoice, Refusal> {
    if !world.host.has_lease {
        require(world, &request.executor, wanted).await?;
        return Ok(HostChoice::Here);
    }
    let is_free = || async { ractor::call!(gateway, GatewayMessage::Free).map_err(|_| ending()) };
    let is_free = must_be_here || is_free().await?;
    if is_free && wanted.is_none() && world.host.role != HostRole::Gateway {
        // A host that drains has no free slot.
        return Ok(HostChoice::Here);
    }
    let hosts = world.journal.hosts().await?;
    host::require_host(&request.executor, wanted, &hosts)?;
    let own = hosts.iter().find(|it| it.host_id == world.host.id);
    if must_be_here && own.is_some_and(|own| own.has(wanted)) {
        return Ok(HostChoice::Here);
    }
    let used = world.journal.used().await?;
    let place = host::place(&world.host.id, is_free, wanted, &hosts, &used);
    Ok(match place {
        HostChoice::On(_) if request.is_carried => HostChoice::Anywhere,
        HostChoice::Anywhere if must_be_here => HostChoice::Here,
        place => place,
    })
}

/// The attempt's branch. If one of its turns may run in a sandbox, the branch has a folder of its own,
/// because git makes files beside the branch that it moves.
fn branch(prefix: &str, attempt: AttemptId, folder: &str, is_boxed: bool) -> String {
    let short = attempt.short();
    let slug = folder.strip_prefix(&format!("{short}-")).filter(|_| is_boxed);
    slug.map_or_else(|| format!("{prefix}{folder}"), |slug| format!("{prefix}{short}/{slug}"))
}

fn no_executor(executors: &dyn Executors, name: &str) -> Refusal {
    let all: Vec<_> = executors.all().iter().map(|one| one.describe()).collect();
    let mut message = format!("there is no executor {name:?}");
    let mut hint = None;
    if let Some((near, variant, lost)) = meant(&all, name) {
        let again = format!("Call the tool again with executor = {near:?}");
        hint = Some(match (variant, lost) {
            (Some(variant), _) => format!("{again} and variant = {variant:?}."),
            (None, None) => format!("{again}."),
            (None, Some(lost)) => {
                message = format!("{message}, and {near} has no variant {lost:?}");
                format!("{again}. It has its default then.")
            }
        });
    }
    let refusal = Refusal::new(Code::ExecutorNotFound, message);
    let refusal = hint.into_iter().fold(refusal, Refusal::hint);
    let names: Vec<String> = all.into_iter().map(|one| one.name).collect();
    refusal.detail("path", "executor").detail("executors", names)
}

/// The executor that a wrong name most likely means, with the variant that the name contains, as in
/// `claude:plan`, or with the part of it that is no variant.
fn meant<'a>(
    all: &'a [Description],
    name: &'a str,
) -> Option<(&'a str, Option<&'a str>, Option<&'a str>)> {
    let parts = name.char_indices().filter(|(_, letter)| ":/@ -_.".contains(*letter));
    for (at, letter) in parts {
        let (head, tail) = (&name[..at], &name[at + 1..]);
        for one in all.iter().filter(|one| nearest(head, [one.name.as_str()]).is_some()) {
            if let Some(variant) = nearest(tail, one.variants.iter().map(String::as_str)) {
                return Some((one.name.as_str(), Some(variant), None));
            }
            if ":/@ ".contains(letter) {
                return Some((one.name.as_str(), None, Some(tail)));
            }
        }
    }
    Some((nearest(name, all.iter().map(|one| one.name.as_str()))?, None, None))
}

/// Refuses a start while a task that the task depends on is not done, unless the caller ignores that.
fn dependencies(context: &StartContext, ignore: bool) -> Result<(), Refusal> {
    let Some(first) = context.unmet.first().filter(|_| !ignore) else { return Ok(()) };
    let handles: Vec<&str> = context.unmet.iter().map(|task| task.handle.as_str()).collect();
    let tasks = if handles.len() == 1 { "task" } else { "tasks" };
    let message =
        format!("the task depends on {} unfinished {tasks}: {}", handles.len(), listed(&handles));
    let running = context.unmet.iter().find_map(|task| Some((task.running?, &task.handle)));
    let first_of_all = match running {
        Some((attempt, handle)) => format!(
            "Call wait_for_attempts with attempt_ids = [\"{attempt}\"] instead. An attempt of \
             {handle} runs."
        ),
        None => format!(
            "Call get_task with task_id = \"{}\" instead. {} has to be done first: start it, or \
             set its status to done once its work is accepted.",
            first.task_id, first.handle
        ),
    };
    let unmet: Vec<String> = context.unmet.iter().map(|task| task.task_id.to_string()).collect();
    Err(Refusal::new(Code::InvalidArgument, message)
        .hint(format!("{first_of_all} Only if the order does not matter: ignore_dependencies."))
        .detail("path", "task_id")
        .detail("unmet", unmet))
}

/// The first ten of a list, and how many more there are.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 10;
    match names.len().saturating_sub(MOST) {
        0 => names.join(", "),
        more => format!("{}, and {more} more", names[..MOST].join(", ")),
    }
}

/// The repositories of the attempt, each with its target branch: those the caller names, those of the
/// attempt it forks from, or all of the project's.
fn chosen<'a>(
    context: &'a StartContext,
    request: &'a StartRequest,
    source: Option<&'a Source>,
) -> Result<Vec<(&'a Repo, &'a str)>, Refusal> {
    let project = context.task.project_id;
    let no_repo = |message: String| Refusal::new(Code::RepoNotFound, message);
    let Some(wanted) = request.repos.as_ref().filter(|wanted| !wanted.is_empty()) else {
        if context.repos.is_empty() {
            let hint = format!(
                "Add a repository by add_repo with project_id {project}, then call start_task_attempt again."
            );
            return Err(
                no_repo(format!("project {project} has no repository to work in")).hint(hint)
            );
        }
        if let Some(source) = source {
            return Ok(source.chosen(context));
        }
        let all = context.repos.iter();
        return Ok(all.map(|repo| (repo, repo.default_target_branch.as_str())).collect());
    };
    let mut chosen: Vec<(&Repo, &str)> = Vec::new();
    for (n, (id, branch)) in wanted.iter().enumerate() {
        let field = format!("repos[{n}].repo_id");
        let Some(repo) = context.repos.iter().find(|repo| repo.repo_id == *id) else {
            return Err(no_repo(format!("project {project} has no repository {id}"))
                .hint(format!("Call start_task_attempt again with {field} from list_repos."))
                .detail("path", field)
                .detail("repo_id", id.to_string()));
        };
        if chosen.iter().any(|(other, _)| other.repo_id == repo.repo_id) {
            let message = format!("repository {id} is named twice");
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint(format!("Call start_task_attempt again without repos[{n}]."))
                .detail("path", field));
        }
        chosen.push((repo, branch.as_deref().unwrap_or(&repo.default_target_branch)));
    }
    Ok(chosen)
}

/// A title as part of a branch and a path: lower case ASCII letters and digits, words joined by
/// one `-`, at most 40 characters.
fn slug(title: &str) -> String {
    const MAX: usize = 40;
    let mut slug = String::new();
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if slug.len() + word.len() >= MAX && !slug.is_empty() {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().take(MAX).map(|c| c.to_ascii_lowercase()));
    }
    if slug.is_empty() { "task".to_owned() } else { slug }
}

/// `<short id>-<slug>`: the attempt's folder under `worktrees/`, and with the configured prefix its branch.
/// The id comes first, so that equal titles never clash.
fn folder(attempt: AttemptId, title: &str) -> String {
    format!("{}-{}", attempt.short(), slug(title))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slug_keeps_whole_words_and_says_something_for_any_title() {
        assert_eq!(slug("Fix: the  Login/Logout bug!"), "fix-the-login-logout-bug");
        assert_eq!(slug("日本語"), "task");
        assert_eq!(slug(&"word ".repeat(30)), "word-word-word-word-word-word-word-word");
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_safe_part_of_a_ref_and_a_path(title in ".*") {
            let slug = slug(&title);
            prop_assert!((1..=40).contains(&slug.len()));
            prop_assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"));
        }
    }
}
