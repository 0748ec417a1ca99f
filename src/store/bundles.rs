//! Commits for other hosts, as bundles whose contents are stored in parts; which hosts have a repository at
//! its path; and the move of an attempt to this host.
//!
//! The copy of a turn at a remote (`turn_bundles.pushed`):
//!
//! ```text
//!  due ─push─▶ there ─withdraw─▶ unwanted ─deleted at the remote─▶ removed
//!   │ └─fails─▶ failed ─tried again─▶ there
//!   └─withdraw, no remote yet─▶ removed
//! ```

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use provost_actors::ids::{AttemptId, RepoId};
use provost_actors::journal::{Bundle, Bundles, DuePush, MovedFrom, Pushed, TurnBundle};
use serde::Serialize;
use serde_json::json;

use super::{Code, Db, Refusal, Result, RetryBudget, Sql, Store, not_found, now, sweep};

/// How long parts are kept whose bundle was never recorded, in milliseconds: one day.
const UNRECORDED_MS: i64 = 86_400_000;

/// The condition for parts that no bundle uses.
const UNUSED: &str =
    "NOT EXISTS (SELECT 1 FROM turn_bundles t WHERE t.sha256 = bundle_parts.sha256)
    AND NOT EXISTS (SELECT 1 FROM base_bundles b WHERE b.sha256 = bundle_parts.sha256)";

impl Store {
    /// Removes old parts that no bundle uses.
    pub(super) async fn prune_bundles(&self) -> Result<u64, Refusal> {
        let sql = format!("DELETE FROM bundle_parts WHERE made_at < $1 AND {UNUSED}");
        let before = (now() - UNRECORDED_MS,);
        let work = async |db: Db<'_>| db.run(sqlx::AssertSqlSafe(sql), before).await;
        self.write(RetryBudget::Short, "bundles_pruned", work).await
    }

    /// Whether a host lacks, at its path, one of the repositories of an attempt.
    pub async fn lacks_repo(&self, attempt: AttemptId, host: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM attempt_repos r WHERE r.attempt_id = $1
             AND NOT EXISTS (SELECT 1 FROM repo_hosts h WHERE h.repo_id = r.repo_id AND h.host = $2))";
        self.read(async |db| db.one(sql, (attempt, host)).await).await
    }

    /// All repositories of the board, each with its path.
    pub async fn repo_paths(&self) -> Result<Vec<(RepoId, String)>, Refusal> {
        let sql = "SELECT repo_id, path FROM repos ORDER BY repo_id";
        self.read(async |db| db.all(sql, ()).await).await
    }

    /// Records that this host has a new repository at its path. Does nothing where the board is not shared,
    /// or where this host uses a mirror instead of the path.
    pub(super) async fn note_here(&self, db: Db<'_>, repo: RepoId, path: &str) -> Result<()> {
        if !self.is_shared() || self.places.is_mirror(&self.places.of(repo, path)) {
            return Ok(());
        }
        let row = json!({"repo_id": repo, "host": self.host});
        db.insert_new("INTO repo_hosts", row).await.map(drop)
    }

    /// Removes the records that this host has repositories at their paths.
    pub async fn record_no_repos_here(&self) -> Result<(), Refusal> {
        let sql = "DELETE FROM repo_hosts WHERE host = $1";
        let work = async |db: Db<'_>| db.run(sql, (&self.host,)).await.map(drop);
        self.write(RetryBudget::Short, "repo_hosts", work).await
    }
}

/// Replaces the bundles of an attempt by those of its newest snapshot, in the snapshot's transaction.
pub(super) async fn replace(
    db: Db<'_>,
    attempt: AttemptId,
    turn: u32,
    bundles: &[TurnBundle],
) -> Result<()> {
    let before = contents(db, attempt).await?;
    if before.is_empty() && bundles.is_empty() {
        return Ok(());
    }
    db.run("DELETE FROM turn_bundles WHERE attempt_id = $1", (attempt,)).await?;
    for bundle in bundles {
        let mut row = json!(bundle);
        row["attempt_id"] = json!(attempt);
        row["turn"] = json!(turn);
        db.insert("INTO turn_bundles", row).await?;
    }
    remove(db, before).await
}

