//! The choke point of all calls. It decides what a caller may use (role, access, rate, number, time), and
//! writes the lines that each change leaves in the audit log. What a call means is its [`Tool`]'s
//! business.
//!
//! ```text
//!  rate -> audit: begin -> may (role, access) -> room, time -> tool -> audit: end
//! ```
//!
//! A call beyond its rate leaves no line in the log: a client in a loop would fill the disk.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::rates::{Left, Rates};
use super::refusals;
use super::row::{Effect, RunKind};
use super::tool::{Call, Tool};
use crate::api::{Caller, CustomError, Idempotent, Role, Service};

/// How many calls of one connection may run at the same time, and how long each may take.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Calls in flight. One more is refused as `rate_limited`.
    pub calls: usize,
    /// Waiting calls in flight. They sleep until there is news and cost nearly nothing, so they do not
    /// count as `calls`.
    pub sleepers: usize,
    /// The longest time that a call may take. A longer one is an internal error.
    pub time: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { calls: 256, sleepers: 2048, time: Duration::from_mins(10) }
    }
}

/// The permits of a connection, of all HTTP requests together, or of all calls that other hosts forward. A
/// clone shares them.
#[derive(Clone, Debug)]
pub struct Permits {
    calls: Arc<Semaphore>,
    sleepers: Arc<Semaphore>,
    time: Duration,
}

impl Permits {
    /// All permits are free at first.
    pub fn new(room: CallLimits) -> Self {
        let CallLimits { calls, sleepers, time } = room;
        let [calls, sleepers] = [calls, sleepers].map(|most| Arc::new(Semaphore::new(most)));
        Self { calls, sleepers, time }
    }
}

/// All calls of one caller go through this.
pub struct Calls {
    pub service: Arc<dyn Service>,
    pub caller: Caller,
    rates: Arc<Rates>,
    /// True once a call of this caller has counted against its rate.
    is_rated: AtomicBool,
    seats: Permits,
}

impl Calls {
    /// `rates` are the daemon's; `seats` are shared by all calls of the same [`Permits`].
    pub fn new(
        service: Arc<dyn Service>,
        caller: Caller,
        rates: Arc<Rates>,
        seats: Permits,
    ) -> Self {
        Self { service, caller, rates, is_rated: AtomicBool::new(false), seats }
    }

    /// What the caller's rate still allows. `None`: no call has counted, or there is no limit.
    pub fn left(&self) -> Option<Left> {
        let is_rated = self.is_rated.load(Ordering::Relaxed);
        is_rated.then(|| self.rates.left(&self.caller.agent)).flatten()
    }

    /// Calls a tool, if the caller's role has it. `id` is the client's id of this call, which is the same
    /// when the call is sent again: it makes the key if the arguments have no `request_id`.
    pub async fn call(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        id: Option<String>,
    ) -> Result<Idempotent<Value>, Refusal> {
        self.recorded(tool, arguments, id, tool.is_for(&self.caller)).await
    }

    /// Like [`call`](Self::call), for a tool of any role: the worker API's bare methods are there for all
    /// callers.
    pub async fn call_any(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        id: Option<String>,
    ) -> Result<Idempotent<Value>, Refusal> {
        self.recorded(tool, arguments, id, true).await
    }

    /// Calls a tool, and records a change in the audit log, also one that is refused because of role or
    /// access.
    async fn recorded(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        id: Option<String>,
        is_for: bool,
    ) -> Result<Idempotent<Value>, Refusal> {
        self.take_rate(tool)?;
        let change = (tool.effect != Effect::Reads)
            .then(|| self.service.begin_change(&self.caller, tool.name, &arguments));
        let attempt = arguments.get("attempt_id").and_then(Value::as_str);
        let span = tracing::info_span!("call", number = next(), tool = tool.name, attempt);
        let outcome = match self.may(tool, is_for) {
            Ok(()) => self.run(tool, arguments, id).instrument(span).await,
            Err(refusal) => Err(refusal),
        };
        if let Some(change) = change {
            self.service
                .end_change(change, outcome.as_ref().err().map(|refusal| refusal.code.as_str()));
        }
        outcome
    }

