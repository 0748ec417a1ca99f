//! What is recorded of the work of attempts: the commits that they began from, and what finishes merged. A
//! fork inherits the work of its source, and of the source's source, up to an attempt that is no fork.

use std::collections::{BTreeSet, HashMap};

use provost_actors::ids::AttemptId;
use provost_actors::journal::{Finish, Histories};
use provost_actors::workspace::parting::Landing;
use serde::Deserialize;

use super::{Db, Result, Sql};

/// A repository of an attempt, or of an attempt that it was forked from, directly or indirectly.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the columns")]
struct Ancestor {
    attempt_id: AttemptId,
    ancestor_id: AttemptId,
    /// The repository's path on the board.
    path: String,
    /// The repository's name in that attempt.
    name: String,
    base_commit: String,
    forked_from: Option<AttemptId>,
}

/// The histories of these attempts, by attempt and path of the repository.
pub(super) async fn of(db: Db<'_>, attempts: &[AttemptId]) -> Result<Histories> {
    let sql = "WITH RECURSIVE line (attempt_id, ancestor_id, forked_from, depth) AS (
             SELECT attempt_id, attempt_id, forked_from, 0 FROM attempts
             WHERE attempt_id IN (SELECT value FROM json_each($1))
             UNION ALL
             SELECT l.attempt_id, a.attempt_id, a.forked_from, l.depth + 1
             FROM line l JOIN attempts a ON a.attempt_id = l.forked_from)
         SELECT l.attempt_id, l.ancestor_id, r.path, r.name, r.base_commit, l.forked_from
         FROM line l JOIN attempt_repos r ON r.attempt_id = l.ancestor_id
         ORDER BY l.attempt_id, l.depth";
    let line: Vec<Ancestor> = db.all(sql, (attempts,)).await?;
    let ancestors: BTreeSet<AttemptId> = line.iter().map(|it| it.ancestor_id).collect();
    let ancestors: Vec<AttemptId> = ancestors.into_iter().collect();
    let landings = landings(db, &ancestors).await?;
    let mut histories = Histories::new();
    for it in line {
        let landings = landings.get(&(it.ancestor_id, it.name)).cloned().unwrap_or_default();
        let history = histories.entry((it.attempt_id, it.path)).or_default();
        if it.ancestor_id == it.attempt_id {
            history.landings = landings;
        } else if !landings.is_empty() {
            history.inherited.push(landings);
        }
        if it.forked_from.is_none() {
            history.begun = Some(it.base_commit);
        }
    }
    Ok(histories)
}

/// What finishes merged of these attempts, by attempt and name of the repository; newest first.
async fn landings(
    db: Db<'_>,
    attempts: &[AttemptId],
) -> Result<HashMap<(AttemptId, String), Vec<Landing>>> {
    let sql = "SELECT * FROM finishes
         WHERE attempt_id IN (SELECT value FROM json_each($1))
           AND request ->> 'action' IN ('merge', 'apply_to')
         ORDER BY finish_id DESC";
    let finishes: Vec<Finish> = db.all(sql, (attempts,)).await?;
    let mut found: HashMap<_, Vec<Landing>> = HashMap::new();
    for finish in &finishes {
        for (name, landing) in finish.landings() {
            found.entry((finish.attempt_id, name.to_owned())).or_default().push(landing);
        }
    }
    Ok(found)
}
