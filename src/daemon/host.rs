//! The host of a daemon: what it registers at its start.

use std::fs;

use provost_actors::host::{LOCAL, Registration};
use provost_actors::world::OwnHost;

use super::DaemonError;
use crate::config::Config;
use crate::home::Home;
use crate::secret;
use crate::store::Store;

/// Registers the host once more, before the daemon takes up what an earlier one left.
pub async fn register(home: &Home, config: &Config, store: &Store) -> Result<OwnHost, DaemonError> {
    let kept = secret::kept_or_made(&home.host_secret(), &home.scratch())?;
    let registration = Registration {
        host_id: LOCAL.to_owned(),
        secret: secret::hash(&kept),
        labels: config.settings.host.labels.clone(),
        slots: config.settings.daemon.max_running_attempts as u64,
        memory: memory(&fs::read_to_string("/proc/meminfo")?),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // SQLite serves one home, whose lock this daemon holds.
        lease: None,
    };
    let registered = store.register_host(&registration).await;
    let host = registered.map_err(|refusal| DaemonError::Host(refusal.message, refusal.hint))?;
    tracing::info!(host = host.host_id, incarnation = host.incarnation, "registered");
    Ok(OwnHost::new(&host))
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
