//! The sandboxes around the processes of an attempt: its agent, its scripts and dev server, and the
//! checks of its work. What each opens, and the text that describes it to the agent.
//!
//! ```text
//!                    around (agent)        around_script          around_check
//!  level             the turn's variant    the strictest turn so far (`strictest`)
//!  machine, config   yes                   yes                    yes
//!  worktrees         write                 write                  a checkout of its own: write
//!  own repositories  what git needs        what git needs         no
//!  borrowed objects  read                  read                   read
//!  state of the CLI  write                 no                     no
//!  temporary folder  write                 write                  write
//! ```
//!
//! An agent with `reads_only` may only read its worktrees and its own repositories.

mod asked;
mod own;

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use own::{of_agent, of_check, of_script, private_folder, repositories};

pub use asked::Machine;

use super::network_approvals;
use super::own_state::{self, OwnState, Session};
use crate::blocking::blocking;
use crate::executor::Executor;
use crate::journal::Attempt;
use crate::process::network;
use crate::sandbox::places::{Person, hidden, meets, of_machine, of_program, real};
use crate::sandbox::{self, Access, Level, Rule, Sandbox, Wanted};
use crate::workspace::git;
use crate::workspace::own::held;
use crate::world::{ActorSettings, World};

/// The name of the attempt's own temporary folder, in the attempt's folder.
pub const TEMPORARY: &str = "tmp";
/// The caches of tools that fail without a cache that they can write: the variable, and where the cache
/// is in the home without it. A sandboxed process gets one in the temporary folder, unless that place is
/// open to it.
const CACHES: [(&str, &str); 4] = [
    ("npm_config_cache", ".npm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("GOCACHE", ".cache/go-build"),
];

/// The text before the first prompt of an agent with the level `workspace`.
const SANDBOX_NOTICE: &str = "You work in a sandbox. You can read the system and the toolchains. You can \
    write this working folder, its git repository, which is your own (commit, branch, rebase and \
    merge as you like), $TMPDIR and your own settings. The rest of the home folder and of the \
    machine, git hooks and git's configuration are closed to you: \"Permission denied\" or \
    \"Operation not permitted\" there is meant so. Do not try to get around it; if the task needs more, say what.";

/// The same for the level `strict`.
const STRICT_NOTICE: &str = "You work in a sandbox. You can read the system and the toolchains. You can \
    write this working folder, its git repository, which is your own (commit, branch, rebase and \
    merge as you like), $TMPDIR and your own settings. The rest of the home folder and of the \
    machine, git hooks and git's configuration are closed to you: \"Permission denied\" or \
    \"Operation not permitted\" there is meant so. You reach the network only through the proxy in $HTTPS_PROXY, \
    and there only the hosts that a person has allowed: \"403\" from it is meant so. Do not try to \
    get around it; if the task needs more, say what, and name the host.";

/// The same for an agent that may only read.
const READ_ONLY_NOTICE: &str = "You work in a sandbox in which you can read, not write: the system, the \
    toolchains and this working folder. You can write $TMPDIR and your own settings alone. \
    \"Permission denied\" or \"Operation not permitted\" elsewhere is meant so. Do not try to get \
    around it; if the task needs more, say what.";

/// The variables by which programs find a proxy; some read only the one case or the other.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// A sandbox, and what its process gets with it.
#[derive(Debug)]
pub struct SandboxPlan {
    pub sandbox: Sandbox,
    /// Changes of the environment: variables that the process gets, or must not have (`None`).
    env: BTreeMap<&'static str, Option<String>>,
    /// The text before the prompt. `None`: the executor is scripted, or the process is no agent.
    pub agent_notice: Option<&'static str>,
    /// The state of the agent's own. `None`: the process is no agent, or the executor has no state that
    /// is known.
    state: Option<OwnState>,
}

/// The sandbox for the attempt's newest process, as the executor's variant asks for it. Makes the folders and
/// the state that are missing, and brings the session that the process resumes. `None`: the variant asks for
/// none. `Err` is a sentence: the sandbox can't be had, so nothing may be started.
pub async fn around(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
    session: Option<Session>,
) -> Result<Option<SandboxPlan>, String> {
    let mut wanted = executor.sandbox(attempt.process.variant.as_deref());
    if wanted.level == Level::None {
        return Ok(None);
    }
    wanted.hosts.extend(network_approvals::allowed(world, attempt.attempt_id).await);
    let repos = repositories(world, attempt).await?;
    let temporary = temporary(world, attempt);
    let (of_attempt, level, reads_only) = (attempt.clone(), wanted.level, wanted.reads_only);
    let places = wanted.state.clone();
    let boxed = made(world, wanted, temporary, move |settings, temporary| {
        let rules = of_agent(settings, &of_attempt, &repos, temporary)?;
        Ok(if reads_only { readable(rules, temporary) } else { rules })
    });
    let mut boxed = boxed.await?;
    let state = own_state::of_turn(world, attempt.attempt_id, places, session).await?;
    boxed.sandbox.own_state = state.is_some();
    boxed.sandbox.rules.extend(state.iter().flat_map(OwnState::rules));
    let agent_notice = match (reads_only, level) {
        (true, _) => READ_ONLY_NOTICE,
        (false, Level::Strict) => STRICT_NOTICE,
        (false, _) => SANDBOX_NOTICE,
    };
    let agent_notice = (!executor.describe().stand_in).then_some(agent_notice);
    Ok(Some(SandboxPlan { agent_notice, state, ..boxed }))
}

/// The rules for an agent that may only read: of these, nothing but the temporary folder may be written.
fn readable(mut rules: Vec<Rule>, temporary: &Path) -> Vec<Rule> {
    for rule in rules.iter_mut().filter(|rule| rule.path != temporary) {
        rule.access = Access::Read;
    }
    rules
}

/// The sandbox for a script or the dev server of an attempt: that of the strictest turn so far, because they
/// run what agents may have written. `None`: no turn had one. `Err` is a sentence.
pub async fn around_script(
    world: &World,
    attempt: &Attempt,
) -> Result<Option<SandboxPlan>, String> {
    let Some(wanted) = wanted(world, attempt).await? else { return Ok(None) };
    let repos = repositories(world, attempt).await?;
    let temporary = temporary(world, attempt);
    let attempt = attempt.clone();
    let boxed = made(world, wanted, temporary, move |settings, temporary| {
        of_script(settings, &attempt, &repos, temporary)
    });
    hiding(world, boxed.await?).await.map(Some)
}

/// The sandbox for a check of an attempt's work, which runs in a checkout of its own. `objects`: the
/// folders of objects that the checkout borrows, beside those of the repositories. `None`: no turn had
/// one. `Err` is a sentence.
pub async fn around_check(
    world: &World,
    attempt: &Attempt,
    (checkout, temporary): (PathBuf, PathBuf),
    mut objects: Vec<PathBuf>,
) -> Result<Option<SandboxPlan>, String> {
    let Some(wanted) = wanted(world, attempt).await? else { return Ok(None) };
    for repo in &attempt.repos {
        let common = git::common_dir(repo.path.as_ref()).await;
        let common = common.map_err(|error| error.to_string())?;
        let lenders = blocking(move || Ok::<_, io::Error>(held::lenders(&common))).await;
        objects.extend(lenders.map_err(|error| error.to_string())?);
    }
    let boxed =
        made(world, wanted, temporary, move |_, temporary| of_check(checkout, objects, temporary));
    hiding(world, boxed.await?).await.map(Some)
}

/// Notes in the plan which configuration the sandbox hides from package managers: one that can't read its
/// configuration asks the public registry, and says nothing.
async fn hiding(world: &World, mut boxed: SandboxPlan) -> Result<SandboxPlan, String> {
    let (environment, rules) =
        (world.settings.launch.environment.clone(), boxed.sandbox.rules.clone());
    let hidden = blocking(move || Ok(hidden(&Person::of(&environment), &rules))).await;
    boxed.sandbox.hidden = hidden.map_err(|error: io::Error| error.to_string())?;
    Ok(boxed)
}

/// The sandbox for what the attempt's agents have written, whichever turn wrote it. `None`: no turn had
/// one. `Err` is a sentence.
async fn wanted(world: &World, attempt: &Attempt) -> Result<Option<Wanted>, String> {
    let Some(executor) = world.executors.get(&attempt.executor) else {
        // Without the executor it is not known what the sandbox opens.
        return match &attempt.most_held {
            Some(held) if held.level > Level::None => {
                Err(format!("executor {:?} is not configured any longer", attempt.executor))
            }
            _ => Ok(None),
        };
    };
    let mut wanted = strictest(&*executor, attempt);
    if wanted.level == Level::None {
        return Ok(None);
    }
    wanted.hosts.extend(network_approvals::allowed(world, attempt.attempt_id).await);
    Ok(Some(wanted))
}

/// The sandbox that the newest turn asks for, or that of an earlier turn with a stricter level.
pub fn strictest(executor: &dyn Executor, attempt: &Attempt) -> Wanted {
    let newest = executor.sandbox(attempt.process.variant.as_deref());
    match &attempt.most_held {
        Some(held) if held.level > newest.level => {
            Wanted { level: held.level, ..executor.sandbox(held.variant.as_deref()) }
        }
        _ => newest,
    }
}

/// The path of the attempt's temporary folder.
fn temporary(world: &World, attempt: &Attempt) -> PathBuf {
    world.settings.attempt_dir(attempt.attempt_id).join(TEMPORARY)
}

/// Makes a plan: what is open to all processes of the executor, and the rules of this process (`own`).
/// `Err` is a sentence.
async fn made(
    world: &World,
    wanted: Wanted,
    temporary: PathBuf,
    own: impl FnOnce(&ActorSettings, &Path) -> Result<Vec<Rule>, String> + Send + 'static,
) -> Result<SandboxPlan, String> {
    if let Some(obstacle) = obstacle(world, wanted.level).await {
        return Err(format!("it is to run in a sandbox, and none can be had: {obstacle}"));
    }
    let settings = world.settings.clone();
    let level = wanted.level;
    let (hosts, refused) = (wanted.hosts.clone(), wanted.refused.clone());
    let others: Vec<String> =
        world.executors.all().iter().flat_map(|it| it.sandbox(None).write).collect();
    let rules = blocking(move || {
        let person = Person::of(&settings.launch.environment);
        let rules = of_all(&person, &settings.folders.private, &wanted, &others, Access::Write);
        Ok(rules.and_then(|mut rules| {
            let env = variables(&person, &rules, &temporary);
            rules.extend(own(&settings, &temporary)?);
            Ok((rules, env))
        }))
    });
    let (rules, mut env) = rules.await.map_err(|error: io::Error| error.to_string())??;
    if level == Level::Strict {
        env.extend(proxied());
    }
    let sandbox =
        Sandbox { level, abi: sandbox::abi(), rules, hosts, refused, ..Sandbox::default() };
    Ok(SandboxPlan { sandbox, env, agent_notice: None, state: None })
}

/// Why this machine can't have a sandbox of a level, in a sentence without its full stop. `None`: it can.
pub async fn obstacle(world: &World, level: Level) -> Option<String> {
    if level == Level::None {
        return None;
    }
    match sandbox::obstacle() {
        None if level == Level::Strict => world.shims.network_obstacle().await,
        obstacle => obstacle,
    }
}

impl SandboxPlan {
    /// The sandbox with the rules for the installation of its program. `Err` is a sentence.
    pub async fn holding(self, world: &World, program: PathBuf) -> Result<Sandbox, String> {
        let (environment, private) =
            (world.settings.launch.environment.clone(), world.settings.folders.private.clone());
        let more = blocking(move || Ok(of_program(&program, &Person::of(&environment), &private)));
        let more = more.await.map_err(|error: io::Error| error.to_string())?;
        let mut sandbox = self.sandbox;
        sandbox.rules.extend(more);
        Ok(sandbox)
    }

    /// Changes the environment of the process. Variables of git's configuration and of caches that the
    /// executor's entry sets itself stay.
    pub fn change(&self, env: &mut BTreeMap<String, String>) {
        let keeps_git = env.contains_key("GIT_CONFIG_COUNT");
        for (name, value) in &self.env {
            let is_cache = CACHES.iter().any(|(cache, _)| cache == name);
            match value {
                _ if keeps_git && name.starts_with("GIT_CONFIG_") => {}
                _ if is_cache && env.contains_key(*name) => {}
                Some(value) => drop(env.insert((*name).to_owned(), value.clone())),
                None => drop(env.remove(*name)),
            }
        }
        env.extend(self.state.iter().flat_map(|state| state.env.clone()));
    }

    /// The entry of the log that says what is held, what is open, and what is missing.
    pub fn notice(&self) -> String {
        let receipt = self.sandbox.receipt();
        let left_out = self.state.iter().flat_map(|state| &state.left_out);
        let left_out: Vec<&str> = left_out.map(String::as_str).collect();
        let without = if left_out.is_empty() {
            String::new()
        } else {
            format!(
                " Its copy of your settings is without {}, which can't be read or is too large.",
                left_out.join(", ")
            )
        };
        let hidden = if receipt.hidden.is_empty() {
            String::new()
        } else {
            format!(
                " It can't read {}, which package managers are configured with: `sandbox_read` of the \
                 executor opens a file, and `env` gives a variable.",
                receipt.hidden.join(", ")
            )
        };
        format!(
            "It runs in a sandbox ({}, Landlock ABI {}): {} are held, {} are open.{without}{hidden}",
            receipt.mechanism,
            receipt.abi,
            receipt.enforced.join(", "),
            receipt.open.join(", ")
        )
    }
}

/// The changes of the environment. `rules`: those of the machine and of the configuration.
fn variables(
    person: &Person<'_>,
    rules: &[Rule],
    temporary: &Path,
) -> BTreeMap<&'static str, Option<String>> {
    let text = |text: &str| Some(text.to_owned());
    let path = |path: PathBuf| Some(path.to_string_lossy().into_owned());
    let is_open = |below: &str| {
        let place = person.home.and_then(|home| real(home.join(below)));
        let holds = |rule: &Rule| {
            rule.access == Access::Write
                && place.as_ref().is_some_and(|it| it.starts_with(&rule.path))
        };
        rules.iter().any(holds)
    };
    let caches = CACHES.iter().filter(|(_, below)| !is_open(below));
    let caches = caches.map(|(name, _)| (*name, path(temporary.join("cache").join(name))));
    let own = [
        ("TMPDIR", path(temporary.to_owned())),
        // An agent must not use the keys of the person's ssh-agent.
        ("SSH_AUTH_SOCK", None),
        // The person's signing key can't be read. What reaches a branch of the person's is signed there.
        ("GIT_CONFIG_COUNT", text("2")),
        ("GIT_CONFIG_KEY_0", text("commit.gpgSign")),
        ("GIT_CONFIG_VALUE_0", text("false")),
        ("GIT_CONFIG_KEY_1", text("tag.gpgSign")),
        ("GIT_CONFIG_VALUE_1", text("false")),
    ];
    own.into_iter().chain(caches).collect()
}

