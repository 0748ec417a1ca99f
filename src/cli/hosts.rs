//! `provost hosts` and `provost host`: the machines that attempts run on.

use super::prelude::*;

#[derive(clap::Subcommand, Debug)]
pub enum HostCommand {
    /// Let nothing new begin on a host; what runs goes on to its end
    ///
    /// New attempts and queued prompts wait until `provost host resume`, also when the daemon is
    /// restarted.
    Drain {
        /// The host's name; `local` without a shared database
        host: String,
    },
    /// Let the queue of a drained host go on
    Resume {
        /// The host's name
        host: String,
    },
    /// Forget a host whose lease is over and whose attempts are settled
    Remove {
        /// The host's name
        host: String,
    },
}

pub async fn hosts(context: &mut Context) -> Result<Exit, Failure> {
    let listed = context.call::<HostsListed>(json!({})).await?;
    context.show(&listed, table)
}

/// `provost host drain`, `resume` and `remove`; each prints all hosts afterwards.
pub async fn host(context: &mut Context, command: HostCommand) -> Result<Exit, Failure> {
    let (host, change) = match command {
        HostCommand::Drain { host } => (host, HostChange::Drain),
        HostCommand::Resume { host } => (host, HostChange::Resume),
        HostCommand::Remove { host } => (host, HostChange::Remove),
    };
    let changed = context.call::<ChangedHosts>(json!({"host": host, "change": change})).await?;
    context.show(&changed, |out, ChangedHosts(listed)| table(out, listed))
}

fn table(out: &mut Output, listed: &HostsListed) -> std::io::Result<()> {
    let columns = [
        Whole("HOST"),
        Whole("ROLE"),
        Whole("STATE"),
        Wrapped("LABELS"),
        Whole("SLOTS"),
        Whole("MEMORY"),
        Whole("VERSION"),
        Whole("RENEWED"),
    ];
    let now = Timestamp::now();
    out.list(&columns, listed.hosts.iter().map(|host| row(host, now)), "there are no hosts")
}

fn row(host: &HostLine, now: Timestamp) -> Vec<String> {
    let state = match host.liveness {
        Liveness::Alive => word(&host.state),
        other => format!("{}, {}", word(&host.state), word(&other)),
    };
    let labels = if host.labels.is_empty() { "-".to_owned() } else { host.labels.join(" ") };
    // A home without a shared board has no lease.
    let renewed =
        host.lease_until.map(|_| format!("{}s ago", now.since(host.renewed_at).as_secs()));
    let other = if host.version_differs { " (other)" } else { "" };
    let version = format!("{}{other}", host.version);
    let (used, all) = (host.memory_used_bytes >> 20, host.memory_bytes >> 20);
    let memory = if used == 0 { format!("{all} MiB") } else { format!("{used}/{all} MiB") };
    vec![
        host.host.clone(),
        word(&host.role),
        state,
        labels,
        format!("{}/{}", host.slots_used, host.slots),
        memory,
        version,
        renewed.unwrap_or_else(|| "-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_what_is_missing_of_a_host() {
        let at = Timestamp::from_millis;
        let local = HostLine {
            host: "local".to_owned(),
            role: HostRole::All,
            state: HostState::Draining,
            liveness: Liveness::Alive,
            labels: Vec::new(),
            slots_used: 1,
            slots: 8,
            memory_used_bytes: 0,
            memory_bytes: 24 << 30,
            version: "0.1.0".to_owned(),
            version_differs: false,
            incarnation: 3,
            registered_at: at(0),
            renewed_at: at(0),
            lease_until: None,
        };
        let shown = row(&local, at(12_000));
        assert_eq!(shown, ["local", "all", "draining", "-", "1/8", "24576 MiB", "0.1.0", "-"]);
        let late = HostLine {
            state: HostState::Active,
            liveness: Liveness::Suspect,
            labels: vec!["big".to_owned(), "gpu".to_owned()],
            lease_until: Some(at(30_000)),
            memory_used_bytes: 2 << 30,
            version_differs: true,
            ..local
        };
        let shown = row(&late, at(12_000));
        assert_eq!(shown[2..4], ["active, suspect", "big gpu"]);
        assert_eq!(shown[5..], ["2048/24576 MiB", "0.1.0 (other)", "12s ago"]);
    }
}
