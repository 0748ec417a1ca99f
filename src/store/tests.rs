//! The store over real databases in scratch folders.

use futures_util::FutureExt;
use provost_actors::event::{Action, ActionKind, ProcessStatus, RunReason, Timestamp};
use provost_actors::executor::Request;
use provost_actors::gateway::NewRepo;
use provost_actors::host::LOCAL;
use provost_actors::ids::{
    ApprovalId, AttemptId, CheckRunId, CommentId, ProcessId, ProjectId, QueueId, ReviewId,
    SessionId, TaskId,
};
use provost_actors::journal::checks::{CheckCommand, PlannedCheck, Submission};
use provost_actors::journal::{
    Approval, ApprovalStatus, Approvals, Attempt, AttemptRepo, AttemptStarted, Attempts, Begun,
    Change, CheckVerdict, Checks, Ending, Finish, FinishAction, FinishRequest, FinishState,
    Finishes, FollowUp, FollowUpAction, FollowedUp, Intent, Key, Next, Outcome, Phase, Probe,
    Probes, Process, Processes, Receipt, RepoRequest, Requests, Review, Sessions, Snapshots, State,
    Task, Tasks, TurnSnapshot, Turnover, WaitingOn,
};
use provost_actors::workspace::merge::{Signature, Strategy};
use serde_json::json;

use super::*;
use crate::api::attempts::AttemptPhase;
use crate::api::commands::IdKind;
use crate::api::comments::{CommentState, Side};
use crate::api::projects::RepoSummary;
use crate::api::sessions::{MessageRole, SessionMessage};
use crate::api::tasks::{CreateTaskInput, ListTasksInput, TaskStatus, UpdateTaskInput};

mod histories;
mod hosts;
mod owners;
mod placement;
mod retention;
mod upgrade;

struct Scratch {
    store: Store,
    dir: tempfile::TempDir,
}

impl std::ops::Deref for Scratch {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

async fn scratch() -> Scratch {
    let dir = tempfile::tempdir().unwrap();
    let store = scratch::open(dir.path()).await;
    Scratch { store, dir }
}

impl Store {
    /// All connections for reading: every read waits until they are dropped.
    pub async fn hold_reads(&self) -> Vec<Connection> {
        let all = (0..4).map(|_| self.reader.acquire());
        futures_util::future::try_join_all(all).await.unwrap()
    }
}

fn key(id: &str, hash: &str) -> Key {
    Key {
        tool: "create_task",
        request_id: id.into(),
        payload_hash: hash.into(),
        resolved_hash: None,
    }
}

fn stop() -> Intent {
    Intent::StopAttempt { attempt_id: AttemptId::new(), force: false }
}

fn repo(name: &str) -> NewRepo {
    NewRepo {
        name: name.into(),
        path: format!("/src/{name}"),
        default_target_branch: "main".into(),
        remotes: std::collections::BTreeMap::from([("origin".into(), "https://h/o/r".into())]),
    }
}

async fn project(store: &Store) -> ProjectId {
    store.create_project(None, "p", &[repo("a")]).await.unwrap().value.project_id
}

fn new_task(project_id: ProjectId, depends_on: &[TaskId]) -> CreateTaskInput {
    let task = json!({
        "project_id": project_id, "title": "t", "priority": "high", "depends_on": depends_on,
    });
    serde_json::from_value(task).unwrap()
}

fn change(task: TaskId, mut fields: serde_json::Value) -> UpdateTaskInput {
    fields["task_id"] = json!(task);
    serde_json::from_value(fields).unwrap()
}

async fn task(store: &Store, project: ProjectId) -> TaskId {
    store.create_task(None, &new_task(project, &[])).await.unwrap().0.value
}

async fn attempt(store: &Store, project_id: ProjectId, task: &Task, phase: Phase) -> Attempt {
    let repos = store.repos(project_id).await.unwrap();
    let attempt = new_attempt(&repos[0], project_id, task, phase);
    store.record_start(None, &attempt, &started(&attempt)).await.unwrap();
    attempt
}

fn new_attempt(repo: &RepoSummary, project_id: ProjectId, task: &Task, phase: Phase) -> Attempt {
    let attempt_id = AttemptId::new();
    Attempt {
        is_answer: false,
        attempt_id,
        task_id: task.task_id,
        task_title: task.title.clone(),
        project_id,
        project_name: "p".into(),
        priority: task.priority,
        branch: format!("provost/{}-t", attempt_id.short()),
        folder: format!("{}-t", attempt_id.short()),
        repos: vec![AttemptRepo {
            repo_id: repo.repo_id,
            name: repo.repo_name.clone(),
            path: repo.path.clone(),
            board_path: repo.path.clone(),
            target_branch: "main".into(),
            base_commit: "c0ffee".into(),
        }],
        executor: "fake".into(),
        host: LOCAL.into(),
        labels: vec![],
        memory: 0,
        parent: None,
        fork: None,
        session_id: SessionId::new(),
        phase,
        state: if phase == Phase::Queued { State::Idle } else { State::Running },
        epoch: 1,
        ended_as: None,
        leftovers: vec![],
        waiting: vec![],
        held: false,
        finish: None,
        lends: None,
        dev_server: None,
        snapshot_due: false,
        most_held: None,
        placed_epoch: 0,
        process: Process {
            process_id: ProcessId::new(),
            run_reason: RunReason::CodingAgent,
            turn: 1,
            prompt: "say hi".into(),
            variant: None,
            queue_id: None,
            executor_session_id: None,
            status: ProcessStatus::Planned,
            exit_code: None,
            exit_signal: None,
        },
    }
}

fn started(attempt: &Attempt) -> AttemptStarted {
    AttemptStarted {
        attempt_id: attempt.attempt_id,
        task_id: attempt.task_id,
        workspace_branch: attempt.branch.clone(),
        session_id: attempt.session_id,
        execution_process_id: None,
        state: attempt.state,
        phase: attempt.phase,
    }
}

async fn advance(store: &Store, attempt: &Attempt, change: &Change) {
    let process = attempt.process.process_id;
    store.advance(attempt.attempt_id, attempt.epoch, process, change).await.unwrap();
}

fn failed() -> Change {
    let outcome = Outcome {
        status: ProcessStatus::Killed,
        exit_code: None,
        exit_signal: Some(9),
        failure_summary: Some("killed".into()),
        error_type: None,
        final_message: None,
        usage: None,
        quota: None,
        at: Timestamp::now(),
    };
    Change::Settled(outcome, Box::default())
}

#[tokio::test]
async fn the_same_call_has_one_effect_and_one_answer() {
    let store = scratch().await;
    let project = project(&store).await;
    let new = new_task(project, &[]);
    let key = key("r", "a");
    let calls: Vec<_> = (0..20).map(|_| store.create_task(Some(&key), &new)).collect();
    let answers = futures_util::future::join_all(calls).await;
    let first = answers[0].as_ref().unwrap().0.value;
    let fresh = answers.iter().filter(|answer| !answer.as_ref().unwrap().0.deduplicated).count();
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().0.value == first));
    assert_eq!(fresh, 1);
    assert_eq!(store.recall(&key).await.unwrap(), Some(json!(first)));
}

