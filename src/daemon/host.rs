//! The host of a daemon: what it registers at its start.

use std::fs;
use std::sync::Arc;

use provost_actors::host::{Host, LEASE, LOCAL, RENEW_EVERY, Registration, is_label};
use provost_actors::journal::Hosts as _;
use provost_actors::refusal::Refusal;
use provost_actors::world::OwnHost;
use tokio_util::sync::CancellationToken;

use super::DaemonError;
use crate::config::Config;
use crate::domain::Domain;
use crate::home::Home;
use crate::secret;
use crate::store::Store;
use crate::tools::{Rates, carried};

/// The host's name: `local` where the board is a file of the home.
pub fn name(config: &Config) -> Result<String, DaemonError> {
    if config.settings.engine.url.is_empty() {
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

/// Registers the host once more, before the daemon takes up what an earlier one left.
pub async fn register(home: &Home, config: &Config, store: &Store) -> Result<OwnHost, DaemonError> {
    let kept = secret::kept_or_made(&home.host_secret(), &home.scratch())?;
    let registration = Registration {
        host_id: store.host().to_owned(),
        secret: secret::hash(&kept),
        labels: config.settings.host.labels.clone(),
        slots: config.settings.daemon.max_running_attempts as u64,
        memory: memory(&fs::read_to_string("/proc/meminfo")?),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // A file serves one home, whose lock this daemon holds.
        lease: (!config.settings.engine.url.is_empty()).then_some(LEASE),
    };
    let host = match store.register_host(&registration).await {
        Ok(host) => host,
        Err(refusal) => registered_before(store, registration, refusal).await?,
    };
    tracing::info!(host = host.host_id, incarnation = host.incarnation, "registered");
    Ok(OwnHost::new(&host))
}

/// The host as it was registered last, where the store takes no write now: a full disk is to keep
/// no daemon from its executors. The registration is written as soon as that can be.
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
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            match store.register_host(&registration).await {
                Err(refusal) if refusal.code.is_of_store() => {}
                Err(refusal) => return tracing::error!(%refusal, "this host is not registered"),
                Ok(_) => return,
            }
        }
    });
    Ok(known)
}

/// Follows what the daemons of other hosts commit, and carries out what they ask this one for, until
/// it ends.
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
    tokio::spawn(carried::serve(serving, Arc::clone(rates), ending.clone()));
    tokio::spawn(async move { ending.run_until_cancelled(following).await });
}

/// The machine's memory, in bytes, as proc_meminfo(5) shows it; 0: it does not.
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
