//! The daemon's host: what a daemon registers at its start, and what it does for as long as the host is
//! its own. On a board that hosts share, a host has a lease:
//!
//! ```text
//!  start -> end stale processes -> register -> leased (`keep_lease` renews)
//!                 ^                   |          |
//!                 +- given up now ----+          +-> not renewed in time, or another daemon registered it:
//!                                                |   fenced; shims kill what runs, the daemon restarts
//!                                                +-> the daemon ends and nothing runs: the end is noted
//! ```

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::attempt;
use provost_actors::gateway::{self, GatewayMessage};
use provost_actors::host::{Host, HostRole, LOCAL, Registration, is_label};
use provost_actors::journal::{Bundles as _, Hosts as _};
use provost_actors::process::Shims;
use provost_actors::process::lease::{self, Lease};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::retry::while_store_fails;
use provost_actors::workspace::Places;
use provost_actors::world::{OwnHost, World};
use ractor::ActorRef;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{DaemonError, stale_processes};
use crate::config::Config;
use crate::domain::Domain;
use crate::home::Home;
use crate::secret;
use crate::store::Store;
use crate::tools::{Rates, forwarded_calls};

/// The host's name: `local` if the board is a file of the home, else the configured name, else the
/// machine's.
///
/// # Errors
/// The machine's name can't be a host's name, or a role is configured that needs a shared board.
pub fn name(config: &Config) -> Result<String, DaemonError> {
    if config.settings.engine.url.is_empty() {
        if role(config) != HostRole::All {
            let role = &config.settings.host.role;
            let why =
                format!("a {role} shares its board with other hosts, and [engine] url is not set");
            let hint = "Write the url of the board's database below [engine] in config.toml, or \
                        remove role below [host].";
            return Err(DaemonError::Host(why, hint.to_owned()));
        }
        return Ok(LOCAL.to_owned());
    }
    let configured = &config.settings.host.name;
    if !configured.is_empty() {
        return Ok(configured.clone());
    }
    let own = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    if is_label(&own) {
        return Ok(own);
    }
    let why = format!("the machine's name, {own:?}, can't be the name of a host");
    Err(DaemonError::Host(why, "Write name = \"…\" below [host] in config.toml.".to_owned()))
}

/// The configured role. `all` is the default; the configuration has checked the text.
pub fn role(config: &Config) -> HostRole {
    match config.settings.host.role.as_str() {
        "gateway" => HostRole::Gateway,
        "worker" => HostRole::Worker,
        _ => HostRole::All,
    }
}

/// How many attempts may run at the same time on this host; 0 for a gateway, which runs none.
pub fn slots(config: &Config) -> usize {
    match role(config) {
        HostRole::Gateway => 0,
        HostRole::All | HostRole::Worker => config.settings.daemon.max_running_attempts,
    }
}

/// How long a shared board keeps what other hosts need of settled attempts. `None`: this daemon removes
/// nothing (the board is a file, the host is a worker, or the setting is 0).
pub fn keeps_settled(config: &Config) -> Option<Duration> {
    let engine = &config.settings.engine;
    let removes = !engine.url.is_empty() && role(config) != HostRole::Worker;
    let days = Some(engine.keep_days).filter(|days| removes && *days > 0);
    days.map(|days| Duration::from_secs(days * 86_400))
}

/// Where this host has the repositories of the board: at their paths, or as mirrors in the home.
pub fn places(home: &Home, config: &Config, store: &Store) -> Places {
    if store.is_shared() {
        Places::with_mirrors(home.mirrors(), config.settings.host.repositories == "mirrors")
    } else {
        Places::default()
    }
}

/// Records which repositories of a shared board this host has at their paths: calls that need the
/// repository itself go to such a host.
pub async fn note_repositories(store: &Store) -> Result<(), Refusal> {
    let places = store.places();
    if !store.is_shared() {
        return Ok(());
    }
    if places.avoids_paths() {
        return store.record_no_repos_here().await;
    }
    for (repo, path) in store.repo_paths().await? {
        if !places.is_mirror(&places.of(repo, &path)) {
            store.record_repo_here(repo).await?;
        }
    }
    Ok(())
}

