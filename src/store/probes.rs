//! Which attempts work on the same repository, and whether their newest snapshots merge. Each pair of
//! attempts has one row, under the smaller id.

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{ConflictPair, InConflict, Probe, Probes};
use serde_json::json;

use super::{Db, Refusal, Result, RetryBudget, Sql, Store};
use crate::api::conflicts::ConflictWith;

/// The number of paths that are stored of a conflict.
const PATHS_MAX: usize = 20;

/// A statement with the table `sides`: each conflict, once from either side. `other_id` is '' where the other
/// side is the target branch.
macro_rules! of_sides {
    ($rest:literal) => {
        concat!(
            "WITH sides AS (
                 SELECT attempt_id, other_id, repo, tree_id, paths, path_count FROM probes
                 WHERE path_count > 0
                 UNION ALL
                 SELECT other_id, attempt_id, repo, tree_id, paths, path_count FROM probes
                 WHERE path_count > 0 AND other_id <> '') ",
            $rest
        )
    };
}

impl Store {
    /// The conflicts of these attempts: of each, first those with the target branch, then those with other
    /// attempts whose work is not merged yet.
    pub async fn conflicts(
        &self,
        attempts: &[AttemptId],
    ) -> Result<Vec<(AttemptId, ConflictWith)>, Refusal> {
        let sql = of_sides!(
            "SELECT s.attempt_id,
                    json_object('attempt_id', nullif(s.other_id, ''),
                                'target_branch', CASE WHEN s.other_id = '' THEN c.target_branch END,
                                'repo_name', c.repo_name, 'paths', json(s.paths),
                                'path_count', s.path_count, 'tree_id', s.tree_id)
             FROM json_each($1) e
             JOIN sides s ON s.attempt_id = e.value
             JOIN contestants c ON c.attempt_id = s.attempt_id AND c.path = s.repo
             WHERE s.other_id = '' OR EXISTS (
                 SELECT 1 FROM contestants o
                 WHERE o.attempt_id = s.other_id AND o.path = s.repo)
             ORDER BY s.attempt_id, s.other_id, c.position"
        );
        let read = async |db: Db<'_>| db.all(sql, (attempts,)).await;
        self.read_once("conflicts", attempts, read).await
    }

    /// The attempts of this host that have a snapshot and whose work is not merged yet, each with its folder
    /// below `worktrees/`.
    pub async fn contestants(&self) -> Result<Vec<(AttemptId, String)>, Refusal> {
        let sql = "SELECT DISTINCT c.attempt_id, c.folder FROM contestants c
             JOIN attempts a ON a.attempt_id = c.attempt_id WHERE a.host = $1";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    /// Wakes the waiters of attempts. Call this after the commit.
    pub(super) fn announce_all(&self, attempts: Vec<AttemptId>) {
        for attempt in attempts {
            self.changes.announce(attempt);
        }
    }
}

#[async_trait]
impl Probes for Store {
    async fn contests(&self, attempts: &[AttemptId]) -> Result<Vec<ConflictPair>, Refusal> {
        let sql = "SELECT m.path AS repo,
                (SELECT r.repo_id FROM attempt_repos r
                 WHERE r.attempt_id = m.attempt_id AND r.name = m.repo_name) AS repo_id, m.folder, m.target_branch, m.attempt_id, m.commit_id,
                m.base_id,
                (SELECT p.other_commit FROM probes p
                 WHERE p.attempt_id = m.attempt_id AND p.other_id = '' AND p.repo = m.path
                   AND p.commit_id = m.commit_id) AS target_commit,
                (SELECT json_group_array(json_object('attempt_id', attempt_id, 'folder', folder,
                                                     'commit_id', commit_id, 'base_id', base_id))
                 FROM (SELECT o.* FROM contestants o
                       JOIN attempts b ON b.attempt_id = o.attempt_id AND b.host = $2
                       WHERE o.path = m.path AND o.attempt_id > m.attempt_id
                         AND NOT EXISTS (
                             SELECT 1 FROM probes p
                             WHERE p.repo = m.path AND p.attempt_id = m.attempt_id
                               AND p.other_id = o.attempt_id AND p.commit_id = m.commit_id
                               AND p.other_commit = o.commit_id)
                       ORDER BY o.made_at DESC LIMIT 50) o) AS rivals
             FROM contestants m
             JOIN attempts a ON a.attempt_id = m.attempt_id AND a.host = $2
             WHERE m.path IN (SELECT path FROM attempt_repos
                              WHERE attempt_id IN (SELECT value FROM json_each($1)))
             ORDER BY m.attempt_id, m.position";
        self.read(async |db| db.all(sql, (attempts, &self.host)).await).await
    }