#[tokio::test]
async fn another_payload_under_the_same_id_is_a_conflict_and_a_refusal_uses_up_nothing() {
    let store = scratch().await;
    let project = project(&store).await;
    let unknown = new_task(ProjectId::new(), &[]);
    let refused = store.create_task(Some(&key("r", "a")), &unknown).await.unwrap_err();
    assert_eq!(refused.code, Code::ProjectNotFound);
    store.create_task(Some(&key("r", "b")), &new_task(project, &[])).await.unwrap();
    let conflict = store.create_task(Some(&key("r", "c")), &unknown).await.unwrap_err();
    assert_eq!(conflict.code, Code::IdempotencyConflict);
}

#[tokio::test]
async fn an_open_intent_is_brought_about_again_and_then_answered() {
    let store = scratch().await;
    let key = key("r", "a");
    assert_eq!(store.begin(&key, &stop()).await.unwrap(), Begun::Go);
    assert_eq!(store.begin(&key, &stop()).await.unwrap(), Begun::GoAgain);
    store.complete(&key, json!({"stopped": true})).await.unwrap();
    assert_eq!(
        store.begin(&key, &stop()).await.unwrap(),
        Begun::Answered(json!({"stopped": true}))
    );
    store.abandon(&key).await.unwrap();
    assert!(store.recall(&key).await.unwrap().is_some(), "an answer is not forgotten");
}

#[tokio::test]
async fn a_project_takes_each_repository_name_once() {
    let store = scratch().await;
    let project = project(&store).await;
    let clash = store.add_repo(None, project, &repo("a")).await.unwrap_err();
    assert_eq!(clash.code, Code::InvalidArgument);
    store.add_repo(None, project, &repo("b")).await.unwrap();
    let names: Vec<_> =
        store.repos(project).await.unwrap().into_iter().map(|repo| repo.repo_name).collect();
    assert_eq!(names, ["a", "b"]);
    let missing = store.add_repo(None, ProjectId::new(), &repo("c")).await.unwrap_err();
    assert_eq!(missing.code, Code::ProjectNotFound);
}

