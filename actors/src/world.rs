//! What all actors share: the means, and the configuration as values. The actors see no environment, no
//! arguments and no configuration files; the daemon reads these, and makes a `World` of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::environment::Given;
use crate::executor::Executors;
use crate::forge::Forge;
use crate::host::{self, Host, HostRole, HostState, Lease};
use crate::ids::{AttemptId, ProcessId, ProjectId};
use crate::journal::checks::{CheckCommand, PlannedCheck};
use crate::journal::{Attempt, AttemptRepo, Journal};
use crate::limits::{Limits, OnLeaseLate, SoftLimits};
use crate::log::Logs;
use crate::process::cgroup::Cgroup;
use crate::process::lease;
use crate::process::records::{self, Manifest, StdinSource};
use crate::process::{Marker, Shims};
use crate::refusal::Refusal;
use crate::repo_settings::RepoConfig;
use crate::secret::{SecretNames, Secrets};
use crate::workspace::cache::Cache;
use crate::workspace::own::Own;
use crate::workspace::parting::History;
use crate::workspace::source::Source;
use crate::workspace::{Places, Repositories};

/// Shared by all actors. Nothing in it belongs to one attempt.
pub struct World {
    pub journal: Arc<dyn Journal>,
    pub host: OwnHost,
    pub executors: Arc<dyn Executors>,
    pub shims: Shims,
    pub repositories: Repositories,
    pub logs: Logs,
    pub check_signals: CheckSignals,
    /// The attempts that the next look of the radar is for.
    pub to_probe: Mutex<BTreeSet<AttemptId>>,
    /// Wakes the task that pushes snapshots to remotes.
    pub to_push: Notify,
    pub settings: ActorSettings,
}

impl World {
    /// Renews the lease of this host, and tells its shims. Returns the state of the host; `None`: this
    /// daemon does not have the host any more.
    pub async fn renew(&self, Lease(length): Lease) -> Result<Option<HostState>, Refusal> {
        // The shims count from before the question, so the lease may end earlier for them than for the
        // database, and never later.
        let asked = lease::now();
        let state = self.journal.renew_host(&self.host.id, self.host.incarnation, length).await?;
        if let Some(lease) = self.shims.lease().filter(|_| state.is_some()) {
            lease.renewed(asked, length).map_err(|error| {
                Refusal::internal(format!("the file of the lease can't be written: {error}"))
            })?;
        }
        Ok(state)
    }

    /// What is on record of an attempt's work in a repository; empty if nothing is.
    pub async fn history(
        &self,
        attempt: AttemptId,
        repo: &AttemptRepo,
    ) -> Result<History, Refusal> {
        let mut histories = self.journal.histories(&[attempt]).await?;
        Ok(histories.remove(&(attempt, repo.board_path.clone())).unwrap_or_default())
    }
}

/// The host that this daemon has registered.
#[derive(Debug)]
pub struct OwnHost {
    pub id: String,
    /// The registration of this daemon: what an earlier one writes is refused.
    pub incarnation: u64,
    pub role: HostRole,
    /// Bytes that its attempts may ask for together; 0: memory is not counted.
    pub memory: u64,
    /// Whether hosts share the board: then the lease has to be renewed, else another daemon may give the
    /// host up.
    pub has_lease: bool,
    /// `None`: the lock of the home is the lease.
    pub lease: Option<Lease>,
    /// Wakes the task that follows each renewal of the lease.
    pub renewed: Notify,
    /// Held from a read or change of the host's state until the gateway has it, so that states arrive in
    /// their order.
    pub telling: tokio::sync::Mutex<()>,
    drains: AtomicBool,
}

impl OwnHost {
    /// From the registration of this host.
    pub fn new(host: &Host) -> Self {
        Self {
            id: host.host_id.clone(),
            incarnation: host.incarnation,
            role: host.role,
            memory: host.memory,
            has_lease: host.lease_until.is_some(),
            lease: host.lease_until.map(|until| Lease(until.since(host.renewed_at))),
            renewed: Notify::new(),
            telling: tokio::sync::Mutex::default(),
            drains: AtomicBool::new(host.state == HostState::Draining),
        }
    }

    /// Checks that an attempt is this host's.
    ///
    /// # Errors
    /// `elsewhere`: another host has it, whose daemon alone may act on it. `invalid_state`: no host has it
    /// yet.
    pub fn require(&self, attempt: &Attempt) -> Result<(), Refusal> {
        if attempt.host == self.id {
            return Ok(());
        }
        Err(host::elsewhere(&format!("attempt {}", attempt.attempt_id), &attempt.host))
    }

