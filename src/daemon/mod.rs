//! The daemon: wiring only. Executors survive its end, because their shims need no daemon, and the next
//! daemon adopts them. A daemon starts in this order, and each step relies on those before it:
//!
//! ```text
//!  lock       one daemon for each home
//!  store      refused if it lacks attempts of this home
//!  host       stale processes are ended, the host is registered
//!  actors     root, gateway, checks
//!  adopt      attempts of an earlier daemon; then its check runs and answers
//!  serve      socket, chores, calls of other hosts, HTTP face
//!  ready -+-> SIGTERM, SIGINT, `provost shutdown`: connections end, the socket goes, the store closes
//!         +-> the host is given up ("fenced"): this process starts again (`restart`)
//!         +-> a newer version has migrated the board: it ends, and executors keep running
//! ```

mod chores;
mod engine;
mod face;
mod host;
mod listen;
mod lock;
mod orphans;
mod restart;
mod stale_processes;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::blocking::if_there;
use provost_actors::checks::{self, Checks};
use provost_actors::executor::Executors;
use provost_actors::gateway::{self, Gateway};
use provost_actors::host::HostRole;
use provost_actors::ids::AttemptId;
use provost_actors::limits::{Limits, SoftLimits};
use provost_actors::log::{LogLimits, Logs};
use provost_actors::process::{self, Shims, cgroup};
use provost_actors::repo_settings::RepoConfig;
use provost_actors::root::Root;
use provost_actors::secret::SecretNames;
use provost_actors::workspace::Repositories;
use provost_actors::workspace::cache::Cache;
use provost_actors::world::{
    ActorSettings, CheckSignals, LaunchSettings, OwnHost, WorktreeSettings, World,
};
use ractor::Actor;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::domain::{Domain, Owners};
use crate::executors::Registry;
use crate::home::{Home, environment};
use crate::mcp;
use crate::store::{OpenError, Store, TimesToLive};
use crate::tools::{Rate, Rates};
pub use engine::{EngineError, visit};
pub use lock::{HomeLock, LockError};

/// How long a daemon may take to end its connections after a newer version has migrated the board: it may
/// not write any more.
const ENDING_LIMIT: Duration = Duration::from_secs(10);

/// Why a daemon can't start, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Lost(#[from] orphans::LostBoard),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}. {1}")]
    Host(String, String),
    #[error("the actors can't be started: {0}")]
    Actors(#[from] ractor::SpawnErr),
    #[error("the attempts of an earlier daemon can't be adopted: {0}")]
    Restore(String),
    #[error(
        "the daemon would be part of attempt {0}, and end with it; start it outside of the \
         attempt, for example with `provost ps`"
    )]
    Inside(AttemptId),
    #[error(
        "this host was given up, because its lease was over, or another daemon has registered it"
    )]
    Fenced,
    #[error(
        "a daemon of a newer version of Provost has changed the board's schema (it has migration {0}). \
         Executors run on: install that version on this host and start its daemon, before the lease of \
         the host is over"
    )]
    Outdated(i64),
    #[error("the gateway ended; executors keep running, and the next daemon adopts them")]
    GatewayEnded,
}

/// Runs the daemon of a home until a signal or a request ends it. Blocking. After `Fenced`, it returns
/// only if the process can't be started again.
pub fn run(home: &Home, config: &Config) -> Result<(), DaemonError> {
    process::set_name(c"provost");
    process::share_heaps();
    let lock = HomeLock::take(&home.lock)?;
    let soft_limits = SoftLimits {
        open_files: raise_open_files_limit(),
        core_bytes: process::forbid_core_dumps(),
    };
    // The scratch folder has files of calls that an earlier daemon did not finish.
    if let Err(error) = if_there(fs::remove_dir_all(home.scratch())) {
        tracing::warn!(path = %home.scratch().display(), %error, "it can't be removed");
    }
    home.put_all_right();
    process::become_subreaper()?;
    // One thread for all tasks: none of them blocks, most take microseconds, and to wake a second
    // thread for one takes longer. Work that blocks or computes has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(home, config, soft_limits));
    // A task that still reads a spool may be cut off: the spool stays on disk, and the next daemon reads
    // on.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(lock);
    match ended {
        Err(DaemonError::Fenced) => Err(restart::start(soft_limits).into()),
        ended => ended,
    }
}