#[tokio::test]
async fn pages_of_tasks_and_projects_hold_each_once() {
    let store = scratch().await;
    let first = project(&store).await;
    for _ in 0..6 {
        project(&store).await;
        task(&store, first).await;
    }
    let (mut seen, mut before) = (vec![], None);
    loop {
        let page = store.projects(3, before).await.unwrap();
        seen.extend(page.items.iter().map(|view| view.project_id));
        before = seen.last().copied();
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "newest first");
    let mut input: ListTasksInput =
        serde_json::from_value(json!({"project_id": first, "limit": 4})).unwrap();
    let page = store.tasks(&input, None).await.unwrap();
    assert!(page.has_more);
    let last = page.items.last().map(|task| task.task_id);
    let rest = store.tasks(&input, last).await.unwrap();
    assert_eq!((page.items.len(), rest.items.len(), rest.has_more), (4, 2, false));
    input.status = Some(TaskStatus::Done);
    assert!(store.tasks(&input, None).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_task_that_becomes_free_counts_as_updated() {
    let store = scratch().await;
    let project = project(&store).await;
    let blocker = task(&store, project).await;
    let waits = store.create_task(None, &new_task(project, &[blocker])).await.unwrap().0.value;
    store.change("UPDATE tasks SET standing = 'blocked', updated_at = 0", ()).await;
    store.delete_task(None, blocker).await.unwrap();
    let input = json!({"project_id": project, "updated_since": "2020-01-01T00:00:00Z"});
    let input: ListTasksInput = serde_json::from_value(input).unwrap();
    let found = store.tasks(&input, None).await.unwrap().items;
    assert_eq!(found.iter().map(|task| task.task_id).collect::<Vec<_>>(), [waits]);
}

#[tokio::test]
async fn dependencies_are_of_the_same_project_and_never_run_in_a_circle() {
    let store = scratch().await;
    let here = project(&store).await;
    let elsewhere = project(&store).await;
    let foreign = task(&store, elsewhere).await;
    let refused = store.create_task(None, &new_task(here, &[foreign])).await.unwrap_err();
    assert_eq!(refused.code, Code::TaskNotFound);
    let first = task(&store, here).await;
    let second = store.create_task(None, &new_task(here, &[first])).await.unwrap().0.value;
    let back = change(first, json!({"depends_on": [second]}));
    let circle = store.update_task(None, &back).await.unwrap_err();
    assert_eq!(circle.code, Code::DependencyCycle);
    assert_eq!(circle.details["cycle"].as_array().unwrap().len(), 3);
    let unmet = store.start_context(second).await.unwrap().unmet;
    assert_eq!(unmet.iter().map(|task| task.task_id).collect::<Vec<_>>(), [first]);
    let done = change(first, json!({"status": "done"}));
    store.update_task(None, &done).await.unwrap();
    assert_eq!(store.start_context(second).await.unwrap().unmet, []);
}

#[tokio::test]
async fn a_task_is_deleted_once_nothing_of_it_runs_and_its_attempts_stay_readable() {
    let store = scratch().await;
    let project = project(&store).await;
    let id = task(&store, project).await;
    let of = store.start_context(id).await.unwrap().task;
    let running = attempt(&store, project, &of, Phase::Preparing).await;
    let busy = store.delete_task(None, id).await.unwrap_err();
    assert_eq!(busy.code, Code::AttemptRunning);
    assert_eq!(busy.details["attempt_id"], running.attempt_id.to_string());
    advance(&store, &running, &failed()).await;
    assert_eq!(store.delete_task(None, id).await.unwrap().value, id);
    assert_eq!(store.delete_task(None, id).await.unwrap().value, id);
    assert_eq!(store.task(id).await.unwrap_err().code, Code::TaskNotFound);
    store.record_snapshot(running.attempt_id, 1, &[], &[]).await.unwrap();
    assert_eq!(store.status(running.attempt_id).await.unwrap().overview.line.state, State::Failed);
    assert_eq!(store.attempts(id, 5, None).await.unwrap().items.len(), 1);
    let unknown = store.delete_task(None, TaskId::new()).await.unwrap_err();
    assert_eq!(unknown.code, Code::TaskNotFound);
}

#[tokio::test]
async fn an_attempt_needs_an_owner_until_its_process_is_closed() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let mut one = attempt(&store, project, &of, Phase::Preparing).await;
    let running = Change::Running {
        pid: 7,
        start_time: 9,
        boot_id: "b".into(),
        limits: vec![],
        sandbox: None,
    };
    advance(&store, &one, &running).await;
    advance(&store, &one, &Change::ExecutorSession(Some("own".into()))).await;
    one.phase = Phase::Running;
    one.process.status = ProcessStatus::Running;
    one.process.executor_session_id = Some("own".into());
    assert_eq!(store.unsettled().await.unwrap(), [one.clone()]);
    advance(&store, &one, &failed()).await;
    assert_eq!(store.unsettled().await.unwrap().len(), 1, "its leftovers may be alive");
    advance(&store, &one, &Change::Closed).await;
    assert!(store.unsettled().await.unwrap()[0].snapshot_due, "its turn has no snapshot");
    store.record_snapshot(one.attempt_id, 1, &[], &[]).await.unwrap();
    assert_eq!(store.unsettled().await.unwrap(), []);
}

#[tokio::test]
async fn a_process_that_has_ended_waits_for_no_permission() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let attempt = attempt(&store, project, &of, Phase::Running).await;
    let ask = |key: &str| {
        let action = Action { kind: ActionKind::Other, detail: serde_json::Map::new() };
        let request = Request {
            key: key.to_owned(),
            tool_call_id: None,
            tool_name: "Bash".into(),
            text: "Bash make".into(),
            action,
            question: None,
            context: json!(null),
        };
        Approval {
            approval_id: ApprovalId::new(),
            attempt_id: attempt.attempt_id,
            process_id: attempt.process.process_id,
            request,
            of_attempt: false,
            status: ApprovalStatus::Pending,
            reason: None,
            asked_at: Timestamp::now(),
            expires_at: None,
            decided_at: None,
        }
    };
    let early = store.ask(&ask("early")).await.unwrap();
    assert_eq!(early.status, ApprovalStatus::Pending);
    advance(&store, &attempt, &failed()).await;
    let early = store.approval(early.approval_id).await.unwrap().unwrap();
    let late = store.ask(&ask("late")).await.unwrap();
    let withdrawn = ApprovalStatus::Withdrawn;
    assert_eq!((early.status, late.status), (withdrawn, withdrawn));
    let status = store.status(attempt.attempt_id).await.unwrap();
    assert_eq!(status.overview.pending_approvals, 0);
}

#[tokio::test]
async fn one_taken_out_of_the_queue_has_run_nothing_and_needs_no_owner() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let queued = attempt(&store, project, &of, Phase::Queued).await;
    let status = store.status(queued.attempt_id).await.unwrap();
    assert_eq!(
        (status.overview.line.state, status.latest_execution_process_id),
        (State::Idle, None)
    );
    assert_eq!(store.unsettled().await.unwrap().len(), 1);
    advance(
        &store,
        &queued,
        &Change::Unqueued { phase: Phase::Idle, state: State::Idle, returned: None },
    )
    .await;
    assert_eq!(store.unsettled().await.unwrap(), []);
}

fn follow_up(prompt: &str) -> FollowUp {
    let queue_id = QueueId::new();
    FollowUp { queue_id, prompt: prompt.into(), variant: None, queued_at: Timestamp::now() }
}

async fn queue(store: &Store, key: Option<&Key>, attempt: &Attempt, turnover: Turnover) {
    let answer = FollowedUp {
        action: FollowUpAction::Queue,
        attempt_id: attempt.attempt_id,
        session_id: attempt.session_id,
        execution_process_id: None,
        held: turnover.held,
        length: 1,
        waiting: vec![],
        review: None,
    };
    store.record_follow_up(key, attempt, &turnover, &answer).await.unwrap();
}

async fn commented(store: &Store, attempt: AttemptId, by: &Author) -> CommentId {
    let comment = NewComment {
        repo: "a".into(),
        path: "a/f".into(),
        file: "a/f".into(),
        side: Side::New,
        first_line: 1,
        last_line: 2,
        turn: 1,
        blob_id: "b".into(),
        quoted: "x".into(),
        text: "t".into(),
    };
    store.add_comment(None, attempt, by, &comment).await.unwrap().value.comment_id
}

async fn states(store: &Store, attempt: AttemptId) -> Vec<(CommentState, Option<u32>)> {
    let kept = store.comments(attempt).await.unwrap();
    kept.iter().map(|comment| (comment.to_output().state, comment.delivered)).collect()
}

