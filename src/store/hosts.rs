//! The hosts that share the store: registered by their daemons, changed by people.
//!
//! ```text
//!  (no row) ─register─▶ active ─drain─▶ draining ─resume─▶ active          remove ─▶ (no row)
//!
//!  beside this state:
//!  valid ─not renewed for a lease and a third─▶ lost ─a sweep, a move─▶ fenced ─register─▶ valid
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::host::{
    Host, HostChange, HostState, Lease, Registration, Used, next_incarnation,
};
use provost_actors::ids::AttemptId;
use provost_actors::journal::Hosts;
use provost_actors::refusal::{Code, Refusal};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::approvals::count_change;
use super::fence::{engine_is_there, millis};
use super::{Connection, Db, Result, RetryBudget, Sql, Store, word};

/// How much the clock of a host may differ from that of the engine without a warning, in milliseconds.
const SKEW_MAX: u64 = 2000;

/// The query for the hosts that a condition picks, with the time of the read by the engine's clock.
fn hosts(db: &Connection, which: &str) -> AssertSqlSafe<String> {
    let now = db.dialect().now;
    AssertSqlSafe(format!(
        "SELECT h.*, s.secret, {now} AS read_at
         FROM hosts h JOIN host_homes s ON s.host_id = h.host_id {which}"
    ))
}

async fn by_id(db: Db<'_>, host: &str) -> Result<Option<Host>> {
    let sql = hosts(db, "WHERE h.host_id = $1");
    db.find(sql, (host,)).await
}

impl Store {
    /// Registers a host, in its next incarnation; a known host keeps its state. From then on this daemon's
    /// writes fail once its host is given up or registered by another daemon.
    pub async fn register_host(&self, registration: &Registration) -> Result<Host, Refusal> {
        let is_own = registration.host_id == *self.host;
        if is_own {
            self.fence.require(None);
        }
        let registered =
            self.write(RetryBudget::Short, "host", async |db| register(db, registration).await);
        let host = registered.await?;
        if is_own && self.is_shared() {
            self.fence.require(Some(host.incarnation));
        }
        Ok(host)
    }

    /// Those of these attempts that this host has.
    pub async fn own_of(&self, attempts: &[AttemptId]) -> Result<Vec<AttemptId>, Refusal> {
        let sql = "SELECT attempt_id FROM attempts
             WHERE host = $1 AND attempt_id IN (SELECT value FROM json_each($2))";
        self.read(async |db| db.all(sql, (&self.host, attempts)).await).await
    }

    /// The id of the board, which never changes.
    pub async fn board_id(&self) -> Result<String, Refusal> {
        self.read(async |db| db.one("SELECT board_id FROM cluster", ()).await).await
    }

    /// The name of the host whose daemon this is.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the board is on a server, so that other hosts may share it.
    pub fn is_shared(&self) -> bool {
        self.file.is_none()
    }

    /// How many hosts are registered.
    pub async fn count_hosts(&self) -> Result<usize, Refusal> {
        self.read(async |db| db.one("SELECT count(*) FROM hosts", ()).await).await
    }
}

#[async_trait]
impl Hosts for Store {
    async fn hosts(&self) -> Result<Vec<Host>, Refusal> {
        self.read(async |db| {
            let sql = hosts(db, "ORDER BY h.host_id");
            db.all(sql, ()).await
        })
        .await
    }

    async fn used(&self) -> Result<BTreeMap<String, Used>, Refusal> {
        let sql = "SELECT a.host, count(*), CAST(sum(a.memory) AS BIGINT)
             FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             WHERE a.phase IN ('preparing', 'running', 'stopping') AND t.kind <> 'answer'
             GROUP BY a.host";
        let rows: Vec<(String, u64, u64)> = self.read(async |db| db.all(sql, ()).await).await?;
        Ok(rows.into_iter().map(|(host, slots, memory)| (host, Used { slots, memory })).collect())
    }

    async fn renew_host(
        &self,
        host: &str,
        incarnation: u64,
        lease: Duration,
    ) -> Result<Option<HostState>, Refusal> {
        // A renewal waits for no other host's write, and wakes no other daemon.
        let renewed = self.renewing(Lease(lease).renew_every(), async |db| {
            // By the engine's clock, because the clocks of the hosts may differ.
            let now = db.dialect().now;
            let sql = format!(
                "UPDATE hosts SET renewed_at = {now}, lease_until = {now} + $3
                 WHERE host_id = $1 AND incarnation = $2 AND fenced_at IS NULL
                 RETURNING state"
            );
            let values = (host, incarnation, millis(lease));
            let renewed: Option<HostState> = db.find(AssertSqlSafe(sql), values).await?;
            engine_is_there(db, lease).await?;
            Ok(renewed)
        });
        let renewed = renewed.await;
        let own = self.fence.incarnation() == Some(incarnation) && host == &*self.host;
        match renewed {
            Ok(None) if own => Err(self.fence.lost(host)),
            Ok(renewed) => Ok(renewed),
            // The renewal is tried again soon.
            Err(refusal) if refusal.code == Code::DbLocked => Err(refusal),
            Err(refusal) => {
                // In a task of its own, so that the next try does not wait for it.
                let store = self.clone();
                tokio::spawn(async move { store.look_at_fence().await });
                Err(refusal)
            }
        }
    }

