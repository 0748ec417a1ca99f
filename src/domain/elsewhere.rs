//! Calls about something that another host of the board has: the daemon of that host carries them out,
//! and this one waits for the answer. The row of a call (`store/host_calls.rs`) is the truth:
//!
//! ```text
//!  asking daemon (`carry`)             row                     daemon of the host
//!
//!  ask_host ------------------------> asked  --take_calls---> taken --answer_call--> answered
//!    the host's lease is over, or       |                       |                        |
//!    the deadline has passed            |                       |                        |
//!      -> withdraw (`given_up`):     removed, was         removed, "may have        answer returned,
//!                                    never begun          taken effect"             row removed later
//! ```
//!
//! A daemon that is killed after `taken` leaves the row: the next daemon of that host takes it again, and
//! the call's key makes it take effect once.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::gateway::{GatewayMessage, is_able};
use provost_actors::host::{self, Host, HostChoice as HostPlace, HostRole};
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Attempts as _, Hosts as _, Placement as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;
use uuid::Uuid;

use super::Domain;
use super::waits::cut_off;
use crate::api::placed::{Needs, Placed, Subject, Unplaced, about};
use crate::api::{
    Access, Caller, CallerLocation, Code, ForwardedCall, Idempotent, Origin, OtherHosts, Refusable,
    Refusal, Role,
};
use crate::store::HostAnswer;

/// How often the rows are read if no notification comes: notifications can be lost, rows can't.
const POLL: Duration = Duration::from_secs(1);
/// How long a call may take in addition to the `timeout_ms` that it asks for.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// The longest `timeout_ms` that is granted.
const LONGEST: Duration = Duration::from_mins(9);
/// How often an answer is tried to be written, with [`POLL`] between the tries.
const TRIES: usize = 60;

#[async_trait]
impl OtherHosts for Domain {
    fn is_shared(&self) -> bool {
        self.world.host.has_lease
    }

    async fn elsewhere(
        &self,
        placed: Placed,
        arguments: &Map<String, Value>,
    ) -> Refusable<Option<String>> {
        let (Some(placed), Some(about)) = (placed, about(arguments)) else { return Ok(None) };
        let action = arguments.get("action").and_then(Value::as_str).unwrap_or_default();
        let (needs, meets) = placed(action);
        if self.world.host.has_lease
            && meets != Unplaced::Answered
            && let Some(attempt) = self.store.unplaced_of(about).await?
            && let Some(other) = self.assign_host(attempt, meets).await?
        {
            return Ok(Some(other));
        }
        if needs == Needs::Log
            && let Subject::Attempt(attempt) = about
            && self.lost_host_of(attempt).await?.is_some()
        {
            return Ok(None);
        }
        self.carrier(about, needs).await
    }

    fn admit(&self, caller: &Caller) -> Refusable<()> {
        let is_worker = self.world.host.role == HostRole::Worker;
        let is_own = caller.place.is_inside() || caller.is_person || caller.origin.host.is_some();
        if !is_worker || is_own {
            return Ok(());
        }
        let message = format!(
            "host {} is a worker: it serves the agents of its attempts, and the commands of `provost`",
            self.world.host.id
        );
        Err(Refusal::new(Code::NotPermitted, message).hint(
            "Connect to the daemon of a host with the role all or gateway, as `provost hosts` lists \
             them.",
        ))
    }

    async fn carry(&self, host: &str, mut call: ForwardedCall) -> Refusable<Idempotent<Value>> {
        let own = &self.world.host;
        // A call that another host has forwarded already is not forwarded again: two daemons with
        // different views of who has the attempt would pass it on forever.
        if !own.has_lease || call.caller.origin.host.is_some() || host == own.id {
            return Err(host::elsewhere("what this call is about", host));
        }
        self.check_alive(host).await?;
        let id = Uuid::now_v7().to_string();
        let asked = call.arguments.get("timeout_ms").and_then(Value::as_u64).unwrap_or_default();
        let deadline =
            Timestamp::now().plus(CALL_TIMEOUT + Duration::from_millis(asked).min(LONGEST));
        call.caller.origin.host = Some(own.id.clone());
        call.caller.origin.from = format!("host {}, {}", own.id, call.caller.origin.from);
        // The id becomes the call's key: if the host's daemon is killed before it answers, the next one
        // makes the call again, and it takes effect once.
        call.id = call.id.or_else(|| Some(format!("host:{id}")));
        let watch = self.store.watch_host_call(&id);
        self.store.ask_host(&id, host, &call, deadline).await?;
        loop {
            if let Some(answer) = self.store.host_answer(&id).await? {
                let store = self.store.clone();
                // The row is removed in the background. If that fails, the rows are pruned later.
                tokio::spawn(async move {
                    if let Err(refusal) = store.forget_host_call(&id).await {
                        tracing::debug!(%refusal, id, "an answer is forgotten later");
                    }
                });
                return answer;
            }
            let why = match self.check_alive(host).await {
                Err(lost) => Some(lost),
                Ok(()) if Timestamp::now() >= deadline => Some(late(host)),
                Ok(()) => None,
            };
            if let Some(why) = why {
                return self.given_up(&id, why).await;
            }
            tokio::select! {
                // After either, the row is read again.
                _ = timeout(POLL, watch.changed()) => {}
                () = self.ending.cancelled() => return Err(cut_off()),
            }
        }
    }