/// Removes the contents of an attempt's bundles. The rows stay, so that the copies at remotes are removed
/// too.
pub(super) async fn forget(db: Db<'_>, attempt: AttemptId) -> Result<()> {
    let before = contents(db, attempt).await?;
    db.run("UPDATE turn_bundles SET sha256 = NULL WHERE attempt_id = $1", (attempt,)).await?;
    withdraw(db, "$1", attempt).await?;
    remove(db, before).await
}

/// Stops all pushes of these attempts, and has their copies at remotes removed. `attempts` is a query with
/// the parameter `$1`, or just `$1`.
pub(super) async fn withdraw(db: Db<'_>, attempts: &str, value: impl Serialize) -> Result<()> {
    let sql = format!(
        "UPDATE turn_bundles
         SET pushed = CASE WHEN remote IS NULL THEN 'removed' ELSE 'unwanted' END
         WHERE pushed IN ('due', 'failed', 'there') AND attempt_id IN ({attempts})"
    );
    db.run(sqlx::AssertSqlSafe(sql), (value,)).await.map(drop)
}

async fn contents(db: Db<'_>, attempt: AttemptId) -> Result<Vec<String>> {
    let sql = "SELECT sha256 FROM turn_bundles WHERE attempt_id = $1 AND sha256 IS NOT NULL";
    db.all(sql, (attempt,)).await
}

/// Removes contents that no bundle uses any more.
async fn remove(db: Db<'_>, contents: Vec<String>) -> Result<()> {
    if contents.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "DELETE FROM bundle_parts WHERE sha256 IN (SELECT value FROM json_each($1)) AND {UNUSED}"
    );
    db.run(sqlx::AssertSqlSafe(sql), (contents,)).await.map(drop)
}

#[async_trait]
impl Bundles for Store {
    async fn keep_part(&self, sha256: &str, part: u32, content: &[u8]) -> Result<(), Refusal> {
        let row = json!({
            "sha256": sha256, "part": part, "content": STANDARD.encode(content), "made_at": now(),
        });
        // A part is named by its hash, so equal parts are equal rows: no order with other writes is needed.
        self.beside(RetryBudget::Short, "bundle_part", async |db| {
            // A part that exists may be old. Its new time keeps it from being pruned before its bundle is
            // recorded.
            db.replace("bundle_parts", "sha256, part", row).await.map(drop)
        })
        .await
    }

    async fn part(&self, sha256: &str, part: u32) -> Result<Option<Vec<u8>>, Refusal> {
        let sql = "SELECT content FROM bundle_parts WHERE sha256 = $1 AND part = $2";
        let found: Option<String> =
            self.read(async |db| db.find(sql, (sha256, part)).await).await?;
        let decoded = found.map(|text| STANDARD.decode(text)).transpose();
        decoded.map_err(|error| Refusal::internal(format!("a part of a bundle: {error}")))
    }

    async fn turn_bundles(&self, attempt: AttemptId) -> Result<Vec<TurnBundle>, Refusal> {
        let sql = "SELECT * FROM turn_bundles WHERE attempt_id = $1";
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }

    async fn due_pushes(&self, remote: Option<&str>, again: bool) -> Result<Vec<DuePush>, Refusal> {
        let sql =
            "SELECT b.attempt_id, b.repo, b.turn, b.commit_id, b.pushed, m.name AS remote, m.url
             FROM turn_bundles b
             JOIN attempts a ON a.attempt_id = b.attempt_id
             JOIN attempt_repos r ON r.attempt_id = b.attempt_id AND r.name = b.repo
             JOIN remotes m ON m.repo_id = r.repo_id
                  AND m.name = CASE b.pushed WHEN 'unwanted' THEN b.remote ELSE $2 END
             WHERE a.host = $1 AND b.pushed IN (SELECT value FROM json_each($3))
             ORDER BY b.attempt_id DESC";
        let mut wanted = vec![Pushed::Unwanted, Pushed::Due];
        if again {
            wanted.push(Pushed::Failed);
        }
        self.read(async |db| db.all(sql, (&self.host, remote, &wanted)).await).await
    }

