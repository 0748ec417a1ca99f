//! What the page of an attempt shows: its turns, the prompts that wait, and its finishes and checks.

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, FinishId, ProjectId};
use provost_actors::journal::{FinishReceipt, FinishRequest, FinishState, TaskStatus};
use serde::Deserialize;

use super::{Db, Page, Refusal, Result, Sql, Store, not_found};
use crate::api::timeline::{CheckRecord, Turn, TurnProcess, WaitingPrompt};

/// To how many characters a text is cut.
const TEXT_MAX: usize = 20_000;

/// The most processes of one page of turns: the newest.
const PROCESSES_MAX: usize = 500;

/// How many waiting prompts, finishes and check runs are read.
const WAITING_MAX: usize = 50;
const FINISHES_MAX: usize = 20;
const CHECKS_MAX: usize = 10;

/// What the page shows of the attempt's task.
#[derive(Clone, Debug, Deserialize)]
pub struct AttemptTask {
    pub title: String,
    pub status: TaskStatus,
    pub project_id: ProjectId,
    pub project_name: String,
}

/// A finish with the times of its begin and end.
#[derive(Clone, Debug, Deserialize)]
pub struct FinishRow {
    pub finish_id: FinishId,
    pub request: FinishRequest,
    pub state: FinishState,
    pub receipt: FinishReceipt,
    pub error: Option<Refusal>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// What the page shows beside the turns; all lists have the newest first, except for the prompts, which are
/// in the order of the queue.
pub struct Beside {
    pub task: AttemptTask,
    pub waiting: Vec<WaitingPrompt>,
    pub finishes: Vec<FinishRow>,
    pub checks: Vec<CheckRecord>,
}

/// A turn's number, whether it has a snapshot, its prompt, cut, and the length of the whole prompt.
type Head = (u32, bool, String, u64);

impl Store {
    /// The last turns of an attempt, or the last ones before the turn `before`; oldest first.
    pub async fn turns(
        &self,
        attempt: AttemptId,
        before: Option<u32>,
        most: usize,
    ) -> Result<Page<Turn>, Refusal> {
        self.read(async |db| turns(db, attempt, before, most).await).await
    }

    /// What belongs to an attempt besides its turns; refused if the attempt is unknown.
    pub async fn beside_turns(&self, attempt: AttemptId) -> Result<Beside, Refusal> {
        let task = "SELECT t.title, t.status, t.project_id, p.name AS project_name
             FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             JOIN projects p ON p.project_id = t.project_id WHERE a.attempt_id = $1";
        let waiting = "SELECT queue_id, substr(prompt, 1, $2) AS prompt, variant, queued_at
             FROM follow_ups WHERE session_id =
                 (SELECT session_id FROM sessions WHERE attempt_id = $1
                  ORDER BY session_id DESC LIMIT 1)
             ORDER BY position LIMIT $3";
        let finishes = "SELECT * FROM finishes WHERE attempt_id = $1
             ORDER BY finish_id DESC LIMIT $2";
        // The condition on the task is there for its index.
        let checks = "SELECT r.finish_id, r.verdict, r.planned_at,
                 (SELECT json_group_array(json_object(
                      'name', name, 'command', command, 'outcome', outcome, 'reason', reason,
                      'exit_code', exit_code, 'exit_signal', exit_signal,
                      'duration_ms', duration_ms, 'log', log, 'at', ended_at,
                      'sandbox', json(sandbox)) ORDER BY name)
                  FROM receipts WHERE run_id = r.run_id) AS receipts
             FROM check_runs r JOIN attempts a ON a.task_id = r.task_id
             WHERE a.attempt_id = $1 AND r.attempt_id = $1 ORDER BY r.run_id DESC LIMIT $2";
        self.read(async |db| {
            let found = db.find(task, (attempt,)).await?;
            Ok(Beside {
                task: found.ok_or_else(|| not_found::attempt(attempt))?,
                waiting: db.all(waiting, (attempt, TEXT_MAX, WAITING_MAX)).await?,
                finishes: db.all(finishes, (attempt, FINISHES_MAX)).await?,
                checks: db.all(checks, (attempt, CHECKS_MAX)).await?,
            })
        })
        .await
    }

    /// The pid and start time of each running process of an attempt. Both together identify a process,
    /// because pids are used again.
    pub async fn running_leaders(&self, attempt: AttemptId) -> Result<Vec<(i32, u64)>, Refusal> {
        let sql = "SELECT pid, start_time FROM processes
             WHERE attempt_id = $1 AND status = 'running' AND pid IS NOT NULL
             ORDER BY process_id";
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }
}

async fn turns(
    db: Db<'_>,
    attempt: AttemptId,
    before: Option<u32>,
    most: usize,
) -> Result<Page<Turn>> {
    // The prompt of a turn is that of its first process: a process that took over may have a recap before it.
    let sql = "SELECT p.turn,
             EXISTS (SELECT 1 FROM turn_snapshots n
                     WHERE n.attempt_id = $1 AND n.turn = p.turn) AS has_snapshot,
             substr(x.prompt, 1, $4), length(x.prompt)
         FROM (SELECT turn, min(process_id) AS first FROM processes
               WHERE attempt_id = $1 AND run_reason <> 'dev_server' AND (turn < $2 OR $2 IS NULL)
               GROUP BY turn ORDER BY turn DESC LIMIT $3) p
         JOIN processes x ON x.process_id = p.first
         ORDER BY p.turn DESC";
    let heads: Vec<Head> = db.all(sql, (attempt, before, most + 1, TEXT_MAX)).await?;
    let mut page = Page::cut(heads, most);
    page.items.reverse();
    let (Some(first), Some(last)) = (page.items.first(), page.items.last()) else {
        return Ok(Page { items: Vec::new(), has_more: false });
    };
    let sql = "SELECT turn, json_object(
                 'process_id', process_id, 'run_reason', run_reason, 'status', status,
                 'variant', variant, 'created_at', created_at, 'ended_at', ended_at,
                 'exit_code', exit_code, 'exit_signal', exit_signal,
                 'failure_summary', substr(failure_summary, 1, $4),
                 'final_message', substr(final_message, 1, $4), 'usage', json(usage))
         FROM processes WHERE attempt_id = $1 AND turn BETWEEN $2 AND $3
         ORDER BY turn DESC, process_id DESC LIMIT $5";
    let values = (attempt, first.0, last.0, TEXT_MAX, PROCESSES_MAX);
    let processes: Vec<(u32, TurnProcess)> = db.all(sql, values).await?;
    let mut processes = processes.into_iter().rev().peekable();
    let turn = |(number, has_snapshot, prompt, prompt_length): Head| {
        let mut of_turn = Vec::new();
        while let Some((_, process)) = processes.next_if(|(turn, _)| *turn <= number) {
            of_turn.push(process);
        }
        Turn { number, prompt, prompt_length, has_snapshot, processes: of_turn }
    };
    Ok(Page { items: page.items.into_iter().map(turn).collect(), has_more: page.has_more })
}