#[tokio::test]
async fn comments_are_sent_with_their_follow_up_or_not_at_all() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Preparing).await;
    let id = one.attempt_id;
    let person = Author { name: "person".into(), attempt: None };
    let (first, second) =
        (commented(&store, id, &person).await, commented(&store, id, &person).await);
    let edit = Amendment::Edit("better".into());
    store.amend_comment(None, id, &person, second, &edit).await.unwrap();

    let sending = |added: &FollowUp, drafts: Vec<(CommentId, u32)>| Turnover {
        added: Some(added.clone()),
        review: Some(Review {
            review_id: ReviewId::new(),
            queue_id: added.queue_id,
            submitted_at: Timestamp::now(),
            message: None,
            drafts,
        }),
        ..Turnover::default()
    };
    let added = follow_up("a review");
    let answer = FollowedUp {
        action: FollowUpAction::Queue,
        attempt_id: id,
        session_id: one.session_id,
        execution_process_id: None,
        held: false,
        length: 1,
        waiting: vec![],
        review: None,
    };
    // The second one was edited since.
    let stale = sending(&added, vec![(first, 1), (second, 1)]);
    let refused = store.record_follow_up(None, &one, &stale, &answer).await.unwrap_err();
    assert!(refused.details.contains_key(DRAFTS_CHANGED), "{refused:?}");
    assert_eq!(states(&store, id).await, [(CommentState::Draft, None); 2]);
    assert!(store.attempt(id).await.unwrap().unwrap().waiting.is_empty());

    let revision = store.status(id).await.unwrap().revision;
    queue(&store, None, &one, sending(&added, vec![(first, 1), (second, 2)])).await;
    assert_eq!(states(&store, id).await, [(CommentState::Sent, None); 2]);
    assert!(store.status(id).await.unwrap().revision > revision);
    let sent = store.amend_comment(None, id, &person, first, &Amendment::Remove).await;
    assert_eq!(sent.unwrap_err().code, Code::InvalidArgument);
    // It is dropped.
    let taken = vec![added.queue_id];
    queue(&store, None, &one, Turnover { taken, ..Turnover::default() }).await;
    assert_eq!(states(&store, id).await, [(CommentState::Draft, None); 2]);

    // It begins, and ends before its process runs; the next one runs.
    let mut one = one;
    for runs in [false, true] {
        let drafts = store.comments(id).await.unwrap();
        let drafts = drafts.iter().map(|it| (it.comment_id, it.version)).collect();
        let added = follow_up("a review");
        let process = Process {
            process_id: ProcessId::new(),
            turn: one.process.turn + 1,
            queue_id: Some(added.queue_id),
            ..one.process.clone()
        };
        let begun = Some(Next { process: process.clone(), has_slot: true });
        let turnover = Turnover { added: None, begun, ..sending(&added, drafts) };
        queue(&store, None, &one, turnover).await;
        one = store.attempt(id).await.unwrap().unwrap();
        assert_eq!(one.process.queue_id, Some(added.queue_id));
        assert_eq!(states(&store, id).await, [(CommentState::Sent, None); 2]);
        let exit_signal = runs.then_some(9);
        let Change::Settled(outcome, turnover) = failed() else { unreachable!() };
        let settled = Change::Settled(Outcome { exit_signal, ..outcome }, turnover);
        advance(&store, &one, &settled).await;
        one = store.attempt(id).await.unwrap().unwrap();
    }
    let turn = Some(one.process.turn);
    assert_eq!(states(&store, id).await, [(CommentState::Delivered, turn); 2]);
    let reviews = store.reviews(id).await.unwrap();
    assert_eq!((reviews.len(), reviews[0].turn), (1, turn));

    // An agent changes its own comments only.
    let agent = Author { name: "agent".into(), attempt: Some(id) };
    let refused = store.amend_comment(None, id, &agent, first, &Amendment::Resolve).await;
    assert_eq!(refused.unwrap_err().code, Code::NotPermitted);
    store.amend_comment(None, id, &person, first, &Amendment::Resolve).await.unwrap();
    assert_eq!(states(&store, id).await[0].0, CommentState::Resolved);
    assert!(store.reaches(id, Named::by("comment_id", "t").unwrap(), "x").await.is_ok());
}

#[tokio::test]
async fn a_turn_ends_and_the_next_begins_in_one_stroke() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Preparing).await;
    let (first, second) = (follow_up("first"), follow_up("second"));
    for added in [&first, &second, &first] {
        let key = Key { tool: "follow_up", ..key(&added.prompt, "a") };
        let turnover = Turnover { added: Some(added.clone()), ..Turnover::default() };
        queue(&store, Some(&key), &one, turnover).await;
    }
    let whole = store.attempt(one.attempt_id).await.unwrap().unwrap();
    assert_eq!(whole.waiting, [first.clone(), second.clone()]);

    let process = Process {
        process_id: ProcessId::new(),
        turn: 2,
        prompt: "first".into(),
        ..one.process.clone()
    };
    let before = store.status(one.attempt_id).await.unwrap();
    let Change::Settled(outcome, _) = failed() else { unreachable!() };
    let turnover = Turnover {
        taken: vec![first.queue_id],
        begun: Some(Next { process: process.clone(), has_slot: true }),
        ..Turnover::default()
    };
    advance(&store, &one, &Change::Settled(outcome, Box::new(turnover))).await;
    let after = store.status(one.attempt_id).await.unwrap();
    assert_eq!(
        (after.overview.line.state, after.overview.line.phase),
        (State::Running, AttemptPhase::Preparing)
    );
    assert_eq!((after.settled_revision, after.queued_follow_ups), (0, 1));
    assert!(after.revision > before.revision);
    let whole = store.attempt(one.attempt_id).await.unwrap().unwrap();
    assert_eq!((whole.epoch, whole.process.process_id), (2, process.process_id));
    assert_eq!((whole.waiting, whole.ended_as), (vec![second], Some(State::Failed)));
    let leftovers: Vec<_> = whole.leftovers.iter().map(|process| process.process_id).collect();
    assert_eq!(leftovers, [one.process.process_id], "its process has not been closed");
}

#[tokio::test]
async fn a_change_of_another_epoch_is_refused_and_changes_nothing() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Preparing).await;
    let process = one.process.process_id;
    store.advance(one.attempt_id, 2, process, &failed()).await.unwrap_err();
    assert_eq!(
        store.status(one.attempt_id).await.unwrap().overview.line.phase,
        AttemptPhase::Preparing
    );
}

