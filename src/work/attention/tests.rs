use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const STATUSES: [TaskStatus; 5] = [
    TaskStatus::Todo,
    TaskStatus::InProgress,
    TaskStatus::InReview,
    TaskStatus::Done,
    TaskStatus::Cancelled,
];
const STANDINGS: [ReviewState; 6] = [
    ReviewState::Reported,
    ReviewState::Verified,
    ReviewState::Rework,
    ReviewState::Failed,
    ReviewState::Blocked,
    ReviewState::Paused,
];
const PHASES: [Phase; 6] =
    [Phase::Queued, Phase::Preparing, Phase::Running, Phase::Stopping, Phase::Idle, Phase::Settled];
const STATES: [State; 4] = [State::Idle, State::Running, State::Failed, State::Completed];
const ACTIONS: [FinishAction; 6] = [
    FinishAction::Commit,
    FinishAction::Merge,
    FinishAction::ApplyTo,
    FinishAction::Push,
    FinishAction::CreatePr,
    FinishAction::Discard,
];
const FINISHES: [FinishState; 4] =
    [FinishState::Open, FinishState::Done, FinishState::Conflicts, FinishState::ChecksFailed];

fn task(status: TaskStatus, standing: Option<ReviewState>) -> TaskFacts {
    TaskFacts {
        task_id: TaskId::new(),
        priority: Priority::Medium,
        updated_at: Timestamp::default(),
        status,
        standing,
        waits: false,
        asks: false,
    }
}

fn settled(state: State) -> AttemptFacts {
    AttemptFacts {
        attempt_id: AttemptId::new(),
        task_id: TaskId::new(),
        updated_at: Timestamp::default(),
        settled_at: Timestamp::default(),
        phase: Phase::Settled,
        state,
        asks: false,
        quota_asks: false,
        resumes: false,
        finish: None,
        finish_state: None,
        conflicts: false,
        was_stopped: false,
        waits_for_disk: false,
        host_drains: false,
    }
}

fn finished(action: FinishAction, state: FinishState) -> AttemptFacts {
    let completed = settled(State::Completed);
    AttemptFacts { finish: Some(action), finish_state: Some(state), ..completed }
}

prop_compose! {
    fn tasks()(
        status in select(STATUSES.to_vec()),
        standing in option::of(select(STANDINGS.to_vec())),
        waits in any::<bool>(),
        asks in any::<bool>(),
    ) -> TaskFacts {
        TaskFacts { waits, asks, ..task(status, standing) }
    }
}

prop_compose! {
    fn attempts()(
        phase in select(PHASES.to_vec()),
        state in select(STATES.to_vec()),
        finish in option::of((select(ACTIONS.to_vec()), select(FINISHES.to_vec()))),
        [asks, quota_asks, resumes, conflicts, waits_for_disk, host_drains, was_stopped]
            in any::<[bool; 7]>(),
    ) -> AttemptFacts {
        let (finish, finish_state) = finish.unzip();
        AttemptFacts {
            phase, asks, quota_asks, resumes, finish, finish_state, conflicts, was_stopped,
            waits_for_disk, host_drains, ..settled(state)
        }
    }
}

