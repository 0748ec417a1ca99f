//! The box around a turn's process: what it opens of this attempt, of its repositories and of the
//! machine, and the text that describes it to the agent.
//!
//! Of a repository it opens for writing what a commit on the attempt's own branch needs: the
//! objects, the worktree's own folder, and the branch's own folder of references and of their
//! logs. The hooks, the configuration and all other references stay as they are.

mod places;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use places::{Person, meets, of_machine, of_program, real};

use crate::blocking::blocking;
use crate::executor::Executor;
use crate::journal::Attempt;
use crate::process::network;
use crate::sandbox::hosts::AllowedHost;
use crate::sandbox::{self, Access, Level, Rule, Sandbox, Wanted};
use crate::workspace::{git, proof};
use crate::world::{ActorSettings, World};

/// The attempt's own temporary folder, in its folder.
pub const TEMPORARY: &str = "tmp";
/// An empty folder that keeps the branch's own folder from being removed when `git gc` packs the
/// references. git passes over names that begin with a point.
const KEEP: &str = ".keep";

/// The text before the prompt of an agent in a box.
const TOLD: &str = "You work in a sandbox. You can read the system and the toolchains. You can \
    write this working folder, commits on its own branch, $TMPDIR and your own settings. The rest \
    of the home folder and of the machine, other branches, stashes, tags, hooks and the \
    repository's configuration are closed to you: \"Permission denied\" or \"Operation not \
    permitted\" there is meant so. Do not try to get around it; if the task needs more, say what.";

/// The same for `strict`.
const TOLD_STRICT: &str = "You work in a sandbox. You can read the system and the toolchains. You can \
    write this working folder, commits on its own branch, $TMPDIR and your own settings. The rest \
    of the home folder and of the machine, other branches, stashes, tags, hooks and the \
    repository's configuration are closed to you: \"Permission denied\" or \"Operation not \
    permitted\" there is meant so. You reach the network only through the proxy in $HTTPS_PROXY, \
    and there only the hosts that a person has allowed: \"403\" from it is meant so. Do not try to \
    get around it; if the task needs more, say what, and name the host.";

const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// A box, and what comes with it.
#[derive(Debug)]
pub struct Boxed {
    pub sandbox: Sandbox,
    /// Variables that its process gets besides, or not (`None`).
    env: BTreeMap<&'static str, Option<String>>,
    /// The text before the prompt; `None`: the executor is scripted and has no model.
    pub told: Option<&'static str>,
}

/// A repository of the attempt, as git has it.
struct Registered {
    common: PathBuf,
    admin: PathBuf,
}

/// The box that is asked for around the attempt's newest process, if any. Makes the folders that
/// are missing. `Err` is a sentence: it can't be had, so nothing may be started.
pub async fn around(
    world: &World,
    attempt: &Attempt,
    executor: &dyn Executor,
) -> Result<Option<Boxed>, String> {
    let wanted = executor.sandbox(attempt.process.variant.as_deref());
    if wanted.level == Level::None {
        return Ok(None);
    }
    if let Some(obstacle) = obstacle(world, wanted.level).await {
        return Err(format!("it is to run in a sandbox, and none can be had: {obstacle}"));
    }
    fits(attempt)?;
    let mut repos = Vec::new();
    for repo in &attempt.repos {
        let worktree = world.settings.worktrees_dir.join(&attempt.folder).join(&repo.name);
        let path = Path::new(&repo.path);
        let common = git::common_dir(path).await.map_err(|error| error.to_string())?;
        let admin =
            proof::registration(path, &worktree).await.map_err(|error| error.to_string())?;
        let admin =
            admin.ok_or_else(|| format!("{} has no worktree {}", repo.path, worktree.display()))?;
        repos.push(Registered { common, admin });
    }
    let (level, hosts) = (wanted.level, wanted.hosts.clone());
    let (settings, attempt) = (world.settings.clone(), attempt.clone());
    let rules = blocking(move || Ok(rules(&settings, &attempt, &wanted, &repos)));
    let (rules, temporary) = rules.await.map_err(|error: io::Error| error.to_string())??;
    let is_strict = level == Level::Strict;
    let mut env = variables(&temporary);
    if is_strict {
        env.extend(proxied(&hosts));
    }
    let sandbox = Sandbox { level, abi: sandbox::abi(), rules, hosts };
    let told = if is_strict { TOLD_STRICT } else { TOLD };
    let told = (!executor.describe().stand_in).then_some(told);
    Ok(Some(Boxed { sandbox, env, told }))
}

