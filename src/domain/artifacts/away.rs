//! Reads what an attempt's last turn left while its host is away: from the board's copy, without moving
//! the attempt to this host.

use provost_actors::attempt;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Attempts as _, Snapshots as _};
use provost_actors::refusal::{Code, Refusal};

use super::Workspace;
use super::turns::Turns;
use crate::domain::Domain;

impl Domain {
    /// If the attempt's host is away: fetches what its last turn left from the board into this host's
    /// repositories, and returns that host (empty if no host has the attempt) and the turn. The attempt
    /// stays where it is. `None`: this host has the attempt, or no turn has begun anywhere.
    ///
    /// # Errors
    /// A host that is there has the attempt, or the board lacks what `turns` asks for: it has the end of
    /// the last turn only.
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
            // An attempt without a host and without a snapshot has not begun: it has nothing to show.
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

/// The refusal to read what is only on a host whose daemon is away. `why` ends the message.
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
    /// The hint of an answer. Where the board's copy is shown, a sentence that says so comes first.
    pub(super) fn with_away_notice(&self, hint: Option<String>) -> Option<String> {
        let Some((host, turn)) = &self.away else { return hint };
        let why = match host.as_str() {
            "" => "No host has this attempt now".to_owned(),
            host => format!("The daemon of host {host}, which has this attempt, is away"),
        };
        let notice = format!("{why}: this is what turn {turn} left.");
        Some([Some(notice), hint].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}