proptest! {
    #[test]
    fn each_attempt_is_at_most_one_need_and_none_of_a_closed_task(
        task in tasks(), attempts in vec(attempts(), 0..5),
    ) {
        let needs = needs(&task, &attempts);
        prop_assert_eq!(needs.len(), attempts.len());
        let is_closed = match task.status {
            TaskStatus::Cancelled => true,
            TaskStatus::Done => task.standing != Some(ReviewState::Verified),
            _ => false,
        };
        if is_closed {
            prop_assert!(needs.iter().all(Option::is_none));
        }
        for (need, attempt) in needs.iter().zip(&attempts) {
            let is_busy = !matches!(attempt.phase, Phase::Settled | Phase::Idle);
            let is_finishing = attempt.finish_state == Some(FinishState::Open);
            prop_assert!(!is_busy || matches!(need, None | Some(NeedKind::Finishing)));
            // It keeps its place, unless another attempt's work is merged.
            if *need == Some(NeedKind::Finishing) {
                prop_assert!(is_finishing);
            }
            // These are items of their own.
            prop_assert!(!matches!(need, Some(NeedKind::Approval | NeedKind::Question)));
        }
        let count = |kind| needs.iter().filter(|need| **need == Some(kind)).count();
        prop_assert!(count(NeedKind::Merged) <= 1 && count(NeedKind::Ready) <= 1);
        prop_assert!(count(NeedKind::Failed) <= 1 && count(NeedKind::Quota) <= 1);
    }

    #[test]
    fn the_column_agrees_with_what_needs_a_person(
        task in tasks(), attempts in vec(attempts(), 0..5),
    ) {
        let (column, why) = place(&task, &attempts);
        let needs: Vec<NeedKind> = needs(&task, &attempts).into_iter().flatten().collect();
        // Something that works, or waits by itself, goes on without a person.
        let goes_on = attempts.iter().any(|it| {
            it.waits_for_disk
                || !matches!(it.phase, Phase::Settled | Phase::Idle)
                || it.finish_state == Some(FinishState::Open)
        });
        let is_checked = task.standing == Some(ReviewState::Reported);
        if !needs.is_empty() && !goes_on && !is_checked {
            let columns = [Column::NeedsYou, Column::ToReview, Column::ReadyToMerge];
            prop_assert!(columns.contains(&column), "{column:?}");
        }
        let is_over = matches!(task.status, TaskStatus::Done | TaskStatus::Cancelled);
        prop_assert!(column != Column::Done || is_over);
        prop_assert!(column != Column::Waiting || task.status != TaskStatus::Cancelled);
        if column == Column::NeedsYou {
            prop_assert!(why.is_some());
        }
    }

    /// A person always has a way out: each of these ends every need.
    #[test]
    fn closing_a_task_or_putting_it_back_dismisses_what_its_attempts_left(
        before in tasks(), attempts in vec(attempts(), 0..5),
        status in select(vec![TaskStatus::Todo, TaskStatus::Done, TaskStatus::Cancelled]),
    ) {
        // As `update_task` does it.
        let after = TaskFacts { status, standing: None, ..before };
        prop_assert!(needs(&after, &attempts).iter().all(Option::is_none));
    }
}

fn only(task: &TaskFacts, attempts: &[AttemptFacts]) -> (Vec<Option<NeedKind>>, Column) {
    (needs(task, attempts), place(task, attempts).0)
}

#[test]
fn finished_work_is_reviewed_until_something_becomes_of_it() {
    let task = task(TaskStatus::InReview, None);
    let review = (vec![Some(NeedKind::Review)], Column::ToReview);
    assert_eq!(only(&task, &[settled(State::Completed)]), review);
    let committed = finished(FinishAction::Commit, FinishState::Done);
    assert_eq!(only(&task, &[committed]), review);
    let merging = finished(FinishAction::Merge, FinishState::Open);
    assert_eq!(only(&task, &[merging]), (vec![Some(NeedKind::Finishing)], Column::Working));
    let merged = finished(FinishAction::Merge, FinishState::Done);
    let rival = settled(State::Completed);
    assert_eq!(
        only(&task, &[rival, merged]),
        (vec![None, Some(NeedKind::Merged)], Column::NeedsYou)
    );
    let discarded = finished(FinishAction::Discard, FinishState::Done);
    assert_eq!(only(&task, &[discarded]), (vec![None], Column::Waiting));
    let proposed = finished(FinishAction::CreatePr, FinishState::Done);
    assert_eq!(only(&task, &[proposed]), (vec![None], Column::ReadyToMerge));
}

