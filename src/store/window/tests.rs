use provost_actors::ids::{CheckRunId, FinishId, ProcessId, QuestionId, SessionId};
use provost_actors::journal::{FinishState, State};
use serde_json::json;

use super::*;
use crate::store::{Db, RetryBudget, scratch as stores};
use crate::work::attention::{needs, place};

const TASKS: usize = 10_000;
/// Of the first tasks, one each.
const ATTEMPTS: usize = 1_000;

async fn scratch() -> (Store, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = stores::open(dir.path()).await;
    (store, dir)
}

/// A board in which the tasks with attempts are in review, each tenth attempt failed, and each
/// hundredth task is closed.
async fn fill(store: &Store) -> ProjectId {
    let project = ProjectId::new();
    let fill = store.write(RetryBudget::Long, "fill", async |db| {
        let row = json!({"project_id": project, "name": "p", "created_at": 1, "updated_at": 1});
        db.insert("INTO projects", row).await?;
        for number in 0..TASKS {
            let task = TaskId::new();
            let has_attempt = number < ATTEMPTS;
            let status = match number {
                _ if number % 100 == 99 => "done",
                _ if has_attempt && number % 10 == 0 => "inprogress",
                _ if has_attempt => "inreview",
                _ => "todo",
            };
            let row = json!({
                "task_id": task, "project_id": project, "title": format!("Task {number}"),
                "status": status, "priority": "medium", "created_at": number,
                "updated_at": number, "handle": format!("TASK-{number}"),
            });
            db.insert("INTO tasks", row).await?;
            if has_attempt {
                attempt(db, task, number).await?;
            }
        }
        Ok(())
    });
    fill.await.unwrap();
    project
}