/// The variables by which programs find the proxy. The loopback address is the network namespace's own: the
/// proxy listens there, and also at the ports of this machine's loopback that are allowed, for which programs
/// ask no proxy.
fn proxied() -> Vec<(&'static str, Option<String>)> {
    let proxy = format!("http://{}:{}", Ipv4Addr::LOCALHOST, network::PORT);
    let proxy = PROXY_VARIABLES.iter().map(|name| (*name, proxy.clone()));
    let inside = "localhost,127.0.0.1,::1";
    // Without `NODE_USE_ENV_PROXY`, Node.js ignores the others.
    let more = [("NO_PROXY", inside), ("no_proxy", inside), ("NODE_USE_ENV_PROXY", "1")];
    proxy.chain(more.map(|(name, it)| (name, it.into()))).map(|(k, v)| (k, Some(v))).collect()
}

/// The rules for what is open to all processes of an executor: the machine, and what its configuration opens.
/// `others`: what any executor may write. `most`: the access to what this one may write. `Err` is a sentence:
/// a rule would open Provost's home.
fn of_all(
    person: &Person<'_>,
    private: &[PathBuf],
    wanted: &Wanted,
    others: &[String],
    most: Access,
) -> Result<Vec<Rule>, String> {
    let declared = declared(person, wanted, others, most)?;
    let mut closed = private.to_vec();
    for text in &wanted.write {
        closed.push(person.path(text)?);
    }
    let written = declared.iter().filter(|rule| rule.access == Access::Write);
    closed.extend(written.map(|rule| rule.path.clone()));
    let mut rules = of_machine(person, &closed);
    rules.extend(declared);
    if let Some(rule) = rules.iter().find(|rule| meets(&rule.path, private)) {
        return Err(format!(
            "its sandbox would open {}, where a folder of Provost's home lies: move PROVOST_HOME, \
             or name narrower paths in sandbox_read and sandbox_write",
            rule.path.display()
        ));
    }
    Ok(rules)
}