#[tokio::test]
async fn an_id_is_found_by_a_piece_of_its_start_or_its_end() {
    let store = scratch().await;
    let project = project(&store).await.to_string();
    let ends = [&project[..13], &project[28..], &project[..], &project.to_uppercase()[..]];
    for piece in ends {
        let found = store.resolve(piece, &[IdKind::Task, IdKind::Project]).await.unwrap();
        assert_eq!(found.len(), 1, "{piece}");
        assert_eq!(found[0].id, project);
    }
    for piece in ["", "%", "zzzzzzzz", "' OR 1=1"] {
        assert!(store.resolve(piece, &[IdKind::Project]).await.unwrap().is_empty(), "{piece}");
    }
}

#[tokio::test]
async fn of_many_things_with_a_piece_in_their_id_the_newest_are_found() {
    let store = scratch().await;
    for _ in 0..20 {
        project(&store).await;
    }
    let newest = project(&store).await;
    let found = store.resolve("0", &[IdKind::Project]).await.unwrap();
    assert_eq!((found.len(), &found[0].id), (20, &newest.to_string()));
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_alone() {
    let scratch = scratch().await;
    let sql = "INSERT INTO _sqlx_migrations
                   (version, description, success, checksum, execution_time)
         SELECT 9999, 'of tomorrow', success, checksum, 0 FROM _sqlx_migrations LIMIT 1";
    scratch.store.change(sql, ()).await;
    scratch.store.close().await;
    let opened = scratch::try_open(scratch.dir.path(), TimesToLive::default()).await;
    assert!(matches!(opened, Err(OpenError::Newer(9999))));
}

#[tokio::test]
async fn a_database_of_a_former_build_is_adopted_or_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("provost.db");
    let open = async || Store::open(&path, TimesToLive::default()).await;
    let store = open().await.unwrap();
    let project = project(&store).await;
    let more = "INSERT INTO _sqlx_migrations
             (version, description, success, checksum, execution_time)
         SELECT v.value, 'former', success, checksum, 0
         FROM _sqlx_migrations, json_each('[1, 20, 35]') v";
    let last = "UPDATE _sqlx_migrations SET checksum = unhex(
             '4481e9c096251d9fd7b31f058da8109ecc3deb229d23e6434d1efed0f2f6ec85' ||
             '32b5e217c276b316fb6093274f751e6e') WHERE version = 36";
    for sql in [more, last] {
        store.change(sql, ()).await;
    }
    store.close().await;
    for _ in 0..2 {
        let store = open().await.unwrap();
        let sql = "SELECT version FROM _sqlx_migrations";
        let left: Vec<i64> = store.read(async |db| db.all(sql, ()).await).await.unwrap();
        assert_eq!(left, [36]);
        assert!(store.start_context(task(&store, project).await).await.is_ok());
        store.close().await;
    }
    let store = open().await.unwrap();
    store.change("UPDATE _sqlx_migrations SET version = 35", ()).await;
    store.close().await;
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(open().await, Err(OpenError::BeforeFirst(former::BeforeFirst(35)))));
    assert!(std::fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn answers_and_intents_are_forgotten_each_after_its_own_time() {
    let dir = tempfile::tempdir().unwrap();
    let times = TimesToLive { intents: Some(Duration::ZERO), ..TimesToLive::default() };
    let store = scratch::try_open(dir.path(), times).await.unwrap();
    store.begin(&key("open", "a"), &stop()).await.unwrap();
    store.begin(&key("answered", "a"), &stop()).await.unwrap();
    store.complete(&key("answered", "a"), json!(1)).await.unwrap();
    while store.prune().await.unwrap() == 0 {}
    assert_eq!(
        store.begin(&key("open", "b"), &stop()).await.unwrap(),
        Begun::Go,
        "another payload"
    );
    assert_eq!(store.recall(&key("answered", "a")).await.unwrap(), Some(json!(1)));
}

#[tokio::test]
async fn old_answers_are_forgotten_also_when_nothing_else_can_be_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let now = Some(Duration::ZERO);
    let times = TimesToLive { answers: now, intents: now, settled: now, ..TimesToLive::default() };
    let store = scratch::try_open(dir.path(), times).await.unwrap();
    store.begin(&key("answered", "a"), &stop()).await.unwrap();
    store.complete(&key("answered", "a"), json!(1)).await.unwrap();
    store.change("UPDATE requests SET created_at = 0", ()).await;
    store.change("DROP TABLE base_bundles", ()).await;
    store.prune().await.unwrap_err();
    let sql = "SELECT count(*) FROM requests";
    let left: i64 = store.read(async |db| db.one(sql, ()).await).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn every_change_of_an_attempt_wakes_its_watchers_and_raises_its_revision() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let other = attempt(&store, project, &of, Phase::Queued).await;
    let one = attempt(&store, project, &of, Phase::Queued).await;
    let watches = [&other, &one].map(|attempt| store.watch(&[attempt.attempt_id]));
    let running = Change::Running {
        pid: 7,
        start_time: 9,
        boot_id: "b".into(),
        limits: vec![],
        sandbox: None,
    };
    let mut seen = store.newest_revision().await.unwrap();
    for change in [Change::Preparing, running, Change::Stopping, failed()] {
        advance(&store, &one, &change).await;
        assert!(watches[1].changed().now_or_never().is_some(), "{change:?}");
        let ids = [one.attempt_id, other.attempt_id];
        let statuses = store.statuses(&ids).await.unwrap();
        assert!(statuses.iter().map(|status| status.overview.line.attempt_id).eq(ids));
        assert!(statuses[0].revision > seen && statuses[1].revision < seen, "{change:?}");
        seen = statuses[0].revision;
        let settled = if matches!(change, Change::Settled(..)) { seen } else { 0 };
        assert_eq!(statuses[0].settled_revision, settled);
    }
    assert!(watches[0].changed().now_or_never().is_none());
    assert_eq!(store.newest_revision().await.unwrap(), seen);
    let unknown = AttemptId::new();
    let refused = store.statuses(&[one.attempt_id, unknown]).await.unwrap_err();
    assert_eq!(refused.details["attempt_id"], unknown.to_string());
}