    async fn take_calls(&self, running: &[String]) -> Refusable<Vec<(String, ForwardedCall)>> {
        let incarnation = self.world.host.incarnation;
        loop {
            let watch = self.store.watch_host_calls();
            let taken = self.store.take_host_calls(incarnation, running).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
            let _ = timeout(POLL, watch.changed()).await;
        }
    }

    async fn answer_call(&self, id: &str, answer: Refusable<Idempotent<Value>>) {
        for _ in 0..TRIES {
            match self.store.answer_host_call(id, &answer).await {
                Ok(()) => return,
                Err(refusal) => {
                    tracing::warn!(%refusal, id, "an answer for another host can't be written");
                    tokio::time::sleep(POLL).await;
                }
            }
        }
    }

    async fn carried_method(
        &self,
        caller: &Caller,
        method: &str,
        arguments: Map<String, Value>,
    ) -> Refusable<Idempotent<Value>> {
        let value = self.audited_method(caller, method, Some(arguments.into())).await;
        let value = value.map_err(|error| {
            let refusal = error.data.and_then(|data| serde_json::from_value(data).ok());
            refusal.unwrap_or_else(|| Refusal::internal(error.message))
        })?;
        Ok(Idempotent { value, deduplicated: false })
    }
}

impl Domain {
    /// Finds a host for an attempt that no host has, because a call needs one. `None`: this host, which
    /// has the attempt then; else the host that the call has to go to. The attempt is queued there, also
    /// if no slot is free.
    ///
    /// # Errors
    /// The call must wait until a host has the attempt. Nothing has changed.
    async fn assign_host(&self, attempt: AttemptId, meets: Unplaced) -> Refusable<Option<String>> {
        let own = &self.world.host;
        let Some(found) = self.store.attempt(attempt).await? else { return Ok(None) };
        if meets == Unplaced::Refused {
            return Err(waits_for_a_host(attempt));
        }
        let (hosts, used, demand) =
            (self.store.hosts().await?, self.store.used().await?, found.demand());
        let is_able = is_able(&self.world, &found.executor).await.unwrap_or(false);
        let fits = |it: &&Host| {
            let may = it.host_id != own.id || is_able;
            may && it.runs(&demand) && it.liveness().is_there()
        };
        let hosts: Vec<Host> = hosts.iter().filter(fits).cloned().collect();
        let other = match host::place(&own.id, is_able, &demand, &hosts, &used) {
            HostPlace::Here => None,
            HostPlace::On(other) => Some(other),
            // All slots are taken: it waits here, because this host can run it.
            HostPlace::Anywhere if hosts.iter().any(|it| it.host_id == own.id) => None,
            HostPlace::Anywhere => match hosts.into_iter().next() {
                Some(first) => Some(first.host_id),
                // A stop is never refused.
                None if meets == Unplaced::Stops => None,
                None => return Err(waits_for_a_host(attempt)),
            },
        };
        if other.is_some() {
            return Ok(other);
        }
        let claimed = self.store.claim_one(attempt).await;
        // The attempt needs an owner now, also if the call fails or only the answer of `claim_one` was
        // lost. A stop is the exception: it makes the owner itself, and that owner begins no turn before
        // the stop.
        if meets != Unplaced::Stops {
            let _ = self.gateway.send_message(GatewayMessage::TakeUp(attempt));
        }
        claimed.map(|_| None)
    }

    /// The host that has to carry out a call about this, if it is not this one.
    async fn carrier(&self, about: Subject<'_>, needs: Needs) -> Refusable<Option<String>> {
        // Without leases, the board is a local file of one host.
        if !self.world.host.has_lease {
            return Ok(None);
        }
        match self.store.host_of(about).await? {
            // An empty name: the attempt waits for a host.
            Some((host, _)) if host.is_empty() => Ok(None),
            // A read never moves an attempt: without its host, the board's copy is read here.
            Some((host, _)) if needs == Needs::Files => {
                let is_there = host != self.world.host.id && self.alive().await?.contains(&host);
                Ok(Some(host).filter(|_| is_there))
            }
            Some((host, Some(attempt))) if ![Needs::Host, Needs::Log].contains(&needs) => {
                self.carrier_of(attempt, host, needs).await
            }
            Some((host, _)) => Ok(Some(host).filter(|host| *host != self.world.host.id)),
            None => Ok(None),
        }
    }