/// The rules for what the executor's configuration opens. A path below a folder that the agent can write
/// gets no rule, because the agent could put a link there. `Err` is a sentence: agents of another
/// executor could.
fn declared(
    person: &Person<'_>,
    wanted: &Wanted,
    others: &[String],
    most: Access,
) -> Result<Vec<Rule>, String> {
    let paths = |texts: &[String]| -> Result<Vec<PathBuf>, String> {
        texts.iter().map(|text| person.path(text)).collect()
    };
    let (own, others) = (paths(&wanted.write)?, paths(others)?);
    let above = |path: &Path, outer: &[PathBuf]| {
        outer.iter().find(|outer| path.starts_with(outer) && path != **outer).cloned()
    };
    let mut rules = Vec::new();
    for (texts, access) in [(&wanted.read, Access::Read), (&wanted.write, most)] {
        for text in texts {
            let path = person.path(text)?;
            if above(&path, &own).is_some() {
                continue;
            }
            if let Some(outer) = above(&path, &others) {
                return Err(format!(
                    "its sandbox would open {text}, which another executor's agents could replace by \
                     a link, for they can write {}: name narrower paths in the sandbox_write of \
                     that executor",
                    outer.display()
                ));
            }
            if access == Access::Write && text.ends_with('/') {
                private_folder(&path)?;
            }
            rules.extend(real(&path).map(|path| Rule { path, access }));
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_could_replace_by_a_link_is_not_opened() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["wide/below", "own"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let person = Person { home: Some(home.path()), ..Person::default() };
        let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let opened = |read: &[&str], write: &[&str]| {
            let wanted = Wanted { read: list(read), write: list(write), ..Wanted::default() };
            declared(&person, &wanted, &list(&["~/wide/", "~/own/"]), Access::Write)
        };
        for (read, write) in [(&[][..], &["~/wide/below/"][..]), (&["~/wide/below"], &[])] {
            assert!(opened(read, write).unwrap_err().contains("~/wide/below"));
        }
        // Its own folder holds what is below it.
        let rules = opened(&["~/wide/below"], &["~/wide/", "~/own/", "~/wide/below/"]).unwrap();
        let paths: Vec<_> = rules.into_iter().map(|rule| rule.path).collect();
        assert_eq!(paths, ["wide", "own"].map(|it| real(home.path().join(it)).unwrap()));
    }

    #[test]
    fn a_cache_is_in_the_temporary_folder_unless_its_own_place_is_open_or_it_is_named() {
        let home = tempfile::tempdir().unwrap();
        let npm = home.path().join(".npm");
        std::fs::create_dir(&npm).unwrap();
        let person = Person { home: Some(home.path()), ..Person::default() };
        let sandbox = Sandbox { level: Level::Workspace, abi: 6, ..Sandbox::default() };
        let changed = |access| {
            let rules = [Rule { path: real(&npm).unwrap(), access }];
            let env = variables(&person, &rules, Path::new("/t"));
            let boxed =
                SandboxPlan { sandbox: sandbox.clone(), env, agent_notice: None, state: None };
            let own = [("UV_CACHE_DIR", "/own"), ("SSH_AUTH_SOCK", "/agent")];
            let mut env = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            boxed.change(&mut env);
            env
        };
        let closed: BTreeMap<String, String> = changed(Access::Read);
        assert_eq!(closed["npm_config_cache"], "/t/cache/npm_config_cache");
        assert_eq!((&*closed["UV_CACHE_DIR"], &*closed["TMPDIR"]), ("/own", "/t"));
        assert!(!closed.contains_key("SSH_AUTH_SOCK"));
        assert!(!changed(Access::Write).contains_key("npm_config_cache"));
    }
}
