//! Finishes: what happens to an attempt's work. The attempt's actor writes each step, and plans the checks on
//! what a merge would give.
//!
//! A finish onto an attempt of another host is applied by that host:
//!
//! ```text
//!  applied_by = NULL ─begin_applying, host of the target─▶ that host ─end_applying─▶ applied_at set
//!        └─take_back, host of the finished attempt; also from a removed host─▶ the finished attempt's host
//! ```

use std::collections::BTreeMap;

use async_trait::async_trait;
use provost_actors::ids::{AttemptId, CheckRunId, FinishId, RepoId, TaskId};
use provost_actors::journal::checks::Submission;
use provost_actors::journal::{
    CheckRun, Finish, FinishState, Finishes, Histories, Idempotent, Key,
};
use serde_json::json;
use tokio::time::timeout;

use super::approvals::count_change;
use super::histories;
use super::remote_commits::{POLL, hint_all};
use super::work::checks::{self, NewRun};
use super::{Db, Refusal, Result, RetryBudget, Sql, Store, now};

/// The name of the hint that another host may have to continue a finish.
const APPLIED: &str = "applied";

/// The open finish of an attempt; `None`: none is under way.
pub(super) async fn open_finish(db: Db<'_>, attempt: AttemptId) -> Result<Option<Finish>> {
    let sql = "SELECT * FROM finishes WHERE attempt_id = $1 AND state = 'open'";
    db.find(sql, (attempt,)).await
}

/// The open finish that applies another attempt's work to this attempt's branch. It counts if both attempts
/// are on one host, or once this attempt's host has begun to apply it.
pub(super) async fn lent_to(db: Db<'_>, attempt: AttemptId) -> Result<Option<FinishId>> {
    let sql = "SELECT finish_id FROM finishes f
         WHERE state = 'open' AND request ->> 'onto' = $1
           AND (applied_by IS NOT NULL AND applied_at IS NULL
                OR EXISTS (SELECT 1 FROM attempts s JOIN attempts o ON o.host = s.host
                           WHERE s.attempt_id = f.attempt_id AND o.attempt_id = $1))";
    db.find(sql, (attempt,)).await
}

async fn keep(db: Db<'_>, finish: &Finish) -> Result<()> {
    let sql = "UPDATE finishes SET receipt = $2 WHERE finish_id = $1 AND state = 'open'";
    db.run(sql, (finish.finish_id, &finish.receipt)).await?;
    tell(db, finish).await
}

/// Sends the hint for a finish onto another attempt: the host of either attempt may have the next step.
async fn tell(db: Db<'_>, finish: &Finish) -> Result<()> {
    if finish.request.onto.is_some() { hint_all(db, APPLIED).await } else { Ok(()) }
}

#[async_trait]
impl Finishes for Store {
    async fn record_finish(
        &self,
        key: Option<&Key>,
        finish: &Finish,
    ) -> Result<Idempotent<FinishId>, Refusal> {
        let recorded = self
            .keyed(RetryBudget::OneTry, key, "finish", async |db| {
                let row = json!({
                    "finish_id": finish.finish_id, "attempt_id": finish.attempt_id,
                    "request": finish.request, "state": finish.state,
                    "receipt": finish.receipt, "created_at": now(),
                });
                db.insert("INTO finishes", row).await?;
                count_change(db, finish.attempt_id).await?;
                Ok(finish.finish_id)
            })
            .await?;
        self.changes.announce(finish.attempt_id);
        Ok(recorded)
    }

    async fn join_finish(
        &self,
        key: Option<&Key>,
        finish: FinishId,
    ) -> Result<Idempotent<FinishId>, Refusal> {
        let joined =
            self.keyed(RetryBudget::OneTry, key, "finish_joined", async |_| Ok(finish)).await?;
        Ok(Idempotent { deduplicated: true, ..joined })
    }

    async fn finish(&self, finish: FinishId) -> Result<Option<Finish>, Refusal> {
        let sql = "SELECT * FROM finishes WHERE finish_id = $1";
        self.read(async |db| db.find(sql, (finish,)).await).await
    }

    async fn histories(&self, attempts: &[AttemptId]) -> Result<Histories, Refusal> {
        self.read(async |db| histories::of(db, attempts).await).await
    }

