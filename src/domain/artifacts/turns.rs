//! Which states of an attempt's repositories a call compares: the ends of turns, by their
//! snapshots, or the worktrees as they are now.

use std::collections::HashMap;
use std::time::Duration;

use provost_actors::ids::AttemptId;
use provost_actors::journal::{Snapshots as _, TurnSnapshot};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::workspace::compared::Span;

use crate::api::args::{FromTurn, ToTurn};
use crate::domain::Domain;

/// The states to compare: from the end of turn `from` (`None`: the merge base) to the end of turn `to`
/// (`None`: the worktrees as they are now).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    from: Option<u32>,
    /// `None`: the worktrees as they are now.
    pub to: Option<u32>,
}

impl Turns {
    /// From the arguments of a call. `from_turn` 0 is the merge base, the same as none.
    pub fn new(from: Option<FromTurn>, to: Option<ToTurn>) -> Self {
        let number = |turn: i64| u32::try_from(turn).unwrap_or(u32::MAX);
        let from = from.map(|turn| number(turn.get())).filter(|turn| *turn > 0);
        Self { from, to: to.map(|turn| number(turn.get())) }
    }
}

impl Turns {
    /// From the merge base to the end of a turn.
    pub fn until(turn: u32) -> Self {
        Self { from: None, to: Some(turn) }
    }

    /// True if these are all turns until now, or until `last`: then they show the whole work.
    pub fn are_all(self, last: Option<u32>) -> bool {
        self.from.is_none() && self.to.is_none_or(|to| Some(to) == last)
    }
}

/// How long a call waits for a snapshot that is being made.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(30);

impl Domain {
    /// What is compared in each repository, by its name. Empty if no turn is given.
    ///
    /// # Errors
    /// A turn has no snapshot, or `to` is before `from`.
    pub(super) async fn spans(
        &self,
        tool: &str,
        attempt: AttemptId,
        turns: Turns,
    ) -> Result<HashMap<String, Span>, Refusal> {
        if let Turns { from: Some(from), to: Some(to) } = turns
            && to < from
        {
            return Err(reversed(tool, from, to));
        }
        let from = match turns.from {
            Some(turn) => Some(self.end_of(tool, "from_turn", attempt, turn).await?),
            None => None,
        };
        let to = match turns.to {
            Some(turn) => Some(self.end_of(tool, "to_turn", attempt, turn).await?),
            None => None,
        };
        Ok(spans(from, to))
    }

    /// The snapshots of a turn, one for each repository. `field` is the argument that an error names.
    async fn end_of(
        &self,
        tool: &str,
        field: &str,
        attempt: AttemptId,
        turn: u32,
    ) -> Result<Vec<TurnSnapshot>, Refusal> {
        // The snapshot of a turn that has just ended may still be in the making.
        self.store.snapshot_stands(attempt, SNAPSHOT_TIMEOUT).await?;
        let snapshot = self.store.turn_snapshot(attempt, turn).await?;
        if !snapshot.is_empty() {
            return Ok(snapshot);
        }
        let turns = self.store.snapshot_turns(attempt).await?;
        Err(no_turn(tool, field, attempt, turn, &turns))
    }
}

/// The spans of the repositories that have a snapshot at the end of the comparison. Without turns, the
/// map is empty, and everything is compared with its merge base.
fn spans(from: Option<Vec<TurnSnapshot>>, to: Option<Vec<TurnSnapshot>>) -> HashMap<String, Span> {
    let mut spans = HashMap::new();
    match (from, to) {
        (from, Some(to)) => {
            let from: HashMap<String, String> =
                from.into_iter().flatten().map(|it| (it.repo, it.commit_id)).collect();
            for TurnSnapshot { repo, commit_id, base_id, .. } in to {
                // A repository without a snapshot at `from` was added later: it is compared from its
                // base.
                let since = from.get(&repo).cloned().unwrap_or(base_id);
                spans.insert(repo, Span::Between(since, commit_id));
            }
        }
        (Some(from), None) => {
            spans.extend(from.into_iter().map(|it| (it.repo, Span::Since(it.commit_id))));
        }
        (None, None) => {}
    }
    spans
}

fn reversed(tool: &str, from: u32, to: u32) -> Refusal {
    let message = format!("to_turn {to} is before from_turn {from}");
    Refusal::new(Code::InvalidArgument, message)
        .hint(format!("Call {tool} again with from_turn = {to} and to_turn = {from}."))
        .detail("path", "to_turn")
}

/// The refusal for a turn without a snapshot. It names the turns that have one.
pub(super) fn no_turn(
    tool: &str,
    field: &str,
    attempt: AttemptId,
    turn: u32,
    turns: &[u32],
) -> Refusal {
    let (message, hint) = match turns {
        [] => (
            format!("no turn of attempt {attempt} has a snapshot yet: it is made after a turn"),
            format!("Call {tool} again without {field}."),
        ),
        [.., last] => (
            format!(
                "attempt {attempt} has no snapshot of a turn {turn}; the last one is of turn {last}"
            ),
            format!("Call {tool} again with {field} = {last}."),
        ),
    };
    let refusal = Refusal::new(Code::TurnNotFound, message).hint(hint);
    refusal.detail("path", field).detail("turns", turns.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(repo: &str, commit: &str) -> TurnSnapshot {
        let (repo, commit_id) = (repo.to_owned(), commit.to_owned());
        TurnSnapshot { repo, commit_id, tree_id: "t".into(), base_id: "base".into() }
    }

    #[test]
    fn each_repository_is_compared_from_one_turn_to_another_or_to_now() {
        let at = |commit| Some(vec![snapshot("app", commit)]);
        let of_app = |from, to| spans(from, to).remove("app");
        assert_eq!(of_app(None, None), None);
        assert_eq!(of_app(at("a"), None), Some(Span::Since("a".into())));
        assert_eq!(of_app(None, at("b")), Some(Span::Between("base".into(), "b".into())));
        assert_eq!(of_app(at("a"), at("b")), Some(Span::Between("a".into(), "b".into())));
    }

    #[test]
    fn a_refusal_names_the_turns_that_there_are() {
        let id = AttemptId::new();
        let refusal = no_turn("t", "to_turn", id, 9, &[1, 2]);
        assert_eq!(refusal.code, Code::TurnNotFound);
        assert_eq!(refusal.hint, "Call t again with to_turn = 2.");
        assert_eq!(refusal.details["turns"], serde_json::json!([1, 2]));
        let refusal = no_turn("t", "from_turn", id, 1, &[]);
        assert_eq!(refusal.hint, "Call t again without from_turn.");
        assert_eq!(reversed("t", 3, 1).hint, "Call t again with from_turn = 1 and to_turn = 3.");
    }
}