/// Why this machine can't hold a box of a level, in a sentence without its full stop.
pub async fn obstacle(world: &World, level: Level) -> Option<String> {
    if level == Level::None {
        return None;
    }
    match sandbox::obstacle() {
        None if level == Level::Strict => world.shims.network_obstacle().await,
        obstacle => obstacle,
    }
}

impl Boxed {
    /// The box for its program. `Err` is a sentence.
    pub async fn holding(self, world: &World, program: PathBuf) -> Result<Sandbox, String> {
        let (environment, private) =
            (world.settings.environment.clone(), world.settings.private.clone());
        let more = blocking(move || Ok(of_program(&program, &Person::of(&environment), &private)));
        let more = more.await.map_err(|error: io::Error| error.to_string())?;
        let mut sandbox = self.sandbox;
        sandbox.rules.extend(more);
        Ok(sandbox)
    }

    /// Changes the environment of its process.
    pub fn change(&self, env: &mut BTreeMap<String, String>) {
        // A configuration that is given so stays.
        let keeps_git = env.contains_key("GIT_CONFIG_COUNT");
        let is_set = |name: &str| keeps_git && name.starts_with("GIT_CONFIG_");
        for (name, value) in self.env.iter().filter(|(name, _)| !is_set(name)) {
            match value {
                Some(value) => drop(env.insert((*name).to_owned(), value.clone())),
                None => drop(env.remove(*name)),
            }
        }
    }

    /// What the log says about it.
    pub fn notice(&self) -> String {
        let receipt = self.sandbox.receipt();
        format!(
            "It runs in a sandbox ({}, Landlock ABI {}): {} are held, {} are open.",
            receipt.mechanism,
            receipt.abi,
            receipt.enforced.join(", "),
            receipt.open.join(", ")
        )
    }
}

/// Whether the attempt's branch has a folder of its own among the references. `Err` is a sentence.
pub fn fits(attempt: &Attempt) -> Result<(), String> {
    let folder = Path::new(&attempt.branch).parent().and_then(Path::file_name);
    if folder.is_some_and(|folder| *folder == *attempt.attempt_id.short()) {
        return Ok(());
    }
    Err(format!(
        "a sandbox can't hold this attempt: its branch {} shares its folder of references with \
         other branches, for the attempt began without a sandbox",
        attempt.branch
    ))
}

fn variables(temporary: &Path) -> BTreeMap<&'static str, Option<String>> {
    let text = |text: &str| Some(text.to_owned());
    BTreeMap::from([
        ("TMPDIR", Some(temporary.to_string_lossy().into_owned())),
        // Its keys are not to be used.
        ("SSH_AUTH_SOCK", None),
        // git would try to tidy up the whole repository, and complain.
        ("GIT_CONFIG_COUNT", text("2")),
        ("GIT_CONFIG_KEY_0", text("gc.auto")),
        ("GIT_CONFIG_VALUE_0", text("0")),
        ("GIT_CONFIG_KEY_1", text("maintenance.auto")),
        ("GIT_CONFIG_VALUE_1", text("false")),
    ])
}

