//! Finishes: what becomes of an attempt's work. Its owner writes each step down, and the runs of
//! checks on what a merge would give.

use std::collections::BTreeMap;

use async_trait::async_trait;
use provost_actors::ids::{AttemptId, CheckRunId, FinishId, RepoId, TaskId};
use provost_actors::journal::checks::Submission;
use provost_actors::journal::{CheckRun, Finish, FinishState, Finishes, Key, Once};
use serde_json::json;

use super::approvals::count_change;
use super::work::checks::{self, NewRun};
use super::{Db, Patience, Refusal, Result, Sql, Store, now};

/// The finish of an attempt that is under way.
pub(super) async fn open_finish(db: Db<'_>, attempt: AttemptId) -> Result<Option<Finish>> {
    let sql = "SELECT * FROM finishes WHERE attempt_id = $1 AND state = 'open'";
    db.find(sql, (attempt,)).await
}

/// The finish under way by which this attempt's branch gets the work of another one.
pub(super) async fn lent_to(db: Db<'_>, attempt: AttemptId) -> Result<Option<FinishId>> {
    let sql = "SELECT finish_id FROM finishes
         WHERE state = 'open' AND request ->> 'onto' = $1";
    db.find(sql, (attempt,)).await
}

async fn keep(db: Db<'_>, finish: &Finish) -> Result<()> {
    let sql = "UPDATE finishes SET receipt = $2 WHERE finish_id = $1 AND state = 'open'";
    db.run(sql, (finish.finish_id, &finish.receipt)).await.map(drop)
}

#[async_trait]
impl Finishes for Store {
    async fn record_finish(
        &self,
        key: Option<&Key>,
        finish: &Finish,
    ) -> Result<Once<FinishId>, Refusal> {
        let recorded = self
            .keyed(Patience::OneTry, key, "finish", async |db| {
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

    async fn finish(&self, finish: FinishId) -> Result<Option<Finish>, Refusal> {
        let sql = "SELECT * FROM finishes WHERE finish_id = $1";
        self.read(async |db| db.find(sql, (finish,)).await).await
    }

    async fn keep_finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.write(Patience::OneTry, "finish_step", async |db| keep(db, finish).await).await
    }

    async fn plan_finish_checks(
        &self,
        finish: &Finish,
        task: TaskId,
        submission: &Submission,
    ) -> Result<(), Refusal> {
        self.write(Patience::OneTry, "finish_checks", async |db| {
            let of = NewRun { task, finish: Some(finish.finish_id), claims_passed: false };
            checks::plan(db, &of, submission).await?;
            keep(db, finish).await
        })
        .await
    }

    async fn end_finish(&self, finish: &Finish) -> Result<(), Refusal> {
        self.write(Patience::OneTry, "finish_end", async |db| {
            let sql = "UPDATE finishes SET state = $2, receipt = $3, error = $4, ended_at = $5
                 WHERE finish_id = $1";
            let Finish { finish_id, state, receipt, error, .. } = finish;
            db.run(sql, (finish_id, state, receipt, error, now())).await?;
            if *state == FinishState::Refused {
                // The call may be made again: its answer is the finish's id, as JSON.
                let sql = "DELETE FROM requests WHERE tool = 'finish_attempt' AND answer = $1";
                db.run(sql, (serde_json::to_string(finish_id)?,)).await?;
            }
            count_change(db, finish.attempt_id).await.map(drop)
        })
        .await?;
        self.changes.announce(finish.attempt_id);
        Ok(())
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