#[tokio::test]
async fn a_turn_that_ends_is_due_a_snapshot_until_it_has_one() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Running).await;
    let id = one.attempt_id;
    assert_eq!(store.due_snapshot(id).await.unwrap(), None, "it has not ended");
    advance(&store, &one, &failed()).await;
    let due = store.due_snapshot(id).await.unwrap().unwrap();
    assert_eq!((due.turn, due.is_last), (1, true));
    let left = store.unsettled().await.unwrap();
    assert_eq!((left.len(), left[0].snapshot_due), (1, true), "its owner makes it");
    let snapshot = |commit: &str| TurnSnapshot {
        repo: "app".into(),
        commit_id: commit.into(),
        tree_id: "t".into(),
        base_id: "b".into(),
    };
    let watch = store.watch(&[id]);
    let before = store.status(id).await.unwrap();
    let shown = |row: &AttemptRow| (row.overview.line.phase, row.overview.line.waiting_on);
    assert_eq!(shown(&before), (AttemptPhase::Running, Some(WaitingOn::Snapshot)));
    assert!(!before.overview.line.stopped, "it has not settled");
    store.snapshot_failed(id, 1, "too large").await.unwrap();
    let failed = store.status(id).await.unwrap();
    assert_eq!(shown(&failed), (AttemptPhase::Settled, None));
    assert_eq!(failed.overview.snapshot_failed(), Some("too large"));
    assert!(failed.overview.line.stopped);
    let timeout = Duration::ZERO;
    let why = store.snapshot_stands(id, timeout).await.unwrap();
    assert_eq!(why.as_deref(), Some("too large"));
    store.record_snapshot(id, 1, &[snapshot("c")], &[]).await.unwrap();
    assert!(watch.changed().now_or_never().is_some(), "it has settled");
    let after = store.status(id).await.unwrap();
    assert!(after.settled_revision > before.settled_revision);
    assert_eq!((shown(&after).0, after.overview.snapshot_failed()), (AttemptPhase::Settled, None));
    assert_eq!(store.snapshot_stands(id, timeout).await.unwrap(), None);
    assert_eq!(store.due_snapshot(id).await.unwrap(), None);
    // Again, with another commit: the first one is kept.
    store.record_snapshot(id, 1, &[snapshot("d")], &[]).await.unwrap();
    assert_eq!(store.turn_snapshot(id, 1).await.unwrap(), [snapshot("c")]);
    assert_eq!(store.snapshot_turns(id).await.unwrap(), [1]);
    assert_eq!(store.turn_snapshot(id, 2).await.unwrap(), []);
}

#[tokio::test]
async fn a_snapshot_that_was_missed_is_not_due_for_ever() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Running).await;
    let id = one.attempt_id;
    let process = Process { process_id: ProcessId::new(), turn: 2, ..one.process.clone() };
    let next = Next { process, has_slot: true };
    let Change::Settled(outcome, _) = failed() else { unreachable!() };
    let turnover = Turnover { begun: Some(next.clone()), ..Turnover::default() };
    advance(&store, &one, &Change::Settled(outcome, Box::new(turnover))).await;
    let due = store.due_snapshot(id).await.unwrap().unwrap();
    assert_eq!((due.turn, due.is_last), (1, false), "the next turn has begun");
    let one = Attempt { epoch: 2, process: next.process, ..one };
    advance(&store, &one, &failed()).await;
    assert_eq!(store.due_snapshot(id).await.unwrap().unwrap().turn, 2);
    store.record_snapshot(id, 2, &[], &[]).await.unwrap();
    assert!(!store.attempt(id).await.unwrap().unwrap().snapshot_due);
    assert_eq!(store.snapshot_turns(id).await.unwrap(), [0; 0]);
}