/// Opens the store, registers the host, and serves until the end of the daemon or of its right to the
/// host.
async fn serve(home: &Home, config: &Config, soft_limits: SoftLimits) -> Result<(), DaemonError> {
    let idempotency = &config.settings.idempotency;
    let ttl = |secs: u64| (secs > 0).then(|| Duration::from_secs(secs));
    let times = TimesToLive {
        answers: ttl(idempotency.completed_ttl_secs),
        intents: ttl(idempotency.in_progress_ttl_secs),
        claims: Duration::from_secs(config.settings.worker.claim_secs),
        settled: host::keeps_settled(config),
    };
    let shims = Shims::new("/proc/self/exe".into());
    shims.recognise(&[home.attempts(), home.checks()]);
    // An unknown attempt does not count: the parent may have ended, or be in a box of another home's agent.
    if let Some(attempt) = shims.own_place().attempt() {
        return Err(DaemonError::Inside(attempt));
    }
    let name = host::name(config)?;
    let store = engine::open(home, &config.settings.engine, &name, times).await?;
    let places = host::places(home, config, &store);
    let store = store.with_places(places);
    let host = host::register(home, config, &store, &shims).await?;
    let ending = CancellationToken::new();
    let serving = serve_as(home, config, soft_limits, &store, &shims, host, ending.clone());
    let mut serving = Box::pin(serving);
    tokio::select! {
        ended = &mut serving => ended,
        () = store.fenced() => {
            if let Some(migration) = store.newer_migration() {
                ending.cancel();
                let _ = tokio::time::timeout(ENDING_LIMIT, serving).await;
                return Err(DaemonError::Outdated(migration));
            }
            // The shims read this and kill what runs, whatever happens to this process.
            if let Some(lease) = shims.lease() {
                lease.fence()?;
            }
            tracing::error!(host = store.host(), "this host is not this daemon's any more");
            if ending.is_cancelled() { Ok(()) } else { Err(DaemonError::Fenced) }
        }
    }
}

/// Starts the actors, adopts, and serves as the daemon of the registered host, until a signal or
/// `ending`.
async fn serve_as(
    home: &Home,
    config: &Config,
    soft_limits: SoftLimits,
    store: &Store,
    shims: &Shims,
    host: OwnHost,
    ending: CancellationToken,
) -> Result<(), DaemonError> {
    let noted = host::note_repositories(store).await;
    noted.map_err(|refusal| DaemonError::Host(refusal.message, refusal.hint))?;
    let (owners, world, mut gateway_ended) =
        start_actors(home, config, soft_limits, store, shims.clone(), host).await?;
    let mut sharing = host::share(&owners.gateway, &world);
    // Before `Restore`: `tidy` removes the leftovers of runs that are not open, and a finish that
    // `Restore` continues may plan another run.
    checks::tidy(&world).await.map_err(|refusal| DaemonError::Restore(refusal.to_string()))?;
    let count = ractor::call!(owners.gateway, gateway::GatewayMessage::Restore)
        .map_err(|error| DaemonError::Restore(error.to_string()))?
        .map_err(|refusal| DaemonError::Restore(refusal.to_string()))?;
    if count > 0 {
        tracing::info!(count, "attempts of an earlier daemon adopted");
    }

    // The send can't fail: the actor lives as long as the daemon.
    let _ = owners.checks.send_message(checks::ChecksMessage::Planned);
    orphans::report(home.attempts(), store).await;

    let domain = Arc::new(Domain::new(
        store.clone(),
        owners,
        world,
        config.settings.guards.clone(),
        config.settings.answers.clone(),
        home.data_dir.clone(),
        ending.clone(),
    ));
    let socket = listen::bind(home)?;
    let resuming = Arc::clone(&domain);
    let taking_up = tokio::spawn(async move { resuming.take_up_answers().await });
    let chores = chores::run(store.clone(), shims.clone(), home.clone(), Arc::clone(&domain));
    let chores = tokio::spawn(chores);
    let config::Worker { agent_per_minute, all_per_minute, burst_per_second, .. } =
        config.settings.worker;
    let rates = Rates::new(Rate { agent_per_minute, all_per_minute, burst_per_second });
    let rates = Arc::new(rates);
    host::serve_others(&domain, store, &rates, &ending).await;
    let limits = mcp::Limits::new(rates, mcp::Shared::default());
    let face = serve_face(home, config, &domain, limits.clone(), ending.clone()).await;
    let serving = tokio::spawn(listen::serve(socket, domain, limits, ending.clone()));
    tracing::info!(home = %home.data_dir.display(), pid = std::process::id(), "ready");

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let ended = loop {
        tokio::select! {
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            () = ending.cancelled() => break Ok(()),
            _ = &mut gateway_ended => break Err(DaemonError::GatewayEnded),
            // A daemon that was started from a terminal outlives it.
            _ = hangup.recv() => {}
        }
    };
    tracing::info!("ending; executors keep running");
    ending.cancel();
    chores.abort();
    taking_up.abort();
    let _ = serving.await;
    if let Some(face) = face {
        let _ = face.await;
    }
    // No other daemon can have bound the socket: this one still holds the lock.
    home.remove_socket();
    if !sharing.is_empty() {
        sharing.shutdown().await;
        host::leave(home, store, shims).await;
    }
    store.close().await;
    ended
}