async fn attempt(db: Db<'_>, task: TaskId, number: usize) -> Result<()> {
    let (attempt, session) = (AttemptId::new(), SessionId::new());
    let state = if number.is_multiple_of(10) { State::Failed } else { State::Completed };
    let row = json!({
        "attempt_id": attempt, "task_id": task, "branch": "b", "folder": attempt.to_string(),
        "executor": "fake", "phase": "settled", "state": state, "epoch": 1, "revision": number,
        "created_at": number, "updated_at": number,
    });
    db.insert("INTO attempts", row).await?;
    let row = json!({
        "session_id": session, "attempt_id": attempt, "executor": "fake", "created_at": number,
    });
    db.insert("INTO sessions", row).await?;
    for turn in 1..=3 {
        let row = json!({
            "process_id": ProcessId::new(), "session_id": session, "attempt_id": attempt,
            "run_reason": "coding_agent", "turn": turn, "prompt": "p", "status": "completed",
            "created_at": number, "ended_at": number, "closed": 1,
            "failure_summary": "exit code 3", "usage": json!({
                "input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5}).to_string(),
        });
        db.insert("INTO processes", row).await?;
    }
    Ok(())
}

/// How SQLite reads for a statement: a line for each loop.
async fn plan(store: &Store, sql: &str, values: impl serde::Serialize) -> Vec<String> {
    let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    let rows: Vec<(i64, i64, i64, String)> =
        store.read(async |db| db.all(sql, values).await).await.unwrap();
    rows.into_iter().map(|(_, _, _, detail)| detail).collect()
}

#[tokio::test]
async fn what_pages_read_is_found_by_indexes() {
    if !stores::is_sqlite() {
        return;
    }
    let (store, _dir) = scratch().await;
    let none: Option<ProjectId> = None;
    let plans = [
        ("open tasks", plan(&store, TASK_FACTS, (none,)).await),
        ("tasks not begun", plan(&store, UNBEGUN, (none, 10)).await),
        ("how many of those", plan(&store, UNBEGUN_COUNT, (none,)).await),
        ("their attempts", plan(&store, ATTEMPT_FACTS, (none,)).await),
        ("closed tasks", plan(&store, CLOSED, (none, 10)).await),
        ("how many closed tasks", plan(&store, CLOSED_COUNT, (none,)).await),
        ("approvals", plan(&store, PENDING, (none,)).await),
        ("task lines", plan(&store, TASK_LINES, ("[]",)).await),
        ("failed checks", plan(&store, FAILED_CHECKS, ("[]",)).await),
        ("conflict paths", plan(&store, CONFLICT_PATHS, ("[]",)).await),
        ("outcomes", plan(&store, OUTCOMES, ("t", 10)).await),
        ("usage", plan(&store, USAGE, (0, 1)).await),
    ];
    for (what, plan) in plans {
        // What is read in full is in memory, small, or an index of exactly what is meant.
        let is_meant = |line: &str| {
            let of = ["live", "o", "e", "j", "projects", "open", "found", "asking"];
            let indexes = ["closed_tasks", "open_questions", "pending_approvals"];
            line.split(' ').nth(1).is_some_and(|name| of.contains(&name))
                || indexes.iter().any(|index| line.contains(&format!("INDEX {index}")))
        };
        let slow = plan.iter().filter(|line| line.starts_with("SCAN") && !is_meant(line));
        let slow: Vec<_> = slow.collect();
        assert!(slow.is_empty(), "{what}: {slow:?} of {plan:#?}");
        assert!(!plan.iter().any(|line| line.contains("AUTOMATIC")), "{what}: {plan:#?}");
    }
}

#[tokio::test]
async fn a_large_board_is_read_whole_and_each_task_once() {
    let (store, _dir) = scratch().await;
    let project = fill(&store).await;
    let facts = store.open_facts(Some(project)).await.unwrap();
    assert_eq!(facts.tasks.len(), ATTEMPTS - ATTEMPTS / 100);
    assert_eq!(facts.attempts.len(), ATTEMPTS - ATTEMPTS / 100);
    let (unbegun, first) = store.unbegun_tasks(Some(project), 5).await.unwrap();
    assert_eq!(unbegun, (TASKS - ATTEMPTS) - (TASKS - ATTEMPTS) / 100);
    assert!(first.is_sorted_by_key(|task| std::cmp::Reverse(task.task_id)));
    let is_waiting = |task| place(task, &[]).0 == crate::api::window::Column::Waiting;
    assert!(first.len() == 5 && first.iter().all(is_waiting));
    let (closed, newest) = store.closed_tasks(None, 5).await.unwrap();
    assert_eq!((closed, newest.len()), (TASKS / 100, 5));
    assert!(newest.is_sorted_by_key(|task| std::cmp::Reverse(task.updated_at)));
    let mut failed = 0;
    for task in &facts.tasks {
        let attempts: Vec<AttemptFacts> =
            facts.attempts.iter().filter(|it| it.task_id == task.task_id).cloned().collect();
        let needs = needs(task, &attempts);
        failed +=
            needs.iter().filter(|it| **it == Some(crate::api::window::NeedKind::Failed)).count();
        place(task, &attempts);
    }
    assert_eq!(failed, ATTEMPTS / 10);
    assert!(store.open_facts(Some(ProjectId::new())).await.unwrap().tasks.is_empty());
    let lines: Vec<TaskId> = facts.tasks.iter().take(100).map(|task| task.task_id).collect();
    assert_eq!(store.task_lines(&lines).await.unwrap().len(), 100);
    let usage = store.usage_since(Timestamp::from_millis(0), 1_000).await.unwrap();
    assert_eq!(usage.len(), 1);
    assert_eq!((usage[0].turns, usage[0].input_tokens), (3 * 1_000, 3 * 10_000));
    assert!((usage[0].cost_usd - 1_500.0).abs() < 1e-6);
}

#[tokio::test]
async fn every_open_question_is_found_and_an_answered_one_is_not() {
    let (store, _dir) = scratch().await;
    let project = ProjectId::new();
    let ids: Vec<String> = (0..300).map(|_| QuestionId::new().to_string()).collect();
    let write = store.write(RetryBudget::Long, "ask", async |db| {
        let row = json!({"project_id": project, "name": "p", "created_at": 1, "updated_at": 1});
        db.insert("INTO projects", row).await?;
        for (number, id) in ids.iter().enumerate() {
            let status = if number == 0 { "answered" } else { "open" };
            let row = json!({
                "question_id": id, "project_id": project, "handle": format!("Q-{number}"),
                "question": "why", "normal": "why", "priority": "high", "status": status,
                "answered_by": "person", "asked_at": number,
            });
            db.insert("INTO questions", row).await?;
        }
        Ok(())
    });
    write.await.unwrap();
    for of in [None, Some(project)] {
        let mut open = store.open_questions(of).await.unwrap();
        open.sort_by_key(|(_, asked_at)| *asked_at);
        let open: Vec<String> = open.into_iter().map(|(id, _)| id).collect();
        assert_eq!(open, ids[1..]);
    }
    assert!(store.open_questions(Some(ProjectId::new())).await.is_err());
    let found = store.open_questions_by_id(&ids[..2]).await.unwrap();
    let found: Vec<&str> = found.iter().map(|it| it.question_id.as_str()).collect();
    assert_eq!(found, [&ids[1]]);
}

#[tokio::test]
async fn a_finish_says_what_did_not_pass_or_merge_until_the_next_turn() {
    let (store, _dir) = scratch().await;
    let project = fill(&store).await;
    let facts = store.open_facts(Some(project)).await.unwrap();
    let attempts: Vec<AttemptId> = facts.attempts.iter().take(2).map(|it| it.attempt_id).collect();
    let write = store.write(RetryBudget::Long, "finish", async |db| {
        let task = facts.attempts[0].task_id;
        for (attempt, state) in attempts.iter().zip(["checks_failed", "conflicts"]) {
            let receipt = json!({"ending": {"conflicts": {"repo": "app", "at": null,
                "conflicts": [{"path": "app/a", "kind": "contents"}]}}});
            let row = json!({
                "finish_id": FinishId::new(), "attempt_id": attempt, "state": state,
                "request": json!({"action": "merge"}).to_string(),
                "receipt": receipt.to_string(), "created_at": 1, "ended_at": 2,
            });
            db.insert("INTO finishes", row).await?;
        }
        let run = CheckRunId::new();
        let row = json!({
            "run_id": run, "task_id": task, "attempt_id": attempts[0], "repos": "[]",
            "checks": "[]", "claims_passed": 0, "verdict": "rework", "planned_at": 1,
        });
        db.insert("INTO check_runs", row).await?;
        for (name, outcome) in [("lint", "passed"), ("test", "failed")] {
            let row = json!({
                "run_id": run, "name": name, "command": "make", "outcome": outcome,
                "exit_code": 2, "duration_ms": 1, "ended_at": 2,
            });
            db.insert("INTO receipts", row).await?;
        }
        Ok(())
    });
    write.await.unwrap();
    let facts = store.open_facts(None).await.unwrap();
    let states = attempts.iter().map(|id| {
        let of = facts.attempts.iter().find(|it| it.attempt_id == *id);
        of.and_then(|it| it.finish_state)
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [Some(FinishState::ChecksFailed), Some(FinishState::Conflicts)]
    );
    let checks = store.failed_checks(&attempts).await.unwrap();
    let checks: Vec<_> = checks.iter().map(|(id, check)| (*id, check.name.as_str())).collect();
    assert_eq!(checks, [(attempts[0], "test")]);
    let paths = store.conflict_paths(&attempts).await.unwrap();
    assert_eq!(paths, [(attempts[1], "app/a".to_owned())]);
}