    async fn record_push(&self, push: &DuePush, pushed: Pushed) -> Result<bool, Refusal> {
        let sql = "UPDATE turn_bundles SET pushed = $6, remote = $7
             WHERE attempt_id = $1 AND repo = $2 AND turn = $3 AND commit_id = $4 AND pushed = $5";
        let DuePush { attempt_id, repo, turn, commit_id, pushed: before, remote, .. } = push;
        let values = (attempt_id, repo, turn, commit_id, before, pushed, remote);
        self.write(RetryBudget::Short, "push", async |db| Ok(db.run(sql, values).await? > 0)).await
    }

    async fn base_bundle(&self, repo: RepoId, commit: &str) -> Result<Option<Bundle>, Refusal> {
        let sql = "SELECT * FROM base_bundles WHERE repo_id = $1 AND commit_id = $2";
        self.read(async |db| db.find(sql, (repo, commit)).await).await
    }

    async fn base_commits(&self, repo: RepoId) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT commit_id FROM base_bundles WHERE repo_id = $1 AND sha256 IS NOT NULL
             ORDER BY made_at DESC LIMIT 20";
        self.read(async |db| db.all(sql, (repo,)).await).await
    }

    async fn record_base_bundle(
        &self,
        repo: RepoId,
        bundle: &Bundle,
        is_kept: bool,
    ) -> Result<(), Refusal> {
        let mut row = json!(bundle);
        row["repo_id"] = json!(repo);
        row["made_at"] = json!(now());
        let needs =
            "SELECT EXISTS (SELECT 1 FROM base_bundles WHERE repo_id = $1 AND commit_id = $2)";
        self.write(RetryBudget::Short, "base_bundle", async |db| {
            // The bundle that this one builds on may have been removed meanwhile. Then this one is not
            // recorded; the next start records one.
            if let Some(before) = bundle.needs.as_ref().filter(|_| is_kept)
                && !db.one::<bool>(needs, (repo, before)).await?
            {
                return Ok(());
            }
            db.insert_new("INTO base_bundles", row).await.map(drop)
        })
        .await
    }

    async fn hosts_with(&self, repo: RepoId) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT host FROM repo_hosts WHERE repo_id = $1 ORDER BY host";
        self.read(async |db| db.all(sql, (repo,)).await).await
    }

    async fn record_repo_here(&self, repo: RepoId) -> Result<(), Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM repo_hosts WHERE repo_id = $1 AND host = $2)";
        let values = (repo, &self.host);
        if self.read(async |db| db.one(sql, values).await).await? {
            return Ok(());
        }
        let row = json!({"repo_id": repo, "host": self.host});
        let work = async |db: Db<'_>| db.insert_new("INTO repo_hosts", row).await.map(drop);
        self.write(RetryBudget::Short, "repo_hosts", work).await
    }

    async fn move_here(&self, attempt: AttemptId, from: &MovedFrom) -> Result<u64, Refusal> {
        let (epoch, changed) = self
            .write(RetryBudget::Long, "moved", async |db| {
                let sql = "SELECT host, epoch, phase IN ('settled', 'idle') AS rests,
                     EXISTS (SELECT 1 FROM finishes f WHERE f.state = 'open'
                             AND (f.attempt_id = a.attempt_id
                                  OR f.request ->> 'onto' = a.attempt_id
                                     AND f.applied_by IS NOT NULL)) AS finishes,
                     EXISTS (SELECT 1 FROM processes x WHERE x.attempt_id = a.attempt_id
                             AND (x.status <> 'planned' AND x.closed = 0
                                  AND x.run_reason = 'coding_agent'
                                  OR x.run_reason = 'dev_server' AND x.ended_at IS NULL)) AS works,
                     EXISTS (SELECT 1 FROM processes x WHERE x.attempt_id = a.attempt_id
                             AND x.snapshot_due = 1) AS is_due,
                     EXISTS (SELECT 1 FROM finishes f
                             WHERE f.request ->> 'onto' = a.attempt_id AND f.state = 'done'
                               AND f.created_at >= (SELECT coalesce(max(x.ended_at), 0)
                                                    FROM processes x
                                                    WHERE x.attempt_id = a.attempt_id
                                                      AND x.run_reason = 'coding_agent')) AS got_more
                     FROM attempts a WHERE attempt_id = $1";
                let found: Option<MoveFacts> = db.find(sql, (attempt,)).await?;
                let found = found.ok_or_else(|| not_found::attempt(attempt))?;
                if found.host == *self.host {
                    return Ok((found.epoch, Vec::new()));
                }
                let changed = check_move(db, attempt, &found, from).await?;
                Ok((set_host(db, attempt, &found, &self.host).await?, changed))
            })
            .await?;
        self.announce_all(changed);
        self.changes.announce(attempt);
        Ok(epoch)
    }
}

