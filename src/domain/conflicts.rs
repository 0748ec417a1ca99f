//! The method behind `provost conflicts`: which attempts are in each other's way, and in which
//! order to merge them.

use std::collections::HashMap;

use provost_actors::ids::AttemptId;
use provost_actors::refusal::Refusal;

use super::Domain;
use crate::api::attempts::ConflictWith;
use crate::api::commands::{AttemptConflicts, AttemptLine, Conflicts, ConflictsParams};
use crate::api::tasks::TaskStatus;

impl Domain {
    pub(super) async fn conflicts(&self, wish: ConflictsParams) -> Result<Conflicts, Refusal> {
        let mut attempts = self.store.overview(true).await?;
        attempts.retain(|attempt| {
            let is_over = matches!(attempt.task_status, TaskStatus::Done | TaskStatus::Cancelled);
            let of_project = wish.project_id.is_none_or(|id| id == attempt.line.project_id);
            attempt.latest_snapshot_turn.is_some() && of_project && !is_over
        });
        let ids: Vec<AttemptId> = attempts.iter().map(|it| it.line.attempt_id).collect();
        let mut by_attempt: HashMap<AttemptId, Vec<ConflictWith>> = HashMap::new();
        for (attempt, conflict) in self.store.conflicts(&ids).await? {
            by_attempt.entry(attempt).or_default().push(conflict);
        }
        let told = attempts.into_iter().map(|attempt| {
            let AttemptLine { attempt_id, task_title, project_name, workspace_branch, .. } =
                attempt.line;
            let conflicts_with = by_attempt.remove(&attempt_id).unwrap_or_default();
            AttemptConflicts {
                attempt_id,
                task_title,
                project_name,
                workspace_branch,
                conflicts_with,
            }
        });
        Ok(Conflicts { attempts: ordered(told.collect()) })
    }
}

/// First those that merge into their target as it is, and of these those that are in the fewest
/// others' way; the oldest first where that is the same.
fn ordered(mut attempts: Vec<AttemptConflicts>) -> Vec<AttemptConflicts> {
    attempts.sort_by_key(|attempt| {
        let conflicts = &attempt.conflicts_with;
        let with_target = conflicts.iter().any(|conflict| conflict.attempt_id.is_none());
        (with_target, conflicts.len(), attempt.attempt_id.to_string())
    });
    attempts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(attempt_id: Option<AttemptId>) -> ConflictWith {
        ConflictWith {
            attempt_id,
            target_branch: attempt_id.is_none().then(|| "main".to_owned()),
            repo_name: "app".to_owned(),
            paths: vec!["a".to_owned()],
            path_count: 1,
            tree_id: "t".to_owned(),
        }
    }

    #[test]
    fn what_is_in_the_fewest_others_way_is_merged_first() {
        let ids = [(); 4].map(|()| AttemptId::new());
        let of = |at: usize, others: &[Option<usize>]| AttemptConflicts {
            attempt_id: ids[at],
            task_title: String::new(),
            project_name: String::new(),
            workspace_branch: String::new(),
            conflicts_with: others.iter().map(|it| conflict(it.map(|it| ids[it]))).collect(),
        };
        let all = vec![of(3, &[]), of(2, &[None]), of(1, &[Some(0), Some(3)]), of(0, &[Some(1)])];
        let order: Vec<AttemptId> = ordered(all).iter().map(|it| it.attempt_id).collect();
        assert_eq!(order, [ids[3], ids[0], ids[1], ids[2]]);
    }
}