    /// Whether the host drains: nothing new begins on it.
    pub fn drains(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    /// Notes the host's state. Only the gateway calls this, as it holds or grants slots at the same time.
    pub fn set(&self, state: HostState) {
        self.drains.store(state == HostState::Draining, Ordering::Relaxed);
    }
}

/// Wakes between the owner of the check runs and those who plan runs. They are hints: the rows say what is
/// so.
#[derive(Debug, Default)]
pub struct CheckSignals {
    /// A run may have been planned.
    pub planned: Notify,
    /// A run has its verdict.
    pub concluded: Notify,
}

/// The name of the folder, within a process's folder, for files that the CLI reads.
pub const CLI_FILES: &str = "scratch";

/// The configuration of the actors, with the paths of the home.
#[derive(Clone, Debug)]
pub struct ActorSettings {
    /// Attempts that run at once on this host; further ones wait in the queue.
    pub max_running_attempts: usize,
    /// Attempts that answer a question and run at once: they have slots of their own.
    pub max_running_answers: usize,
    /// How long an executor waits for a permission before it is denied; `None`: without limit.
    pub approval_timeout: Option<Duration>,
    pub folders: Folders,
    pub launch: LaunchSettings,
    pub worktrees: WorktreeSettings,
    pub checks: Checks,
    /// Where pull requests are made, by the host name of the remote.
    pub forges: BTreeMap<String, Forge>,
}

/// The folders of the home that the actors write to.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Holds `<attempt id>/<process id>/`.
    pub attempts: PathBuf,
    /// Holds `<short id>-<slug>/<repo name>/`.
    pub worktrees: PathBuf,
    /// Gets the worktrees that were collected, and what is in the way of new ones.
    pub trash: PathBuf,
    /// Holds `<check run id>/`.
    pub checks: PathBuf,
    /// Holds scratch repositories. Emptied when a daemon starts.
    pub scratch: PathBuf,
    /// All folders of the home. No sandbox opens them, except for what is the attempt's own.
    pub private: Vec<PathBuf>,
}

/// How processes are started and ended: executors, setups, checks and dev servers.
#[derive(Clone, Debug)]
pub struct LaunchSettings {
    /// From a stop's SIGINT to its SIGKILL.
    pub stop_grace: Duration,
    /// Most bytes of a process's spool, and of a normalized channel; beyond, the oldest output is removed.
    pub spool_max_bytes: u64,
    /// The cgroup below which new ones may be made; `None`: nowhere.
    pub cgroups: Option<PathBuf>,
    /// Soft limits that executors get in place of the daemon's own.
    pub soft_limits: SoftLimits,
    /// The daemon's own environment. Executors get a part of it: see `environment.rs`.
    pub environment: BTreeMap<String, String>,
    /// The names of variables whose values no file may show.
    pub secret_names: SecretNames,
    /// This binary, as an attempt's MCP server.
    pub program: PathBuf,
    /// The value of `PROVOST_HOME` for executors; `None` where the home is more than one folder.
    pub home_variable: Option<String>,
}

/// What worktrees are made from, and what is kept of them.
#[derive(Clone, Debug)]
pub struct WorktreeSettings {
    /// Begins the names of attempts' branches.
    pub branch_prefix: String,
    /// What the configuration says of the worktrees of repositories.
    pub repos: RepoConfig,
    /// Where this host has the repositories.
    pub places: Places,
    /// Results of setup scripts, for later worktrees.
    pub cache: Cache,
    /// Most bytes of ignored files that are copied into a worktree.
    pub copy_max_bytes: u64,
    /// The ports that attempts get blocks of.
    pub ports: RangeInclusive<u16>,
    /// How long the snapshots of an attempt's turns are kept after the last one, once its worktrees are
    /// removed.
    pub keep_snapshots: Duration,
    /// The name of the remote that also gets the snapshot of each turn, in repositories that have a remote
    /// of this name on record.
    pub snapshot_remote: Option<String>,
}

impl ActorSettings {
    /// The folder of an attempt: its logs, its own repositories, and a folder for each of its processes.
    pub fn attempt_dir(&self, attempt: AttemptId) -> PathBuf {
        self.folders.attempts.join(attempt.to_string())
    }