/// Starts the HTTP face. A daemon that can't serve it runs without it, and `provost doctor` says why.
async fn serve_face(
    home: &Home,
    config: &Config,
    domain: &Arc<Domain>,
    limits: mcp::Limits,
    ending: CancellationToken,
) -> Option<JoinHandle<()>> {
    let http = &config.settings.http;
    let sockets = if host::role(config) == HostRole::Worker {
        Err("this host is a worker: `provost hosts` lists those that serve the page".to_owned())
    } else {
        match domain.keep_owner().await {
            Ok(()) => face::Sockets::bind(home, http),
            Err(refusal) => Err(refusal.message),
        }
    };
    match sockets {
        Ok(sockets) => {
            tracing::info!(url = sockets.url(), "the page is served");
            domain.set_face(Ok(sockets.url()));
            Some(tokio::spawn(sockets.serve(Arc::clone(domain), limits, ending)))
        }
        Err(why) => {
            if http.listen != "off" {
                tracing::warn!(why, "the page is not served");
            }
            domain.set_face(Err(why));
            None
        }
    }
}

/// Starts the root and the actors below it, with the settings that they all share. The returned task ends
/// when the gateway does.
async fn start_actors(
    home: &Home,
    config: &Config,
    soft_limits: SoftLimits,
    store: &Store,
    shims: Shims,
    host: OwnHost,
) -> Result<(Owners, Arc<World>, JoinHandle<()>), DaemonError> {
    let environment = environment();
    let settings = &config.settings;
    let executors = Registry::new(config, home.machine(environment.clone()));
    let checks = checks(config);
    let forges = config.forges.iter();
    let forges = forges.map(|(host, it)| (host.clone(), it.resolved(&environment))).collect();
    let cgroups = cgroups(&executors, checks.limits);
    let (root, _) = Actor::spawn(None, Root, ()).await?;
    let logs = Logs::new(home.attempts(), log_limits(&settings.logs));
    let logs = if host.has_lease { logs.copied_to(Arc::new(store.clone())) } else { logs };
    let world = Arc::new(World {
        journal: Arc::new(store.clone()),
        host,
        executors: Arc::new(executors),
        shims,
        repositories: Repositories::default(),
        logs,
        check_signals: CheckSignals::default(),
        to_probe: std::sync::Mutex::default(),
        to_push: tokio::sync::Notify::default(),
        settings: ActorSettings {
            max_running_attempts: host::slots(config),
            max_running_answers: settings.answers.max_running,
            approval_timeout: Some(settings.approvals.timeout_secs)
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            folders: home.for_actors(),
            launch: LaunchSettings {
                stop_grace: Duration::from_millis(settings.daemon.stop_grace_ms),
                spool_max_bytes: settings.logs.spool_max_bytes,
                cgroups,
                soft_limits,
                environment,
                secret_names: SecretNames(settings.secrets.names.clone()),
                program: std::env::current_exe()?,
                home_variable: home.root.as_ref().map(|it| it.to_string_lossy().into_owned()),
            },
            worktrees: worktrees(home, config, store),
            checks,
            forges,
        },
    });
    let (gateway, gateway_ended) =
        Actor::spawn_linked(None, Gateway, Arc::clone(&world), root.get_cell()).await?;
    let arguments = (Arc::clone(&world), gateway.clone());
    if world.host.has_lease {
        tokio::spawn(gateway::keep_claiming(gateway.clone(), Arc::clone(&world)));
        tokio::spawn(gateway::keep_applying(gateway.clone(), Arc::clone(&world)));
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.logs.keep_shipping().await });
    }
    let (checks, _) = Actor::spawn_linked(None, Checks, arguments, root.get_cell()).await?;
    Ok((Owners { gateway, checks }, world, gateway_ended))
}