/// Registers the host. This must come before the daemon adopts what an earlier one left: only a
/// registered host may own attempts.
pub async fn register(
    home: &Home,
    config: &Config,
    store: &Store,
    shims: &Shims,
) -> Result<OwnHost, DaemonError> {
    let kept = secret::kept_or_made(&home.host_secret(), &home.scratch())?;
    // A board in a file belongs to one home, whose lock this daemon holds: it needs no lease.
    let is_shared = !config.settings.engine.url.is_empty();
    let registration = Registration {
        host_id: store.host().to_owned(),
        secret: secret::hash(&kept),
        labels: config.settings.host.labels.clone(),
        slots: slots(config) as u64,
        memory: match config.settings.host.memory_mb {
            0 => memory(&fs::read_to_string("/proc/meminfo")?),
            configured => configured << 20,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: role(config),
        lease: is_shared.then_some(Duration::from_secs(config.settings.host.lease_secs)),
        fenced_at: None,
    };
    let host = match registration.lease {
        Some(length) => leased(home, store, shims, registration, length).await?,
        None => match store.register_host(&registration).await {
            Ok(host) => host,
            Err(refusal) => registered_before(store, registration, refusal).await?,
        },
    };
    tracing::info!(host = host.host_id, incarnation = host.incarnation, "registered");
    Ok(OwnHost::new(&host))
}

/// Registers a host with a lease, which other daemons may give up. Before that, it ends what runs in this
/// home and does not belong to the host (any more).
async fn leased(
    home: &Home,
    store: &Store,
    shims: &Shims,
    mut registration: Registration,
    length: Duration,
) -> Result<Host, DaemonError> {
    let refused = |refusal: Refusal| DaemonError::Host(refusal.message, refusal.hint);
    let lease = Lease::open(home.lease())?;
    loop {
        let hosts = store.hosts().await.map_err(refused)?;
        stale_processes::end(home, store, shims, &lease, &hosts, &registration).await?;
        let known = hosts.iter().find(|it| it.host_id == registration.host_id);
        registration.fenced_at = known.and_then(|it| it.fenced_at);
        let asked = lease::now();
        match store.register_host(&registration).await {
            Ok(host) => {
                warn_of_versions(&hosts, &registration);
                lease.renewed(asked, length)?;
                shims.start_under(lease);
                return Ok(host);
            }
            // Another daemon gave this host up between the look and the registration: look again.
            Err(refusal) if refusal.code == Code::AttemptRunning => {}
            Err(refusal) => return Err(refused(refusal)),
        }
    }
}

/// Logs a warning if daemons of different versions share the board: their calls and schemas may differ.
fn warn_of_versions(hosts: &[Host], own: &Registration) {
    let others =
        hosts.iter().filter(|it| it.host_id != own.host_id && it.is_other_version(&own.version));
    let others: Vec<String> =
        others.map(|it| format!("{} has {}", it.host_id, it.version)).collect();
    if !others.is_empty() {
        tracing::warn!(
            own = own.version,
            others = others.join(", "),
            "the daemons of this board are of different versions: run the same one on all hosts"
        );
    }
}

/// The host as it was last registered, if the store takes no write now: a full disk must not keep a
/// daemon from its executors. The registration is repeated in the background. With a lease this is an
/// error: another daemon may have given the host up.
async fn registered_before(
    store: &Store,
    registration: Registration,
    refusal: Refusal,
) -> Result<Host, DaemonError> {
    let may_wait = refusal.code.is_of_store() && registration.lease.is_none();
    let known = store.hosts().await.unwrap_or_default().into_iter();
    let known = known.filter(|_| may_wait).find(|host| host.host_id == registration.host_id);
    let Some(known) = known else {
        return Err(DaemonError::Host(refusal.message, refusal.hint));
    };
    tracing::warn!(%refusal, "the registration of this host waits");
    let store = store.clone();
    tokio::spawn(async move {
        let registering =
            while_store_fails("registering this host", || store.register_host(&registration));
        if let Err(refusal) = registering.await {
            tracing::error!(%refusal, "this host is not registered");
        }
    });
    Ok(known)
}

/// Starts the tasks of a shared board's host: one renews its lease, one acts after each renewal (it looks
/// for lost hosts, and claims attempts), one pushes what turns leave to the remotes that keep it. The
/// tasks end when the set is dropped. The set is empty without a lease.
pub fn share(gateway: &ActorRef<GatewayMessage>, world: &Arc<World>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if let Some(lease) = world.host.lease {
        tasks.spawn(gateway::keep_lease(Arc::clone(world), lease));
        tasks.spawn(gateway::follow_lease(gateway.clone(), Arc::clone(world)));
        tasks.spawn(attempt::keep_pushed(Arc::clone(world)));
    }
    tasks
}

/// Records that the host's daemon has ended, so that other hosts need not wait for its lease. Not if
/// something of this home still runs: other hosts must not take over its attempts.
pub async fn leave(home: &Home, store: &Store, shims: &Shims) {
    let alive = shims.alive_below(&[home.attempts(), home.checks()]).await;
    if !alive.is_ok_and(|alive| alive.is_empty()) {
        return;
    }
    if let Err(refusal) = store.end_host().await {
        tracing::warn!(%refusal, "the end of this daemon is not noted");
    }
}

/// Starts the tasks that follow the commits of other hosts' daemons, and that carry out the calls which
/// they forward to this host. They run until `ending`. Does nothing if the board is not shared.
pub async fn serve_others(
    domain: &Arc<Domain>,
    store: &Store,
    rates: &Arc<Rates>,
    ending: &CancellationToken,
) {
    if !store.is_shared() {
        return;
    }
    let last = store.newest_change().await.unwrap_or_default();
    let serving = Arc::clone(domain);
    let (store, domain, ending) = (store.clone(), Arc::clone(domain), ending.clone());
    let following = async move { tokio::join!(store.follow(last), domain.follow_answers(last)) };
    tokio::spawn(forwarded_calls::serve(serving, Arc::clone(rates), ending.clone()));
    tokio::spawn(async move { ending.run_until_cancelled(following).await });
}

/// The machine's memory in bytes, from the text of `/proc/meminfo` (proc_meminfo(5)); 0 if it does not
/// say.
fn memory(text: &str) -> u64 {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_machines() {
        assert_eq!(memory("MemTotal:       24576 kB\nMemFree: 1 kB\n"), 24576 * 1024);
        assert_eq!(memory("MemFree: 1 kB\n"), 0);
    }
}
