//! Which attempts conflict: for statuses, and for `provost conflicts`, which also proposes an order of
//! merging. The radar finds conflicts and writes rows; this file reads them.

use std::collections::{BTreeSet, HashMap};

use provost_actors::ids::AttemptId;
use provost_actors::radar;
use provost_actors::refusal::Refusal;

use super::Domain;
use crate::api::commands::AttemptLine;
use crate::api::conflicts::{AttemptConflicts, ConflictWith, Conflicts, ConflictsParams};
use crate::store::AttemptRow;

/// Most conflicting paths in a status, shared by all its conflicts.
const PATHS_MAX: usize = 60;

/// The conflicts of each attempt; an attempt without conflicts is absent.
pub type ByAttempt = HashMap<AttemptId, Vec<ConflictWith>>;

impl Domain {
    /// The open attempts of this host whose worktrees exist, in the proposed order of merging. The radar
    /// looks first, so the answer is fresh.
    pub(super) async fn conflicts(&self, wish: ConflictsParams) -> Result<Conflicts, Refusal> {
        let open = self.store.contestants().await?.into_iter();
        let there =
            open.filter(|(_, folder)| self.world.settings.folders.worktrees.join(folder).exists());
        let open: BTreeSet<AttemptId> = there.map(|(attempt, _)| attempt).collect();
        let mut attempts = self.store.overview(true).await?;
        attempts.retain(|attempt| {
            let of_project = wish.project_id.is_none_or(|id| id == attempt.line.project_id);
            of_project && open.contains(&attempt.line.attempt_id)
        });
        let ids: Vec<AttemptId> = attempts.iter().map(|it| it.line.attempt_id).collect();
        radar::look_now(&self.world, &ids).await;
        let mut found = self.conflicts_of(&ids).await?;
        let listed = attempts.into_iter().map(|attempt| {
            let AttemptLine { attempt_id, task_title, project_name, workspace_branch, .. } =
                attempt.line;
            AttemptConflicts {
                attempt_id,
                task_title,
                project_name,
                workspace_branch,
                is_clean: true,
                conflicts_with: found.remove(&attempt_id).unwrap_or_default(),
            }
        });
        Ok(Conflicts { attempts: ordered(listed.collect()) })
    }

    /// What each of these attempts is in conflict with, by one query.
    pub(super) async fn conflicts_of(&self, attempts: &[AttemptId]) -> Result<ByAttempt, Refusal> {
        let mut found = ByAttempt::new();
        for (attempt, conflict) in self.store.conflicts(attempts).await? {
            found.entry(attempt).or_default().push(conflict);
        }
        Ok(found)
    }

    /// Lets the radar look, after this answer, whether the target branches of these attempts have moved.
    /// Running attempts are left out: the radar looks at them when their turns end.
    pub(super) fn watch_targets(&self, statuses: &[AttemptRow]) {
        let at_rest = statuses.iter().filter(|status| {
            let line = &status.overview.line;
            let is_here = line.host.as_ref() == Some(&self.world.host.id);
            is_here && status.overview.latest_snapshot_turn.is_some() && !line.phase.is_busy()
        });
        let at_rest: Vec<AttemptId> = at_rest.map(|it| it.overview.line.attempt_id).collect();
        if !at_rest.is_empty() {
            radar::look(&self.world, &at_rest);
        }
    }
}

/// The conflicts with at most [`PATHS_MAX`] paths in all, but one path of each at least.
pub(super) fn shortened(mut conflicts: Vec<ConflictWith>) -> Vec<ConflictWith> {
    let each = (PATHS_MAX / conflicts.len().max(1)).max(1);
    for conflict in &mut conflicts {
        conflict.paths.truncate(each);
    }
    conflicts
}

/// The order of merging, greedy: next is an attempt that merges cleanly after those before it, if there
/// is one; of these, the one that conflicts with the fewest remaining attempts; of these, the oldest.
fn ordered(mut left: Vec<AttemptConflicts>) -> Vec<AttemptConflicts> {
    let mut merged = BTreeSet::new();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let rank = |attempt: &AttemptConflicts| {
            let conflicts = attempt.conflicts_with.iter();
            // After earlier merges, the target contains their work: a conflict with one of them is one
            // with the target.
            let is_clean = !conflicts.clone().any(|conflict| {
                conflict.attempt_id.is_none_or(|other| merged.contains(&other.to_string()))
            });
            let others = conflicts.filter_map(|conflict| conflict.attempt_id);
            let others: BTreeSet<String> = others.map(|other| other.to_string()).collect();
            let in_the_way = others.difference(&merged).count();
            (!is_clean, in_the_way, attempt.attempt_id.to_string())
        };
        let Some(next) = (0..left.len()).min_by_key(|at| rank(&left[*at])) else { break };
        let is_clean = !rank(&left[next]).0;
        let attempt = left.swap_remove(next);
        merged.insert(attempt.attempt_id.to_string());
        order.push(AttemptConflicts { is_clean, ..attempt });
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(attempt_id: Option<AttemptId>) -> ConflictWith {
        ConflictWith {
            attempt_id,
            target_branch: attempt_id.is_none().then(|| "main".to_owned()),
            repo_name: "app".to_owned(),
            paths: (0..20).map(|n| n.to_string()).collect(),
            path_count: 30,
            tree_id: "t".to_owned(),
        }
    }

    /// The order of attempts, given what each is in conflict with (`None`: the target), and
    /// whether each merges as it is.
    fn order(of: &[&[Option<usize>]]) -> Vec<(usize, bool)> {
        let ids: Vec<AttemptId> = of.iter().map(|_| AttemptId::new()).collect();
        let attempts = of.iter().zip(&ids).map(|(with, id)| AttemptConflicts {
            attempt_id: *id,
            task_title: String::new(),
            project_name: String::new(),
            workspace_branch: String::new(),
            is_clean: true,
            conflicts_with: with.iter().map(|it| conflict(it.map(|it| ids[it]))).collect(),
        });
        let place = |id| ids.iter().position(|known| *known == id).unwrap();
        let ordered = ordered(attempts.rev().collect());
        ordered.into_iter().map(|it| (place(it.attempt_id), it.is_clean)).collect()
    }

    #[test]
    fn without_conflicts_the_oldest_is_merged_first() {
        assert_eq!(order(&[&[], &[], &[]]), [(0, true), (1, true), (2, true)]);
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn what_is_in_the_way_of_the_fewest_is_merged_first() {
        // 1 is in the way of 0 and of 2, and 3 of its target.
        let all: [&[_]; 4] = [&[Some(1)], &[Some(0), Some(2)], &[Some(1)], &[None]];
        assert_eq!(order(&all), [(0, true), (2, true), (1, false), (3, false)]);
    }

    #[test]
    fn of_a_pair_only_the_first_merges_as_it_is() {
        assert_eq!(order(&[&[Some(1)], &[Some(0)]]), [(0, true), (1, false)]);
    }

    #[test]
    fn many_conflicts_are_listed_with_fewer_paths_of_each() {
        let paths = |count: usize| {
            let conflicts = shortened(vec![conflict(None); count]);
            assert!(conflicts.iter().all(|it| it.path_count == 30) && conflicts.len() == count);
            conflicts.first().map_or(0, |it| it.paths.len())
        };
        assert_eq!([0, 1, 3, 4, 100].map(paths), [0, 20, 20, 15, 1]);
    }
}