    async fn keep_finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.write(RetryBudget::OneTry, "finish_step", async |db| keep(db, finish).await).await
    }

    async fn plan_finish_checks(
        &self,
        finish: &Finish,
        task: TaskId,
        submission: &Submission,
    ) -> Result<(), Refusal> {
        self.write(RetryBudget::OneTry, "finish_checks", async |db| {
            let of = NewRun { task, finish: Some(finish.finish_id), claims_passed: false };
            checks::plan(db, &of, submission).await?;
            keep(db, finish).await
        })
        .await
    }

    async fn end_finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.write(RetryBudget::OneTry, "finish_end", async |db| {
            let sql = "UPDATE finishes SET state = $2, receipt = $3, error = $4, ended_at = $5
                 WHERE finish_id = $1";
            let Finish { finish_id, state, receipt, error, .. } = finish;
            db.run(sql, (finish_id, state, receipt, error, now())).await?;
            if *state == FinishState::Refused {
                // A refused call may be made again, so its answer, which is the finish's id as JSON, is
                // removed.
                let sql = "DELETE FROM requests WHERE tool = 'finish_attempt' AND answer = $1";
                db.run(sql, (serde_json::to_string(finish_id)?,)).await?;
            }
            count_change(db, finish.attempt_id).await?;
            tell(db, finish).await
        })
        .await?;
        self.changes.announce(finish.attempt_id);
        Ok(())
    }

    async fn attempt_with_branch(
        &self,
        repo: RepoId,
        branch: &str,
    ) -> Result<Option<AttemptId>, Refusal> {
        let sql = "SELECT a.attempt_id FROM attempts a
             JOIN attempt_repos r ON r.attempt_id = a.attempt_id
             WHERE r.repo_id = $1 AND a.branch = $2";
        self.read(async |db| db.find(sql, (repo, branch)).await).await
    }

    async fn host_of_target(&self, onto: AttemptId) -> Result<Option<String>, Refusal> {
        let sql = "SELECT host FROM attempts WHERE attempt_id = $1";
        self.read(async |db| db.find(sql, (onto,)).await).await
    }

    async fn begin_applying(&self, finish: FinishId) -> Result<bool, Refusal> {
        let sql = "UPDATE finishes SET applied_by = $2
             WHERE finish_id = $1 AND state = 'open' AND applied_at IS NULL
               AND (applied_by IS NULL OR applied_by = $2)
               AND EXISTS (SELECT 1 FROM attempts a
                           WHERE a.attempt_id = finishes.request ->> 'onto' AND a.host = $2)";
        let begin = async |db: Db<'_>| db.run(sql, (finish, &self.host)).await;
        Ok(self.write(RetryBudget::OneTry, "finish_applied", begin).await? > 0)
    }

    async fn end_applying(&self, finish: &Finish) -> Result<(), Refusal> {
        self.write(RetryBudget::OneTry, "finish_applied", async |db| {
            let sql = "UPDATE finishes SET receipt = $2, applied_at = $3
                 WHERE finish_id = $1 AND state = 'open' AND applied_at IS NULL";
            db.run(sql, (finish.finish_id, &finish.receipt, now())).await?;
            tell(db, finish).await
        })
        .await
    }

    async fn take_back(&self, finish: FinishId) -> Result<bool, Refusal> {
        let sql = "UPDATE finishes SET applied_by = $2
             WHERE finish_id = $1 AND state = 'open' AND applied_at IS NULL
               AND (applied_by IS NULL OR applied_by NOT IN (SELECT host_id FROM hosts))";
        let take = async |db: Db<'_>| db.run(sql, (finish, &self.host)).await;
        Ok(self.write(RetryBudget::OneTry, "finish_taken_back", take).await? > 0)
    }

    async fn to_apply(&self) -> Result<Vec<Finish>, Refusal> {
        let sql = "SELECT f.* FROM finishes f
             JOIN attempts o ON o.attempt_id = f.request ->> 'onto'
             JOIN attempts s ON s.attempt_id = f.attempt_id
             WHERE f.state = 'open' AND f.applied_at IS NULL
               AND (f.applied_by IS NULL OR f.applied_by = $1)
               AND o.host = $1 AND s.host <> $1";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn finish_news(&self) {
        let _ = timeout(POLL, self.changes.watch(&[APPLIED]).changed()).await;
    }

    async fn remotes(&self, repo: RepoId) -> Result<BTreeMap<String, String>, Refusal> {
        let sql = "SELECT name, url FROM remotes WHERE repo_id = $1";
        let found: Vec<(String, String)> = self.read(async |db| db.all(sql, (repo,)).await).await?;
        Ok(found.into_iter().collect())
    }

    async fn last_checks(&self, attempt: AttemptId) -> Result<Option<CheckRun>, Refusal> {
        self.read(async |db| checks::last_of(db, attempt).await).await
    }

    async fn check_run(&self, run: CheckRunId) -> Result<Option<CheckRun>, Refusal> {
        self.read(async |db| checks::run(db, run).await).await
    }
}