/// What decides whether an attempt can be moved.
#[derive(Debug, serde::Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts are independent of each other")]
struct MoveFacts {
    host: String,
    epoch: u64,
    rests: bool,
    /// A finish of it is open, or another attempt's work is being applied to its branch.
    finishes: bool,
    /// Something that the attempt started may be alive.
    works: bool,
    /// The snapshot of its last turn has not been made yet.
    is_due: bool,
    /// Its branch got work of another attempt after its last turn, and no snapshot contains that work.
    got_more: bool,
}

/// Refuses to move an attempt that is not at rest, or whose host is alive when it must be lost. A host that
/// is lost is given up here, in the same transaction; the other attempts that this changes are returned.
async fn check_move(
    db: Db<'_>,
    attempt: AttemptId,
    found: &MoveFacts,
    from: &MovedFrom,
) -> Result<Vec<AttemptId>> {
    let (MovedFrom::Lost(host) | MovedFrom::Alive(host)) = from;
    let refuse = |why: &str| {
        let message = format!("attempt {attempt} can't be moved from host {}: {why}", found.host);
        Err(Refusal::new(Code::DaemonUnavailable, message)
            .hint(format!("Call the tool again when the daemon of host {} runs again.", found.host))
            .detail("host", found.host.as_str())
            .into())
    };
    if found.host != *host {
        return refuse("it has just come there");
    }
    if !found.rests {
        return refuse("it is queued or runs");
    }
    if found.finishes {
        return refuse("a finish of it is under way");
    }
    if found.is_due {
        return refuse("the snapshot of its last turn is still to be made there");
    }
    if found.got_more {
        return refuse(
            "its branch got work of another attempt since its last turn, and that host alone \
             has it: a follow-up there makes a snapshot of it",
        );
    }
    if matches!(from, MovedFrom::Alive(_)) {
        return if found.works {
            refuse("something that it started is alive there")
        } else {
            Ok(Vec::new())
        };
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM hosts WHERE host_id = $1 AND fenced_at IS NULL)";
    if !db.one::<bool>(sql, (host,)).await? {
        return Ok(Vec::new());
    }
    match sweep::give_up(db, host).await? {
        Some(changed) => Ok(changed),
        None => refuse("its daemon is there, or may come back at once"),
    }
}

/// Gives the attempt to this host, in its next epoch. Whatever the old host had running counts as ended:
/// the agent's session, processes, a due snapshot.
async fn set_host(db: Db<'_>, attempt: AttemptId, found: &MoveFacts, host: &str) -> Result<u64> {
    let epoch = found.epoch + 1;
    let now = now();
    let sql = "UPDATE processes SET snapshot_due = 0, closed = 1, ended_at = coalesce(ended_at, $2)
         WHERE attempt_id = $1 AND status <> 'planned'";
    db.run(sql, (attempt, now)).await?;
    let sql = "UPDATE sessions SET executor_session_id = NULL WHERE attempt_id = $1";
    db.run(sql, (attempt,)).await?;
    let sql = "UPDATE attempts SET host = $2, epoch = $3, updated_at = $4,
             revision = (SELECT max(revision) + 1 FROM attempts)
         WHERE attempt_id = $1";
    db.run(sql, (attempt, host, epoch, now)).await?;
    Ok(epoch)
}