fn log_limits(logs: &config::Logs) -> LogLimits {
    let config::Logs { ring_entries, ring_bytes, spool_max_bytes, .. } = *logs;
    LogLimits { ring_entries, ring_bytes, spool_max_bytes }
}

/// The settings of worktrees.
fn worktrees(home: &Home, config: &Config, store: &Store) -> WorktreeSettings {
    let settings = &config.settings;
    WorktreeSettings {
        branch_prefix: settings.worktrees.branch_prefix.clone(),
        repos: repos(config),
        places: store.places().clone(),
        cache: cache(home, settings.worktrees.cache_max_bytes),
        copy_max_bytes: settings.worktrees.copy_max_bytes,
        // The configuration has checked the text, so the default is never used.
        ports: config::ports(&settings.worktrees.ports).unwrap_or(24000..=31999),
        keep_snapshots: Duration::from_secs(settings.worktrees.snapshot_days * 86_400),
        snapshot_remote: Some(settings.engine.snapshot_remote.clone())
            .filter(|name| !name.is_empty()),
    }
}

/// The settings of the checks that run when a task is reported as done, or before its work is merged.
fn checks(config: &Config) -> provost_actors::world::Checks {
    let config::Checks { max_running, wall_secs, memory_bytes, processes } = config.settings.checks;
    let projects = config.projects.iter();
    let given = projects.clone().filter(|(_, it)| !it.checks_given.is_empty());
    provost_actors::world::Checks {
        max_running,
        limits: Limits { wall_secs, memory_bytes, processes, ..Limits::default() },
        projects: projects.map(|(name, it)| (name.clone(), it.checks.clone())).collect(),
        given: given.map(|(name, it)| (name.clone(), it.checks_given.clone())).collect(),
    }
}

fn cache(home: &Home, max_bytes: u64) -> Cache {
    Cache { dir: home.cache(), scratch: home.scratch(), max_bytes }
}

/// What is configured for the worktrees of repositories.
fn repos(config: &Config) -> RepoConfig {
    let projects = config.projects.iter().filter(|(_, it)| !it.repos.is_empty());
    let given = projects.clone().map(|(name, it)| (name.clone(), it.given.clone())).collect();
    let projects = projects.map(|(name, it)| (name.clone(), it.repos.clone())).collect();
    RepoConfig { projects, given, read: config::read_repo_file }
}

/// The cgroup below which those of executors are created. `None`: no limit needs one, or cgroups can't be
/// used here, which is logged; limits are then enforced by polling.
fn cgroups(executors: &Registry, checks: Limits) -> Option<PathBuf> {
    let limits = executors.all().into_iter().map(|it| executors.limits(&it.describe().name));
    limits.chain([checks]).find(Limits::want_cgroup)?;
    cgroup::base()
        .inspect_err(|reason| tracing::warn!(%reason, "limits are enforced by polling"))
        .ok()
}

/// Raises this process's soft limit of open files to the hard limit: an attempt takes some descriptors of
/// the daemon, and the soft limit is often 1,024. Returns the old limit, which executors get: select(2)
/// fails beyond 1,024.
fn raise_open_files_limit() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    // Fails if the hard limit exceeds the kernel's own; the soft limit stays then.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some(soft)
}
