//! What an attempt's last turn left, where its host is away: the board has it, and it is read here. Nothing moves.

use provost_actors::attempt;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Attempts as _, Snapshots as _};
use provost_actors::refusal::{Code, Refusal};

use super::Workspace;
use super::turns::Turns;
use crate::domain::Domain;

impl Domain {
    /// Has what an attempt's last turn left where its host is away, as the board has it, to be read here. The
    /// attempt stays where it is. `None`: it is this host's.
    pub(super) async fn left_by_other(
        &self,
        attempt: AttemptId,
        turns: Turns,
    ) -> Result<Option<(String, u32)>, Refusal> {
        let Some(host) = self.lost_host_of(&attempt.to_string()).await? else {
            self.require_here(attempt).await?;
            return Ok(None);
        };
        let last = self.store.snapshot_turns(attempt).await?.last().copied();
        let found = self.store.attempt(attempt).await?;
        let (Some(last), Some(found)) = (last, found) else {
            // What no host has yet has not begun.
            let why = "no turn of it has left anything on the board";
            let is_nowhere = host.is_empty();
            return if is_nowhere { Ok(None) } else { Err(host_is_away(attempt, &host, why)) };
        };
        if !turns.are_all(Some(last)) {
            let why = format!("of its turns, the board has the end of turn {last} alone");
            return Err(host_is_away(attempt, &host, &why));
        }
        let had = attempt::fetch_all(&self.world, &found).await;
        had.map_err(|why| host_is_away(attempt, &host, &why))?;
        Ok(Some((host, last)))
    }
}

/// The refusal to read what only a host has that is away.
pub(super) fn host_is_away(attempt: AttemptId, host: &str, why: &str) -> Refusal {
    let message = format!("host {host} has attempt {attempt}, and its daemon is away: {why}");
    Refusal::new(Code::DaemonUnavailable, message)
        .hint(format!(
            "Call the tool again when the daemon of host {host} runs again. Or call follow_up: once \
             the host is given up, another one goes on with the attempt."
        ))
        .detail("host", host)
}

impl Workspace {
    /// The hint of an answer, after a sentence on whose files it shows, if that has to be said.
    pub(super) fn told(&self, hint: Option<String>) -> Option<String> {
        let Some((host, turn)) = &self.away else { return hint };
        let why = match host.as_str() {
            "" => "No host has this attempt now".to_owned(),
            host => format!("The daemon of host {host}, which has this attempt, is away"),
        };
        let told = format!("{why}: this is what turn {turn} left.");
        Some([Some(told), hint].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}