#[test]
fn what_stands_in_the_way_of_a_merge_comes_before_the_review() {
    let task = task(TaskStatus::InReview, None);
    let of = |attempt| needs(&task, &[attempt])[0];
    let conflicts = AttemptFacts { conflicts: true, ..settled(State::Completed) };
    assert_eq!(of(conflicts), Some(NeedKind::Conflict));
    let refused = finished(FinishAction::Merge, FinishState::Conflicts);
    assert_eq!(of(refused), Some(NeedKind::Conflict));
    let failed = finished(FinishAction::Merge, FinishState::ChecksFailed);
    assert_eq!(of(failed), Some(NeedKind::ChecksFailed));
}

#[test]
fn a_failure_is_news_of_the_newest_attempt_unless_somebody_stopped_it() {
    let task = task(TaskStatus::InProgress, None);
    let failed = || settled(State::Failed);
    assert_eq!(only(&task, &[failed()]), (vec![Some(NeedKind::Failed)], Column::NeedsYou));
    let both = [failed(), settled(State::Completed)];
    assert_eq!(only(&task, &both), (vec![None, Some(NeedKind::Review)], Column::ToReview));
    let stopped = AttemptFacts { was_stopped: true, ..settled(State::Failed) };
    assert_eq!(only(&task, &[stopped]), (vec![None], Column::Waiting));
}

#[test]
fn a_rate_limit_needs_a_person_unless_the_daemon_resumes_it() {
    let task = task(TaskStatus::InProgress, None);
    let asks = AttemptFacts { quota_asks: true, ..settled(State::Failed) };
    assert_eq!(only(&task, &[asks]), (vec![Some(NeedKind::Quota)], Column::NeedsYou));
    let resumes = AttemptFacts { resumes: true, ..settled(State::Failed) };
    assert_eq!(only(&task, &[resumes]), (vec![None], Column::Waiting));
}

#[test]
fn work_that_checks_have_passed_waits_for_its_merge_alone() {
    let task = task(TaskStatus::Done, Some(ReviewState::Verified));
    let work = settled(State::Completed);
    assert_eq!(
        only(&task, &[work.clone(), work]),
        (vec![None, Some(NeedKind::Ready)], Column::ReadyToMerge)
    );
    let merged = finished(FinishAction::Merge, FinishState::Done);
    assert_eq!(only(&task, &[merged]), (vec![None], Column::Done));
    assert_eq!(only(&task, &[]), (vec![], Column::Done));
}

#[test]
fn checks_that_fail_need_a_person_once_the_worker_rests() {
    let task = task(TaskStatus::Todo, Some(ReviewState::Rework));
    let rested = settled(State::Completed);
    assert_eq!(only(&task, &[rested]), (vec![Some(NeedKind::ChecksFailed)], Column::NeedsYou));
    let works = AttemptFacts { phase: Phase::Running, ..settled(State::Running) };
    assert_eq!(only(&task, &[works]), (vec![None], Column::Working));
}

#[test]
fn a_task_that_nothing_was_done_about_waits_and_says_for_what() {
    let todo = task(TaskStatus::Todo, None);
    assert_eq!(place(&todo, &[]), (Column::Waiting, None));
    let waits = TaskFacts { waits: true, ..todo };
    assert_eq!(place(&waits, &[]), (Column::Waiting, Some(Why::Dependencies)));
    let queued = AttemptFacts { phase: Phase::Queued, ..settled(State::Idle) };
    let begun = task(TaskStatus::InProgress, None);
    assert_eq!(place(&begun, std::slice::from_ref(&queued)), (Column::Waiting, Some(Why::Slot)));
    let held = AttemptFacts { host_drains: true, ..queued.clone() };
    assert_eq!(place(&begun, &[queued.clone(), held]), (Column::Waiting, Some(Why::Host)));
    let full = AttemptFacts { waits_for_disk: true, ..queued };
    assert_eq!(place(&begun, &[full]), (Column::Waiting, Some(Why::Disk)));
}