    async fn change_host(
        &self,
        host: &str,
        change: HostChange,
    ) -> Result<Option<HostState>, Refusal> {
        let (state, waiting) = self
            .write(RetryBudget::Short, "host", async |db| {
                let found = by_id(db, host).await?.ok_or_else(|| no_host(host))?;
                match change {
                    HostChange::Drain => set_state(db, &found, HostState::Draining).await,
                    HostChange::Resume => set_state(db, &found, HostState::Active).await,
                    HostChange::Remove => remove(db, &found).await,
                }
            })
            .await?;
        for attempt in waiting {
            self.changes.announce(attempt);
        }
        Ok(state)
    }
}

async fn register(db: Db<'_>, registration: &Registration) -> Result<Host> {
    let Registration { host_id, secret, labels, slots, memory, version, role, lease, .. } =
        registration;
    let known = by_id(db, host_id).await?;
    let now = db.dialect().now;
    // By the engine's clock, because the clocks of the hosts may differ.
    let now = Timestamp::from_millis(db.one(AssertSqlSafe(format!("SELECT {now}")), ()).await?);
    let skew = Timestamp::now().millis().abs_diff(now.millis());
    if skew > SKEW_MAX {
        tracing::warn!(
            host = host_id,
            skew_ms = skew,
            "the clock of this host is not that of the database: set both by NTP, for times on the \
             board are those of the hosts"
        );
    }
    let incarnation = next_incarnation(known.as_ref(), registration, now)?;
    let last = known.as_ref().and_then(|known| known.lease_until).map(Timestamp::millis);
    let has_ended = known.as_ref().is_some_and(|known| known.ended_at.is_some());
    if known.is_some_and(|known| known.secret != *secret) {
        tracing::warn!(host = host_id, "another home had this host: its attempts are taken up");
    }
    let until = lease.map(|lease| now.plus(lease).millis());
    let sql = "INSERT INTO hosts (host_id, incarnation, labels, slots, memory, version, state,
                                  registered_at, renewed_at, lease_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9)
         ON CONFLICT (host_id) DO UPDATE SET
             incarnation = excluded.incarnation, labels = excluded.labels,
             slots = excluded.slots, memory = excluded.memory, version = excluded.version, registered_at = excluded.registered_at,
             renewed_at = excluded.renewed_at, lease_until = excluded.lease_until,
             fenced_at = NULL
         WHERE hosts.incarnation = excluded.incarnation - 1
           AND hosts.lease_until IS NOT DISTINCT FROM $10";
    let (active, now) = (HostState::Active, now.millis());
    // `lease_until` must be unchanged: a lease that was renewed after this read belongs to a live daemon.
    let values = (host_id, incarnation, labels, slots, memory, version, active, now, until, last);
    if db.run(sql, values).await? == 0 {
        let message = format!("another daemon has just registered host {host_id}");
        return Err(Refusal::new(Code::NotPermitted, message).into());
    }
    db.run("UPDATE hosts SET role = $2 WHERE host_id = $1", (host_id, role)).await?;
    if has_ended {
        db.run("UPDATE hosts SET ended_at = NULL WHERE host_id = $1", (host_id,)).await?;
    }
    db.replace("host_homes", "host_id", json!({"host_id": host_id, "secret": secret})).await?;
    if let Some(lease) = lease {
        engine_is_there(db, *lease).await?;
    }
    let sql = hosts(db, "WHERE h.host_id = $1");
    db.one(sql, (host_id,)).await
}

/// The state of a host after a change (`None`: removed), and the attempts whose status shows the change.
type Changed = (Option<HostState>, Vec<AttemptId>);

async fn set_state(db: Db<'_>, host: &Host, state: HostState) -> Result<Changed> {
    if host.state == state {
        return Ok((Some(state), Vec::new()));
    }
    let sql = "UPDATE hosts SET state = $2 WHERE host_id = $1";
    db.run(sql, (&host.host_id, word(&state))).await?;
    let sql = "SELECT attempt_id FROM attempts WHERE host = $1 AND phase = 'queued'";
    let waiting: Vec<AttemptId> = db.all(sql, (&host.host_id,)).await?;
    for attempt in &waiting {
        count_change(db, *attempt).await?;
    }
    Ok((Some(state), waiting))
}

async fn remove(db: Db<'_>, host: &Host) -> Result<Changed> {
    let sql = "SELECT count(*) FROM attempts a
         WHERE a.host = $1 AND (a.phase IN ('queued', 'preparing', 'running', 'stopping')
             OR EXISTS (SELECT 1 FROM finishes f
                        WHERE f.attempt_id = a.attempt_id AND f.state = 'open'))";
    let unsettled = db.one(sql, (&host.host_id,)).await?;
    host.check_removal(unsettled)?;
    db.run("DELETE FROM hosts WHERE host_id = $1", (&host.host_id,)).await?;
    Ok((None, Vec::new()))
}

fn no_host(host: &str) -> Refusal {
    Refusal::new(Code::FileNotFound, format!("there is no host {host}"))
        .hint("`provost hosts` lists them.")
}
