//! Claims of attempts that no host has: this host takes as many as it has room for. There is one claim at a
//! time, whenever there may be such an attempt, a slot becomes free, or the lease was renewed.
//!
//! ```text
//!           claim()          claim()
//!    None ───────────▶ One ───────────▶ Another            (`UnderWay`; also of the questions for permits)
//!     ▲                 │ ended          │ ended
//!     └─────────────────┘                └──▶ None ─claim()─▶ One
//!
//!    Done     the attempts get owners; those beyond the free slots are given back
//!    Unsure   the claim may have taken effect: the next one reads this host's rows instead (`found`)
//!    Found    the waiting attempts among them get owners; then a real claim follows
//! ```

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use ractor::ActorRef;

use super::GatewayState;
use super::message::{Claim, GatewayMessage};
use super::owners::Loading;
use crate::host::HostRole;
use crate::ids::AttemptId;
use crate::journal::{Attempt, MaxRunning, Phase, Room};
use crate::refusal::Refusal;
use crate::retry::while_store_fails;
use crate::world::World;

/// The claims of a gateway.
#[derive(Debug, Default)]
pub struct Claims {
    /// The attempts of an earlier daemon have owners. Before that it is unknown which slots are free.
    pub are_open: bool,
    under_way: UnderWay,
    /// The last claim was [unsure](Claim::Unsure): attempts of this host may have no owner yet.
    are_unsure: bool,
}

/// Whether a question to the board is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnderWay {
    #[default]
    None,
    One,
    /// One is under way, and another one has to follow because something changed meanwhile.
    Another,
}

impl GatewayState {
    /// Claims, if this host may and has room; also asks for permits, as the same events allow more attempts.
    pub(super) fn claim(&mut self) {
        self.ask_for_permits();
        let (host, room) = (&self.world.host, self.room());
        let may = host.has_lease && host.role != HostRole::Gateway && self.claims.are_open;
        if !may || self.is_closing || room.slots == 0 {
            return;
        }
        if self.claims.under_way != UnderWay::None {
            self.claims.under_way = UnderWay::Another;
            return;
        }
        self.claims.under_way = UnderWay::One;
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let is_unsure = self.claims.are_unsure;
        tokio::spawn(async move {
            let claim = if is_unsure { found(&world).await } else { claim(&world, room).await };
            let _ = myself.send_message(GatewayMessage::Claimed(claim));
        });
    }

    /// What is free here. An attempt whose row is being read may have been claimed just now: count a slot
    /// and all memory for it, because what it asks for is not known yet.
    fn room(&self) -> Room {
        let slots = self.admission.free().saturating_sub(self.loading.len());
        let memory = match self.admission.free_memory() {
            free if free < u64::MAX && !self.loading.is_empty() => 0,
            free => free,
        };
        Room { slots, memory }
    }

    /// A claim has ended.
    pub(super) fn claimed(&mut self, claim: Claim) {
        self.claims.are_unsure = matches!(claim, Claim::Unsure);
        let mut again = std::mem::take(&mut self.claims.under_way) == UnderWay::Another;
        match claim {
            Claim::Done(attempts) => {
                // A slot may have been taken meanwhile: another host may have a free one.
                let free = if self.is_closing { 0 } else { self.room().slots };
                let (within, beyond) = attempts.split_at(free.min(attempts.len()));
                for attempt in within {
                    self.load_unowned(*attempt);
                }
                self.release(beyond);
            }
            Claim::Found(attempts) => {
                for attempt in attempts {
                    self.load_unowned(attempt);
                }
                again = true;
            }
            Claim::Unsure => again = false,
        }
        if again {
            self.claim();
        }
    }

    /// Gives back claimed attempts that have no owner here. Requests for such an attempt wait in `loading`
    /// until its row has been written and read again.
    fn release(&mut self, attempts: &[AttemptId]) {
        let mut unowned = Vec::new();
        for attempt in attempts.iter().filter(|it| !self.owners.contains_key(it)) {
            match self.loading.entry(*attempt) {
                Entry::Vacant(none) => {
                    none.insert(Loading::default());
                    unowned.push(*attempt);
                }
                // Its row is being read, perhaps as it was before the claim: read it again. It waits here
                // then.
                Entry::Occupied(loading) => loading.into_mut().is_stale = true,
            }
        }
        if unowned.is_empty() {
            return;
        }
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let what = "giving back attempts without a slot".to_owned();
            if let Err(refusal) = while_store_fails(what, || journal.release(&unowned)).await {
                tracing::error!(?unowned, %refusal, "attempts wait here without a slot");
            }
            for id in unowned {
                let attempt = journal.attempt(id).await;
                let _ = myself.send_message(GatewayMessage::Loaded(id, Box::new(attempt)));
            }
        });
    }
}

/// Asks the board. The time is taken before the question: if the answer comes after the lease that the board
/// counted with, another host may have the attempts by now.
async fn claim(world: &World, room: Room) -> Claim {
    let asked = Instant::now();
    let all = world.executors.all().into_iter().map(|executor| executor.describe());
    let able = all.filter(|executor| executor.unavailable.is_none());
    let executors: Vec<String> = able.map(|executor| executor.name).collect();
    let limits = max_running(world);
    match world.journal.claim(world.host.incarnation, &executors, &limits, room).await {
        Ok(it) if !it.attempts.is_empty() && asked.elapsed() >= it.lease_left => Claim::Unsure,
        Ok(it) => Claim::Done(it.attempts),
        Err(refusal) => {
            tracing::debug!(%refusal, "no attempt could be claimed");
            Claim::Unsure
        }
    }
}

/// The limits of this daemon's executors, for those that have one.
pub fn max_running(world: &World) -> MaxRunning {
    let all = world.executors.all().into_iter();
    all.filter_map(|it| Some((it.describe().name, it.max_running()?))).collect()
}

/// This host's attempts that wait, apart from new ones that were started here: a claim raises the epoch, so
/// claimed ones have more than 1.
async fn found(world: &World) -> Claim {
    let attempts: Result<Vec<Attempt>, Refusal> = world.journal.unsettled().await;
    let Ok(attempts) = attempts else { return Claim::Unsure };
    let waiting = attempts.iter().filter(|it| it.phase == Phase::Queued && it.epoch > 1);
    Claim::Found(waiting.map(|it| it.attempt_id).collect())
}

/// Has the gateway claim whenever there may be an attempt that no host has. Returns when the gateway has
/// ended.
pub async fn keep_claiming(gateway: ActorRef<GatewayMessage>, world: Arc<World>) {
    loop {
        world.journal.unplaced().await;
        if gateway.send_message(GatewayMessage::Claim).is_err() {
            return;
        }
    }
}