    /// Refuses what the caller's role or access does not allow.
    fn may(&self, tool: &Tool, is_for: bool) -> Result<(), Refusal> {
        self.service.admit(&self.caller)?;
        if !is_for {
            return Err(refusals::not_permitted(tool, &self.caller));
        }
        if tool.access() > self.caller.access {
            return Err(refusals::beyond_access(tool, &self.caller));
        }
        Ok(())
    }

    /// Counts the call against the caller's rate. Rates are for agents: persons have none.
    fn take_rate(&self, tool: &Tool) -> Result<(), Refusal> {
        let has_rate = tool.is_workers() || self.caller.role == Role::Worker;
        if has_rate && !self.caller.is_person {
            self.is_rated.store(true, Ordering::Relaxed);
            self.rates.take(&self.caller.agent)?;
        }
        Ok(())
    }

    /// Runs the tool within the limits of its kind of call. An internal error is also logged.
    async fn run(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        id: Option<String>,
    ) -> Result<Idempotent<Value>, Refusal> {
        let call = Call { service: &*self.service, caller: &self.caller, arguments, id };
        let Permits { calls, sleepers, .. } = &self.seats;
        let room = if tool.kind == RunKind::Wait { sleepers } else { calls };
        self.admitted(tool.name, room, tool.call(call)).await.flatten().inspect_err(|refusal| {
            if refusal.code == Code::Internal {
                tracing::error!(tool = tool.name, message = refusal.message, "internal fault");
            }
        })
    }

    /// Calls a method of the command line. The outer error is one of the room, the inner one of the
    /// method.
    pub async fn method(
        &self,
        method: &str,
        params: Option<Value>,
    ) -> Result<Result<Value, CustomError>, Refusal> {
        let asked = self.service.call_method(&self.caller, method, params);
        let span = tracing::info_span!("call", number = next(), method);
        self.admitted(method, &self.seats.calls, asked).instrument(span).await
    }

    /// Runs a piece of work that is no call, within the same limits.
    pub async fn quick<T>(&self, what: &str, work: impl Future<Output = T>) -> Result<T, Refusal> {
        self.admitted(what, &self.seats.calls, work).await
    }

    async fn admitted<T>(
        &self,
        what: &str,
        room: &Semaphore,
        work: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        admitted(what, room, self.seats.time, work).await
    }
}

/// The number of a call in the daemon's log, unique until the daemon ends.
fn next() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    CALLS.fetch_add(1, Ordering::Relaxed)
}

/// Runs the work of a request within its limits. A panic fails this request only.
async fn admitted<T>(
    what: &str,
    room: &Semaphore,
    time: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Refusal> {
    let _permit = room
        .try_acquire()
        .map_err(|_| Refusal::new(Code::RateLimited, "Too many calls are in flight."))?;
    let work = AssertUnwindSafe(work).catch_unwind();
    let Ok(done) = tokio::time::timeout(time, work).await else {
        let seconds = time.as_secs();
        return Err(Refusal::internal(format!("{what} took longer than {seconds} s.")));
    };
    done.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(what, panic = text.unwrap_or("?"), "a call panicked");
        Refusal::internal(format!("{what} failed in the daemon."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_as_internal_and_takes_no_room() {
        let room = Semaphore::new(1);
        let panics = async { panic!("asked to panic") };
        let time = Duration::from_mins(1);
        let refusal = admitted::<()>("get_task", &room, time, panics).await.unwrap_err();
        assert_eq!(room.available_permits(), 1);
        assert_eq!(refusal.code, Code::Internal);
        assert_eq!(refusal.message, "get_task failed in the daemon.");
    }
}