#[tokio::test]
async fn a_pair_is_merged_once_and_both_know_of_its_conflict() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Running).await;
    let other = attempt(&store, project, &of, Phase::Running).await;
    let AttemptRepo { name, path, .. } = one.repos[0].clone();
    let save = async |attempt: &Attempt, turn: u32, commit: &str| {
        let snapshot = TurnSnapshot {
            repo: name.clone(),
            commit_id: commit.into(),
            tree_id: "t".into(),
            base_id: "b".into(),
        };
        store.record_snapshot(attempt.attempt_id, turn, &[snapshot], &[]).await.unwrap();
    };
    save(&one, 1, "c1").await;
    save(&other, 1, "c2").await;
    let (one, other, saved) = (one.attempt_id, other.attempt_id, &one);
    let rivals = async |attempt: AttemptId| {
        let contests = store.contests(&[attempt]).await.unwrap();
        assert_eq!((contests.len(), &contests[0].repo), (2, &path));
        assert_eq!((contests[0].attempt_id, contests[1].rivals.len()), (one, 0));
        let rivals = contests[0].rivals.iter();
        rivals.map(|it| (it.attempt_id, it.commit_id.clone())).collect::<Vec<_>>()
    };
    assert_eq!(rivals(one).await, [(other, "c2".to_owned())]);
    let probe = |rival: Option<AttemptId>, commit: &str, paths: &[&str]| Probe {
        repo: path.clone(),
        rival,
        commit_id: commit.into(),
        rival_commit: if rival.is_some() { "c2" } else { "main" }.into(),
        tree_id: "merged".into(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let against = async |attempt: AttemptId| {
        let found = store.conflicts(&[attempt]).await.unwrap();
        found.into_iter().map(|(_, it)| (it.attempt_id, it.paths)).collect::<Vec<_>>()
    };
    let revision = async |attempt| store.status(attempt).await.unwrap().revision;
    let before = revision(other).await;
    let found = [probe(Some(other), "c1", &["a"]), probe(None, "c1", &[])];
    store.record_probes(one, &found).await.unwrap();
    assert!(revision(other).await > before);
    assert_eq!(against(one).await, [(Some(other), vec!["a".to_owned()])]);
    assert_eq!(against(other).await, [(Some(one), vec!["a".to_owned()])]);
    assert_eq!((rivals(one).await, rivals(other).await), (vec![], vec![]), "merged before");
    // A new snapshot: what was found of the old one does not count any more.
    save(saved, 2, "c3").await;
    assert_eq!(rivals(one).await.len(), 1);
    store.record_probes(one, &[probe(Some(other), "c1", &[])]).await.unwrap();
    assert_eq!(against(one).await.len(), 1);
    let before = revision(other).await;
    store.record_probes(one, &[probe(Some(other), "c3", &[])]).await.unwrap();
    assert!(revision(other).await > before);
    assert_eq!((against(one).await, against(other).await), (vec![], vec![]));
    // Found again, it is no news.
    let before = revision(other).await;
    store.record_probes(one, &[probe(Some(other), "c3", &[])]).await.unwrap();
    assert_eq!(revision(other).await, before);
}

/// Adds a turn that has ended, or not.
async fn turn(store: &Store, of: &Attempt, turn: u32, status: &str, answer: Option<&str>) {
    let sql = "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                                      status, final_message, created_at, ended_at)
         VALUES ($1, $2, $3, 'coding_agent', $4, $5, $6, $7, $8, $9)";
    let (start, prompt) = (turn * 10, format!("prompt {turn}"));
    let end = (!matches!(status, "planned" | "running")).then_some(start + 5);
    let (id, session, attempt) = (ProcessId::new(), of.session_id, of.attempt_id);
    store.change(sql, (id, session, attempt, turn, prompt, status, answer, start, end)).await;
}

#[tokio::test]
async fn the_messages_of_a_session_are_its_turns_and_keep_their_indexes() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Queued).await;
    let lines = async |before: u64, limit: usize, max_bytes: usize| -> Vec<String> {
        let messages = store.messages(one.session_id, before, limit, max_bytes).await.unwrap();
        let line = |it: &SessionMessage| {
            let who = if it.role == MessageRole::Assistant { "<" } else { ">" };
            format!("{} {}{who} {} @{}", it.message_index, it.turn, it.text, it.at.millis())
        };
        messages.iter().map(line).collect()
    };
    assert_eq!(lines(u64::MAX, 9, 9999).await, [""; 0], "what is only planned was not said yet");
    store.change("UPDATE processes SET status = 'failed', created_at = 1, ended_at = 2", ()).await;
    turn(&store, &one, 2, "completed", Some("done")).await;
    turn(&store, &one, 3, "running", None).await;
    turn(&store, &one, 4, "planned", None).await;
    let all = ["3 3> prompt 3 @30", "2 2< done @25", "1 2> prompt 2 @20", "0 1> say hi @1"];
    assert_eq!(lines(u64::MAX, 9, 9999).await, all);
    assert_eq!(lines(3, 2, 9999).await, all[1..3]);
    assert_eq!(lines(3, 9, 5).await, all[1..3], "no more once it is too much");
    assert_eq!(lines(0, 9, 9999).await, [""; 0]);
}

#[tokio::test]
async fn a_session_is_an_attempts_latest_session_or_a_session_itself() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Queued).await;
    let both = (one.attempt_id, one.session_id);
    assert_eq!(store.session(Some(one.attempt_id), None).await.unwrap(), both);
    assert_eq!(store.session(None, Some(one.session_id)).await.unwrap(), both);
    let code = async |attempt, session| store.session(attempt, session).await.unwrap_err().code;
    assert_eq!(code(Some(AttemptId::new()), None).await, Code::AttemptNotFound);
    assert_eq!(code(None, Some(SessionId::new())).await, Code::SessionNotFound);
    for table in ["processes", "sessions"] {
        let sql = format!("DELETE FROM {table}");
        store.change(&sql, ()).await;
    }
    assert_eq!(code(Some(one.attempt_id), None).await, Code::NoSessionYet);
}

/// A merge of the attempt's work into `main`.
fn merge_of(attempt: &Attempt) -> Finish {
    let [name, email, date] = ["Ann", "ann@localhost", "1700000000 +0000"].map(str::to_owned);
    let (head, into) = ("c0ffee".to_owned(), Some("main".to_owned()));
    let request = FinishRequest {
        action: FinishAction::Merge,
        strategy: Strategy::Squash,
        message: "m".to_owned(),
        by: Some(Signature { name, email, date, committer: None }),
        repos: vec![RepoRequest {
            name: "a".to_owned(),
            head,
            into,
            push: None,
            onto: None,
            by: None,
        }],
        onto: None,
        deletes_branch: false,
        proposal: None,
    };
    Finish::new(attempt.attempt_id, request)
}

#[tokio::test]
async fn a_finish_goes_on_from_its_receipt_and_a_refused_one_leaves_its_key_free() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let of = attempt(&store, project, &of, Phase::Settled).await;
    let key = Key { tool: "finish_attempt", ..key("r", "a") };
    let mut finish = merge_of(&of);
    let begun = store.record_finish(Some(&key), &finish).await.unwrap();
    assert_eq!((begun.value, begun.deduplicated), (finish.finish_id, false));
    let again = store.record_finish(Some(&key), &merge_of(&of)).await.unwrap();
    assert_eq!((again.value, again.deduplicated), (finish.finish_id, true));
    assert!(store.record_finish(None, &merge_of(&of)).await.is_err(), "one is open");

    finish.receipt.repos[0].commit = Some("beef".to_owned());
    store.keep_finish(&finish).await.unwrap();
    let found = store.attempt(of.attempt_id).await.unwrap().unwrap().finish;
    assert_eq!(found, Some(finish.clone()));
    let unsettled = store.unsettled().await.unwrap();
    assert_eq!(unsettled.len(), 1, "it needs an owner");

    let refusal = Refusal::new(Code::CheckoutInTheWay, "a is in the way");
    finish.receipt.ending = Some(Ending::Refused(refusal.clone()));
    (finish.state, finish.error) = (FinishState::Refused, Some(refusal));
    store.end_finish(&finish).await.unwrap();
    assert_eq!(store.finish(finish.finish_id).await.unwrap(), Some(finish));
    assert_eq!(store.attempt(of.attempt_id).await.unwrap().unwrap().finish, None);
    let second = store.record_finish(Some(&key), &merge_of(&of)).await.unwrap();
    assert!(!second.deduplicated);
}

