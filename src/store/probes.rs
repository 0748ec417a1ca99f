//! Which attempts work on the same repository, and whether their newest snapshots merge. Of a pair
//! of attempts there is one row, under the smaller id.

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Contest, Probe, Probes};
use serde_json::json;

use super::{Db, Patience, Refusal, Result, Sql, Store};
use crate::api::attempts::ConflictWith;

/// Most paths that are kept of a conflict.
const PATHS_MAX: usize = 20;

/// The newest snapshot of each attempt, by repository: `commit_id` at `path`.
macro_rules! with_newest {
    ($rest:literal) => {
        concat!(
            "WITH newest AS (
                 SELECT n.attempt_id, n.commit_id, n.made_at, r.path, r.target_branch
                 FROM turn_snapshots n
                 JOIN attempt_repos r ON r.attempt_id = n.attempt_id AND r.name = n.repo
                 WHERE n.turn = (SELECT max(turn) FROM turn_snapshots m
                                 WHERE m.attempt_id = n.attempt_id)) ",
            $rest
        )
    };
}

impl Store {
    /// What stands in the way of merging each of these attempts, by attempt. Of other attempts
    /// those whose tasks are not over.
    pub async fn conflicts(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, ConflictWith)>, Refusal> {
        let sql = "WITH both AS (
                 SELECT attempt_id, other_id, repo, tree_id, paths, path_count FROM probes
                 UNION ALL
                 SELECT other_id, attempt_id, repo, tree_id, paths, path_count FROM probes
                 WHERE other_id <> '')
             SELECT b.attempt_id,
                    json_object('attempt_id', nullif(b.other_id, ''),
                                'target_branch', iif(b.other_id = '', r.target_branch, NULL),
                                'repo_name', r.name, 'paths', json(b.paths),
                                'path_count', b.path_count, 'tree_id', b.tree_id)
             FROM both b
             JOIN attempt_repos r ON r.attempt_id = b.attempt_id AND r.path = b.repo
             LEFT JOIN attempts a ON a.attempt_id = b.other_id
             LEFT JOIN tasks t ON t.task_id = a.task_id
             WHERE b.attempt_id IN (SELECT value FROM json_each(?1)) AND b.path_count > 0
               AND (b.other_id = '' OR t.deleted_at IS NULL AND t.status NOT IN ('done', 'cancelled'))
             ORDER BY b.attempt_id, b.other_id, r.position";
        self.read(async |db| db.all(sql, (attempts,)).await).await
    }
}

#[async_trait]
impl Probes for Store {
    async fn contests(&self, attempt: AttemptId) -> Result<Vec<Contest>, Refusal> {
        let sql = with_newest!(
            "SELECT m.path AS repo, m.target_branch, m.commit_id,
                    (SELECT json_group_array(json_object('attempt_id', attempt_id,
                                                         'commit_id', commit_id))
                     FROM (SELECT o.attempt_id, o.commit_id FROM newest o
                           JOIN attempts a ON a.attempt_id = o.attempt_id
                           JOIN tasks t ON t.task_id = a.task_id
                           WHERE o.path = m.path AND o.attempt_id <> m.attempt_id
                             AND t.deleted_at IS NULL AND t.status NOT IN ('done', 'cancelled')
                             AND NOT EXISTS (
                                 SELECT 1 FROM probes p WHERE p.repo = m.path
                                   AND p.attempt_id = min(m.attempt_id, o.attempt_id)
                                   AND p.other_id = max(m.attempt_id, o.attempt_id)
                                   AND m.commit_id IN (p.commit_id, p.other_commit)
                                   AND o.commit_id IN (p.commit_id, p.other_commit))
                           ORDER BY o.made_at DESC LIMIT 50)) AS rivals
             FROM newest m WHERE m.attempt_id = ?1"
        );
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }

    async fn record_probes(&self, attempt: AttemptId, probes: &[Probe]) -> Result<(), Refusal> {
        let changed = self
            .write(Patience::Short, "probes", async |db| {
                let mut changed = Vec::new();
                for probe in probes {
                    if write(db, attempt, probe).await? {
                        changed.extend([Some(attempt), probe.rival].into_iter().flatten());
                    }
                }
                let sql = "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts)
                     WHERE attempt_id IN (SELECT value FROM json_each(?1))";
                db.run(sql, (&changed,)).await?;
                Ok(changed)
            })
            .await?;
        for attempt in changed {
            self.changes.announce(attempt);
        }
        Ok(())
    }
}

/// Writes what the merge of a pair gave, unless one of them has a newer snapshot. `true`: which
/// paths are in conflict has changed.
async fn write(db: Db<'_>, attempt: AttemptId, probe: &Probe) -> Result<bool> {
    let Probe { repo, rival, commit_id, rival_commit, tree_id, paths } = probe;
    let sql = with_newest!(
        "SELECT count(*) FROM newest WHERE path = ?1
           AND (attempt_id = ?2 AND commit_id = ?3 OR attempt_id = ?4 AND commit_id = ?5)"
    );
    let newest: usize = db.one(sql, (repo, attempt, commit_id, rival, rival_commit)).await?;
    if newest < 1 + usize::from(rival.is_some()) {
        return Ok(false);
    }
    let mine = (attempt.to_string(), commit_id);
    let other = (rival.map(|rival| rival.to_string()).unwrap_or_default(), rival_commit);
    let (first, second) =
        if rival.is_some() && other.0 < mine.0 { (other, mine) } else { (mine, other) };
    let sql = "SELECT paths FROM probes WHERE attempt_id = ?1 AND other_id = ?2 AND repo = ?3";
    let before: Option<Vec<String>> = db.find(sql, (&first.0, &second.0, repo)).await?;
    let kept = &paths[..paths.len().min(PATHS_MAX)];
    let row = json!({
        "attempt_id": first.0, "other_id": second.0, "repo": repo, "commit_id": first.1,
        "other_commit": second.1, "tree_id": tree_id, "paths": kept, "path_count": paths.len(),
    });
    db.insert("OR REPLACE INTO probes", row).await?;
    Ok(before.unwrap_or_default() != kept)
}