    /// The folder of an attempt's newest process.
    pub fn process_dir(&self, attempt: &Attempt) -> PathBuf {
        self.attempt_dir(attempt.attempt_id).join(attempt.process.process_id.to_string())
    }

    /// The folder for files that the CLI of an attempt's newest process reads.
    pub fn cli_dir(&self, attempt: &Attempt) -> PathBuf {
        self.process_dir(attempt).join(CLI_FILES)
    }

    /// One repository of an attempt, with its worktree, for reading. To write commits, use
    /// `attempt::provision::source`, which also knows what must not be committed.
    pub fn source(&self, attempt: &Attempt, repo: &AttemptRepo) -> Source {
        // What a fork began with is its work, too, so its base commit is not where its work begins.
        let begun = attempt.fork.is_none().then(|| repo.base_commit.clone());
        Source {
            repo: PathBuf::from(&repo.path),
            worktrees: self.folders.worktrees.clone(),
            folder: attempt.folder.clone(),
            name: repo.name.clone(),
            attempt: attempt.attempt_id,
            own: self.own(attempt.attempt_id, &repo.name),
            branch: attempt.branch.clone(),
            target_branch: repo.target_branch.clone(),
            base: repo.base_commit.clone(),
            history: History { begun, ..History::default() },
            scratch: self.folders.scratch.clone(),
            withheld: Vec::new(),
        }
    }

    /// An attempt's own repository for the person's repository of this name.
    pub fn own(&self, attempt: AttemptId, repo: &str) -> Own {
        Own::of(&self.attempt_dir(attempt), repo)
    }

    /// What a shim runs, with an empty standard input, and the secrets that were taken out of `env`: the
    /// manifest is a file, and the shim gets the secrets in another way. `more` are secrets that are not in
    /// `env`.
    pub fn manifest(
        &self,
        marker: Marker,
        command: (PathBuf, Vec<String>),
        mut env: BTreeMap<String, String>,
        cwd: PathBuf,
        limits: Limits,
        more: &[(String, String)],
    ) -> (Manifest, Secrets) {
        let secrets = self.launch.secret_names.take_out(&mut env, &self.launch.environment, more);
        let cgroup = self.launch.cgroups.as_deref().filter(|_| limits.want_cgroup());
        let (program, args) = command;
        let manifest = Manifest {
            v: records::VERSION,
            attempt_id: marker.attempt,
            process_id: marker.process,
            epoch: 1,
            program,
            args,
            env,
            secrets: secrets.names(),
            cwd,
            stdin: StdinSource::Empty,
            spool_max_bytes: self.launch.spool_max_bytes,
            limits,
            cgroup: cgroup.map(|base| Cgroup::named(base, &marker.process.to_string())),
            grace_ms: u64::try_from(self.launch.stop_grace.as_millis()).unwrap_or(u64::MAX),
            soft_limits: self.launch.soft_limits,
            cwd_beneath: None,
            sandbox: None,
            lease: None,
            on_lease_late: OnLeaseLate::default(),
        };
        (manifest, secrets)
    }
}

/// The configured checks, which run on a task that is reported as completed.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Check runs at once; further ones wait.
    pub max_running: usize,
    /// The limits of each check.
    pub limits: Limits,
    /// By the project's name or id, and then by the check's name.
    pub projects: BTreeMap<String, BTreeMap<String, CheckCommand>>,
    /// The variables that a person gives to the checks, by the project's name or id.
    pub given: BTreeMap<String, Given>,
}

impl Checks {
    /// The checks of a project; those under its id win over those under its name. `None`: it has none.
    pub fn of(&self, id: ProjectId, name: &str) -> Option<&BTreeMap<String, CheckCommand>> {
        self.projects.get(&id.to_string()).or_else(|| self.projects.get(name))
    }

    /// The key under which the configuration gives variables to a project's checks, if any. A plan has this
    /// key instead of the values.
    pub fn giver(&self, id: ProjectId, name: &str) -> Option<String> {
        [id.to_string(), name.to_owned()].into_iter().find(|key| self.given.contains_key(key))
    }

    /// The checks of a project for a new run, each with a new process id.
    pub fn planned(&self, id: ProjectId, name: &str) -> Vec<PlannedCheck> {
        let planned = |(name, command): (&String, &CheckCommand)| PlannedCheck {
            name: name.clone(),
            command: command.clone(),
            process_id: ProcessId::new(),
            repo: None,
            work_of: None,
            given: None,
        };
        self.of(id, name).into_iter().flatten().map(planned).collect()
    }
}