#[tokio::test]
async fn the_checks_of_a_finish_touch_no_task() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let attempt = attempt(&store, project, &of, Phase::Settled).await;
    let of = store.start_context(of.task_id).await.unwrap().task;
    let finish = merge_of(&attempt);
    store.record_finish(None, &finish).await.unwrap();
    let check = PlannedCheck {
        repo: None,
        work_of: None,
        given: None,
        name: "test".to_owned(),
        command: CheckCommand::Line("true".to_owned()),
        process_id: ProcessId::new(),
    };
    let submission = Submission {
        host: LOCAL.into(),
        run_id: CheckRunId::new(),
        attempt_id: Some(attempt.attempt_id),
        repos: vec![],
        is_empty_diff: None,
        checks: vec![check],
    };
    for _ in 0..2 {
        store.plan_finish_checks(&finish, of.task_id, &submission).await.unwrap();
    }
    let run = submission.run_id;
    assert_eq!(store.open_checks().await.unwrap().len(), 1);
    assert_eq!(store.last_run(of.task_id).await.unwrap(), None, "it is of no report");
    let failed = Receipt { name: "test".to_owned(), ..Receipt::default() };
    store.keep_receipt(run, &failed).await.unwrap();
    assert_eq!(store.conclude_checks(run).await.unwrap(), CheckVerdict::Rework);
    let found = store.check_run(run).await.unwrap().unwrap();
    assert_eq!(
        (found.finish_id, found.verdict),
        (Some(finish.finish_id), Some(CheckVerdict::Rework))
    );
    let after = store.start_context(of.task_id).await.unwrap().task;
    assert_eq!((after.status, after.updated_at), (of.status, of.updated_at));
}

#[tokio::test]
async fn what_a_remote_leads_to_is_recorded_and_replaced() {
    let store = scratch().await;
    let project = project(&store).await;
    let repo = store.repos(project).await.unwrap()[0].repo_id;
    let recorded = async || store.remotes(repo).await.unwrap();
    assert_eq!(recorded().await["origin"], "https://h/o/r");
    let other = [("fork".to_owned(), "/r".to_owned())].into();
    store.record_remotes(repo, &other).await.unwrap();
    assert_eq!(recorded().await, other);
}

#[tokio::test]
async fn the_turns_of_an_attempt_come_by_page_each_with_its_processes() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Queued).await;
    let other = attempt(&store, project, &of, Phase::Queued).await;
    turn(&store, &one, 2, "failed", None).await;
    turn(&store, &one, 2, "completed", Some("done")).await;
    turn(&store, &one, 3, "running", None).await;
    turn(&store, &other, 9, "running", None).await;
    let long = "UPDATE processes SET prompt = $1 WHERE turn = 3";
    store.change(long, ("ä".repeat(30_000),)).await;
    let page = store.turns(one.attempt_id, None, 2).await.unwrap();
    let counts: Vec<_> =
        page.items.iter().map(|turn| (turn.number, turn.processes.len())).collect();
    assert_eq!((counts, page.has_more), (vec![(2, 2), (3, 1)], true));
    assert_eq!(page.items[0].prompt, "prompt 2");
    assert_eq!(page.items[0].agent().unwrap().final_message.as_deref(), Some("done"));
    let cut = page.items[1].prompt.chars().count();
    assert_eq!((cut, page.items[1].prompt_length), (20_000, 30_000));
    let first = store.turns(one.attempt_id, Some(2), 2).await.unwrap();
    let numbers: Vec<_> = first.items.iter().map(|turn| turn.number).collect();
    assert_eq!((numbers, first.has_more), (vec![1], false));
    assert!(store.turns(one.attempt_id, Some(1), 2).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_page_of_turns_with_too_many_processes_has_the_newest() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Queued).await;
    turn(&store, &one, 2, "completed", None).await;
    turn(&store, &one, 3, "running", None).await;
    let more: Vec<ProcessId> = (0..500).map(|_| ProcessId::new()).collect();
    let sql = "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                   status, created_at)
         SELECT value, session_id, attempt_id, 'dev_server', turn, '', status, created_at
         FROM processes, json_each($1) WHERE turn = 2";
    assert_eq!(store.change(sql, (more,)).await, 500);
    let page = store.turns(one.attempt_id, None, 2).await.unwrap();
    let counts: Vec<_> =
        page.items.iter().map(|turn| (turn.number, turn.processes.len())).collect();
    assert_eq!(counts, [(2, 499), (3, 1)]);
}

#[tokio::test]
async fn what_belongs_to_an_attempt_besides_its_turns() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let one = attempt(&store, project, &of, Phase::Settled).await;
    let waiting = Turnover { added: Some(follow_up("more")), ..Turnover::default() };
    queue(&store, None, &one, waiting).await;
    let finish = merge_of(&one);
    store.record_finish(None, &finish).await.unwrap();
    let submission = Submission {
        host: LOCAL.into(),
        run_id: CheckRunId::new(),
        attempt_id: Some(one.attempt_id),
        repos: vec![],
        is_empty_diff: None,
        checks: vec![],
    };
    store.plan_finish_checks(&finish, of.task_id, &submission).await.unwrap();
    let receipt = Receipt { name: "test".to_owned(), ..Receipt::default() };
    store.keep_receipt(submission.run_id, &receipt).await.unwrap();
    let beside = store.beside_turns(one.attempt_id).await.unwrap();
    assert_eq!(beside.waiting[0].prompt, "more");
    assert_eq!(beside.finishes[0].request, finish.request);
    assert_eq!(beside.checks[0].finish_id, Some(finish.finish_id));
    assert_eq!(beside.checks[0].receipts[0].name, "test");
    let unknown = store.beside_turns(AttemptId::new()).await.map(drop);
    assert_eq!(unknown.unwrap_err().code, Code::AttemptNotFound);
}