    /// The host of an attempt if its lease is over; an empty text if no host has the attempt now. `None`:
    /// this host, or a host that is there, has it.
    pub(super) async fn lost_host_of(&self, attempt: &str) -> Refusable<Option<String>> {
        let own = &self.world.host;
        if !own.has_lease {
            return Ok(None);
        }
        let found = self.store.host_of(Subject::Attempt(attempt)).await?;
        let Some((host, _)) = found.filter(|(host, _)| *host != own.id) else { return Ok(None) };
        let is_there = self.alive().await?.contains(&host);
        Ok(Some(host).filter(|_| !is_there))
    }

    /// # Errors
    /// The attempt is on another host.
    pub(super) async fn require_here(&self, attempt: AttemptId) -> Refusable<()> {
        match self.carrier(Subject::Attempt(&attempt.to_string()), Needs::Host).await? {
            Some(other) => Err(host::elsewhere(&format!("attempt {attempt}"), &other)),
            None => Ok(()),
        }
    }

    /// Reads from the host that has the attempt. `None`: the caller has to read here. Without a `caller`,
    /// `tool` is a method that a page needs.
    pub(super) async fn forward_read<I: Serialize + Sync, T: DeserializeOwned>(
        &self,
        tool: &str,
        needs: Needs,
        caller: Option<&Caller>,
        attempt: AttemptId,
        input: &I,
    ) -> Refusable<Option<T>> {
        let Some(host) = self.carrier(Subject::Attempt(&attempt.to_string()), needs).await? else {
            return Ok(None);
        };
        let fault = |error: serde_json::Error| Refusal::internal(error.to_string());
        let arguments = serde_json::to_value(input).map_err(fault)?;
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let caller = caller.cloned().unwrap_or_else(for_a_page);
        let call = ForwardedCall { tool: tool.to_owned(), caller, arguments, id: None };
        let answer = self.carry(&host, call).await?;
        serde_json::from_value(answer.value).map(Some).map_err(fault)
    }

    /// # Errors
    /// The host is not known, or its lease is over.
    async fn check_alive(&self, host: &str) -> Refusable<()> {
        let known = self.store.hosts().await?.into_iter().find(|it| it.host_id == host);
        let why = match known {
            Some(known) if known.liveness().is_there() => return Ok(()),
            Some(known) => {
                format!("its daemon has not renewed its lease since {}", known.renewed_at)
            }
            None => "it is not registered, until its daemon is started again".to_owned(),
        };
        let message =
            format!("host {host} has what this call is about, and does not answer: {why}");
        Err(away(host, message))
    }

    /// Gives a call up. The refusal says whether the call may have taken effect: it may if its host had
    /// begun it. An answer that has come in the meantime is returned.
    async fn given_up(&self, id: &str, why: Refusal) -> HostAnswer {
        match self.store.withdraw_host_call(id).await? {
            Some(false) => Err(why),
            Some(true) => {
                let message = format!("{}. Its daemon had begun the call", why.message);
                Err(Refusal { message, ..why }.hint(
                    "It may have taken effect: look at get_attempt_status before you call the tool \
                     again.",
                ))
            }
            // It was answered just now.
            None => self.store.host_answer(id).await?.unwrap_or(Err(why)),
        }
    }
}

/// The caller of a read for a page, whose user the HTTP face has authenticated. It may read only.
pub(super) fn for_a_page() -> Caller {
    Caller {
        role: Role::All,
        attempt: None,
        place: CallerLocation::Outside,
        is_person: true,
        agent: "page".to_owned(),
        access: Access::Read,
        cwd: None,
        origin: Origin { from: "page".to_owned(), ..Origin::default() },
    }
}

fn waits_for_a_host(attempt: AttemptId) -> Refusal {
    let message = format!("attempt {attempt} waits for a host: its next turn has not begun");
    Refusal::new(Code::AttemptRunning, message).hint(
        "Call get_attempt_status until host is not null, then the tool again. Or call stop_attempt \
         first.",
    )
}

/// The refusal for a host that does not answer.
fn away(host: &str, message: String) -> Refusal {
    Refusal::new(Code::DaemonUnavailable, message)
        .hint(format!("Call the tool again when the daemon of host {host} runs again."))
        .detail("host", host)
}

fn late(host: &str) -> Refusal {
    away(host, format!("host {host} has what this call is about, and has not answered in time"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_that_is_away_is_named() {
        let refusal = late("b");
        assert_eq!(
            (refusal.code, &refusal.details["host"]),
            (Code::DaemonUnavailable, &json!("b"))
        );
    }
}
