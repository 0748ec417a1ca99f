//! Calls that the daemons of other hosts forward to this one. Each goes through the same choke point as a
//! connection's call, as the caller that the asking daemon has authenticated.

use std::collections::HashMap;
use std::sync::Arc;

use provost_actors::retry::Backoff;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::calls::{CallLimits, Calls, Permits};
use super::rates::Rates;
use super::table;
use crate::api::{ForwardedCall, Service};

/// Carries out forwarded calls until the daemon ends. Each is a task; the ids of running calls are passed
/// to `take_calls`, which otherwise returns what this daemon has taken and not answered yet.
pub async fn serve(service: Arc<dyn Service>, rates: Arc<Rates>, ending: CancellationToken) {
    let seats = Permits::new(CallLimits::default());
    // A task that panicked has no result, so the id of its call is kept here.
    let (mut running, mut tasks) = (HashMap::new(), JoinSet::new());
    let mut backoff = Backoff::default();
    loop {
        let own: Vec<String> = running.values().cloned().collect();
        let taken = tokio::select! {
            () = ending.cancelled() => return,
            Some(ended) = tasks.join_next_with_id() => {
                let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
                running.remove(&task);
                continue;
            }
            taken = service.take_calls(&own) => taken,
        };
        match taken {
            Ok(calls) => {
                backoff = Backoff::default();
                for (id, call) in calls {
                    let (service, rates) = (Arc::clone(&service), Arc::clone(&rates));
                    let carried = carry_out(service, rates, seats.clone(), id.clone(), call);
                    running.insert(tasks.spawn(carried).id(), id);
                }
            }
            Err(refusal) => backoff.wait("reading the calls of other hosts", refusal).await,
        }
    }
}

/// Runs one call and writes its answer into the row that the asking daemon waits for.
async fn carry_out(
    service: Arc<dyn Service>,
    rates: Arc<Rates>,
    seats: Permits,
    id: String,
    call: ForwardedCall,
) {
    let ForwardedCall { tool: name, caller, arguments, id: request } = call;
    let calls = Calls::new(Arc::clone(&service), caller, rates, seats);
    let answer = if let Some(tool) = table::find(&name) {
        // The asking daemon has already checked that the caller's role has this tool.
        calls.call_any(tool, arguments, request).await
    } else {
        let method = service.carried_method(&calls.caller, &name, arguments);
        calls.quick(&name, method).await.flatten()
    };
    service.answer_call(&id, answer).await;
}