    async fn in_conflict(&self) -> Result<Vec<InConflict>, Refusal> {
        let sql = of_sides!(
            "SELECT a.attempt_id, a.folder,
                EXISTS (SELECT 1 FROM contestants c WHERE c.attempt_id = a.attempt_id) AS is_open
             FROM attempts a WHERE a.host = $1 AND a.attempt_id IN (SELECT attempt_id FROM sides)"
        );
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn record_probes(&self, attempt: AttemptId, probes: &[Probe]) -> Result<(), Refusal> {
        let changed = self
            .write(RetryBudget::Short, "probes", async |db| {
                let mut changed = Vec::new();
                for probe in probes {
                    if write(db, attempt, probe).await? {
                        changed.extend([Some(attempt), probe.rival].into_iter().flatten());
                    }
                }
                renumber(db, &changed).await?;
                Ok(changed)
            })
            .await?;
        self.announce_all(changed);
        Ok(())
    }

    async fn drop_probes(&self, attempts: &[AttemptId]) -> Result<(), Refusal> {
        let changed = self
            .write(RetryBudget::Short, "probes_dropped", async |db| {
                let sql = of_sides!(
                    "SELECT DISTINCT attempt_id FROM sides
                     WHERE other_id IN (SELECT value FROM json_each($1))
                        OR attempt_id IN (SELECT value FROM json_each($1))"
                );
                let changed: Vec<AttemptId> = db.all(sql, (attempts,)).await?;
                let sql = "DELETE FROM probes
                     WHERE attempt_id IN (SELECT value FROM json_each($1))
                        OR other_id IN (SELECT value FROM json_each($1))";
                db.run(sql, (attempts,)).await?;
                renumber(db, &changed).await?;
                Ok(changed)
            })
            .await?;
        self.announce_all(changed);
        Ok(())
    }
}

/// Gives attempts a new revision, so that waiters wake.
async fn renumber(db: Db<'_>, attempts: &[AttemptId]) -> Result<u64> {
    let sql = "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts)
         WHERE attempt_id IN (SELECT value FROM json_each($1))";
    if attempts.is_empty() { Ok(0) } else { db.run(sql, (attempts,)).await }
}

/// Writes the result of the merge of a pair. Does nothing if either side has a newer snapshot or is no longer
/// to be merged. `true`: the paths in conflict have changed.
async fn write(db: Db<'_>, attempt: AttemptId, probe: &Probe) -> Result<bool> {
    let Probe { repo, rival, commit_id, rival_commit, tree_id, paths } = probe;
    let sql = "SELECT count(*) FROM contestants WHERE path = $1
         AND (attempt_id = $2 AND commit_id = $3 OR attempt_id = $4 AND commit_id = $5)";
    let newest: usize = db.one(sql, (repo, attempt, commit_id, rival, rival_commit)).await?;
    if newest < 1 + usize::from(rival.is_some()) {
        return Ok(false);
    }
    let other = rival.map(|rival| rival.to_string()).unwrap_or_default();
    let sql = "SELECT paths, path_count FROM probes
         WHERE attempt_id = $1 AND other_id = $2 AND repo = $3";
    let before: Option<(Vec<String>, usize)> = db.find(sql, (attempt, &other, repo)).await?;
    let kept = &paths[..paths.len().min(PATHS_MAX)];
    let row = json!({
        "attempt_id": attempt, "other_id": other, "repo": repo, "commit_id": commit_id,
        "other_commit": rival_commit, "tree_id": tree_id, "paths": kept, "path_count": paths.len(),
    });
    db.replace("probes", "attempt_id, other_id, repo", row).await?;
    Ok(before.unwrap_or_default() != (kept.to_vec(), paths.len()))
}