/// The variables by which programs find the proxy. Only what is of the namespace itself is reached
/// without it; a host of the list is outside, whatever its name is.
fn proxied(hosts: &[String]) -> Vec<(&'static str, Option<String>)> {
    let proxy = format!("http://{}:{}", Ipv4Addr::LOCALHOST, network::PORT);
    let listed = hosts.iter().filter_map(|host| host.parse::<AllowedHost>().ok()?.local_name());
    let listed: Vec<String> = listed.collect();
    let is_inside = |name: &&str| !listed.iter().any(|listed| listed == name);
    let inside: Vec<&str> =
        ["localhost", "127.0.0.1", "::1"].into_iter().filter(is_inside).collect();
    let inside = inside.join(",");
    let proxy = PROXY_VARIABLES.iter().map(|name| (*name, Some(proxy.clone())));
    // Node.js takes no notice of them otherwise.
    let more =
        [("NO_PROXY", inside.clone()), ("no_proxy", inside), ("NODE_USE_ENV_PROXY", "1".into())];
    proxy.chain(more.map(|(name, value)| (name, Some(value)))).collect()
}

/// All rules, and the temporary folder.
fn rules(
    settings: &ActorSettings,
    attempt: &Attempt,
    wanted: &Wanted,
    repos: &[Registered],
) -> Result<(Vec<Rule>, PathBuf), String> {
    let person = Person::of(&settings.environment);
    let private = &settings.private;
    let declared = declared(&person, wanted)?;
    let mut closed = private.clone();
    for text in &wanted.write {
        closed.push(person.path(text)?);
    }
    let written = declared.iter().filter(|rule| rule.access == Access::Write);
    closed.extend(written.map(|rule| rule.path.clone()));
    let mut rules = of_machine(&person, &closed);
    rules.extend(declared);
    if let Some(rule) = rules.iter().find(|rule| meets(&rule.path, private)) {
        return Err(format!(
            "its sandbox would open {}, where a folder of Provost's home lies: move PROVOST_HOME, \
             or name narrower paths in sandbox_read and sandbox_write",
            rule.path.display()
        ));
    }
    for repo in repos {
        rules.extend(of_repository(repo, attempt)?);
    }
    let (temporary, own) = of_attempt(settings, attempt)?;
    rules.extend(own);
    Ok((rules, temporary))
}

/// What the executor's entry opens: its own state, and caches.
fn declared(person: &Person<'_>, wanted: &Wanted) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    for (texts, access) in [(&wanted.read, Access::Read), (&wanted.write, Access::Write)] {
        for text in texts {
            let path = person.path(text)?;
            if access == Access::Write && text.ends_with('/') {
                private_folder(&path)?;
            }
            rules.extend(real(&path).map(|path| Rule { path, access }));
        }
    }
    Ok(rules)
}

fn of_repository(repo: &Registered, attempt: &Attempt) -> Result<Vec<Rule>, String> {
    let Registered { common, admin } = repo;
    if common.join("reftable").exists() {
        return Err(format!(
            "a sandbox can't hold {}: its references are one file",
            common.display()
        ));
    }
    let branch = Path::new("refs/heads").join(&attempt.branch);
    let folder = branch.parent().unwrap_or(&branch);
    let (references, logs) = (common.join(folder), common.join("logs").join(folder));
    for folder in [references.join(KEEP), logs.clone()] {
        made(&folder, 0o777)?;
    }
    let write = [common.join("objects"), admin.clone(), references, logs];
    let write = write.into_iter().map(|path| Rule { path, access: Access::Write });
    Ok(std::iter::once(Rule { path: common.clone(), access: Access::Read }).chain(write).collect())
}

/// The attempt's own: its temporary folder, and the rules for that and what else it has.
fn of_attempt(settings: &ActorSettings, attempt: &Attempt) -> Result<(PathBuf, Vec<Rule>), String> {
    let temporary = settings.attempt_dir(attempt.attempt_id).join(TEMPORARY);
    private_folder(&temporary)?;
    let write = [settings.worktrees_dir.join(&attempt.folder), temporary.clone()];
    let write = write.map(|path| Rule { path, access: Access::Write });
    // Its files for the CLI, and the way back: its MCP server is this program.
    let read = [settings.cli_dir(attempt), settings.program.clone()];
    let read = read.map(|path| Rule { path, access: Access::Read });
    Ok((temporary, write.into_iter().chain(read).collect()))
}

fn private_folder(path: &Path) -> Result<(), String> {
    made(path, 0o700)
}

/// Makes a folder and those above it, unless they are there.
fn made(path: &Path, mode: u32) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}
