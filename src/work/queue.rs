//! The queue of a project: which open task is ready, blocked or taken, and which one comes first. Pure.

use super::{ReviewState, TaskKind};
use crate::api::worker::next::Filter;
use provost_actors::ids::TaskId;
use provost_actors::journal::{Priority, TaskStatus};
use serde::Deserialize;
use std::cmp::Reverse;

/// The facts that the queue needs about a task that is neither done nor cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OpenTask {
    pub task_id: TaskId,
    pub priority: Priority,
    pub kind: TaskKind,
    pub status: TaskStatus,
    pub review: Option<ReviewState>,
    pub claim: Claim,
    /// Whether it depends on a task that is on the board and not done.
    pub waits: bool,
    /// Whether an open ticket blocks it.
    pub is_blocked: bool,
}

/// Which worker has claimed a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// No worker.
    Free,
    /// A worker that is alive.
    Held,
    /// A worker that is gone; the task can be claimed by another one.
    Abandoned,
    /// The asking worker: it was started for the task, or its own report needs rework.
    Own,
}

/// Whether a worker can begin an open task now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Blocked,
    Taken,
}

impl OpenTask {
    /// Whether the asking worker can begin the task. The task that a worker was started for is ready for it
    /// until it has reported on it, whatever the task depends on, because whoever started the worker knew of
    /// the dependencies.
    pub fn readiness(&self) -> Readiness {
        let is_own = self.claim == Claim::Own;
        let is_stuck = matches!(self.review, Some(ReviewState::Blocked | ReviewState::Failed));
        if is_stuck || self.is_blocked || (self.waits && !is_own) {
            return Readiness::Blocked;
        }
        let is_reported = !matches!(self.review, None | Some(ReviewState::Rework));
        match (self.status, self.claim) {
            (TaskStatus::InReview | TaskStatus::Done | TaskStatus::Cancelled, _)
            | (_, Claim::Held)
            | (TaskStatus::InProgress, Claim::Free) => Readiness::Taken,
            (_, Claim::Own) if is_reported => Readiness::Taken,
            _ => Readiness::Ready,
        }
    }

    /// The order of the queue, smallest first: a worker's own task, then investigations, because other tasks
    /// wait for them, then by priority, then by age.
    fn rank(&self) -> impl Ord + use<> {
        let is_own = self.claim == Claim::Own;
        let is_investigation = self.kind == TaskKind::Investigation;
        (!is_own, !is_investigation, Reverse(self.priority), self.task_id)
    }
}

/// The tasks that the filter admits, in the order of the queue.
pub fn select(open: &[OpenTask], filter: Filter) -> Vec<&OpenTask> {
    let takes = |task: &&OpenTask| match filter {
        Filter::Ready => task.readiness() == Readiness::Ready,
        Filter::Blocked => task.readiness() == Readiness::Blocked,
        Filter::All => true,
    };
    let mut selected: Vec<&OpenTask> = open.iter().filter(takes).collect();
    selected.sort_by_cached_key(|task| task.rank());
    selected
}

/// The first task with the wanted priority, and all other tasks that the filter admits, of any priority.
pub fn pick(
    open: &[OpenTask],
    filter: Filter,
    priority: Option<Priority>,
) -> (Option<&OpenTask>, Vec<&OpenTask>) {
    let mut others = select(open, filter);
    let fits = |task: &&OpenTask| priority.is_none_or(|priority| task.priority == priority);
    let first = others.iter().position(fits).map(|at| others.remove(at));
    (first, others)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select as any_of;

    use super::*;

    const STATUSES: [TaskStatus; 5] = [
        TaskStatus::Todo,
        TaskStatus::InProgress,
        TaskStatus::InReview,
        TaskStatus::Done,
        TaskStatus::Cancelled,
    ];
    const REVIEWS: [Option<ReviewState>; 7] = [
        None,
        Some(ReviewState::Reported),
        Some(ReviewState::Verified),
        Some(ReviewState::Rework),
        Some(ReviewState::Failed),
        Some(ReviewState::Blocked),
        Some(ReviewState::Paused),
    ];
    const PRIORITIES: [Priority; 4] =
        [Priority::Low, Priority::Medium, Priority::High, Priority::Critical];
    const KINDS: [TaskKind; 4] =
        [TaskKind::Work, TaskKind::Verification, TaskKind::Investigation, TaskKind::Answer];
    const CLAIMS: [Claim; 4] = [Claim::Free, Claim::Held, Claim::Abandoned, Claim::Own];

    /// A task of a board, with the numbers of those that it depends on.
    #[derive(Clone, Debug)]
    struct Planned {
        task: OpenTask,
        depends_on: Vec<usize>,
    }

    prop_compose! {
        fn planned()(
            status in any_of(STATUSES.to_vec()),
            review in any_of(REVIEWS.to_vec()),
            priority in any_of(PRIORITIES.to_vec()),
            kind in any_of(KINDS.to_vec()),
            claim in any_of(CLAIMS.to_vec()),
            is_blocked in any::<bool>(),
            depends_on in vec(0..12_usize, 0..3),
        ) -> Planned {
            let task_id = TaskId::new();
            let waits = false;
            let task =
                OpenTask { task_id, priority, kind, status, review, claim, waits, is_blocked };
            Planned { task, depends_on }
        }
    }

    fn boards() -> impl Strategy<Value = Vec<Planned>> {
        vec(planned(), 1..12)
    }

    /// What the queue is given of a board: the open tasks.
    fn open(board: &[Planned]) -> Vec<OpenTask> {
        let is_open =
            |task: &OpenTask| !matches!(task.status, TaskStatus::Done | TaskStatus::Cancelled);
        let waits = |planned: &Planned| {
            let mut on = planned.depends_on.iter().filter_map(|n| board.get(*n));
            on.any(|on| on.task.status != TaskStatus::Done)
        };
        board
            .iter()
            .filter(|planned| is_open(&planned.task))
            .map(|planned| OpenTask { waits: waits(planned), ..planned.task.clone() })
            .collect()
    }

    fn ids(tasks: &[&OpenTask]) -> Vec<TaskId> {
        tasks.iter().map(|task| task.task_id).collect()
    }

    fn set(open: &[OpenTask], filter: Filter) -> BTreeSet<TaskId> {
        select(open, filter).iter().map(|task| task.task_id).collect()
    }

    proptest! {
        #[test]
        fn the_order_is_one_whatever_order_the_tasks_come_in(
            board in boards(),
            seed in vec(any::<u32>(), 12),
        ) {
            let one = open(&board);
            let mut other: Vec<_> = one.iter().cloned().zip(seed).collect();
            other.sort_by_key(|(_, seed)| *seed);
            let other: Vec<OpenTask> = other.into_iter().map(|(task, _)| task).collect();
            for filter in [Filter::Ready, Filter::Blocked, Filter::All] {
                prop_assert_eq!(ids(&select(&one, filter)), ids(&select(&other, filter)));
            }
        }

        #[test]
        fn what_is_blocked_or_held_is_never_ready(board in boards()) {
            for task in select(&open(&board), Filter::Ready) {
                prop_assert!(task.claim != Claim::Held && !task.is_blocked, "{:?}", task);
                prop_assert!(!task.waits || task.claim == Claim::Own, "{:?}", task);
                prop_assert!(!matches!(task.review, Some(ReviewState::Blocked | ReviewState::Failed)));
            }
        }

        #[test]
        fn each_open_task_stands_in_one_place(board in boards()) {
            let open = open(&board);
            let (ready, blocked) = (set(&open, Filter::Ready), set(&open, Filter::Blocked));
            prop_assert!(ready.is_disjoint(&blocked));
            prop_assert_eq!(set(&open, Filter::All).len(), open.len());
        }

        #[test]
        fn a_dependency_that_failed_or_was_cancelled_never_unblocks(
            board in boards(), number in 0..12_usize, was_cancelled in any::<bool>(),
        ) {
            let mut board = board;
            let number = number % board.len();
            let (status, review) = if was_cancelled {
                (TaskStatus::Cancelled, None)
            } else {
                (TaskStatus::InReview, Some(ReviewState::Failed))
            };
            board[number].task.status = status;
            board[number].task.review = review;
            let ready = set(&open(&board), Filter::Ready);
            for planned in board.iter().filter(|planned| planned.depends_on.contains(&number)) {
                let is_ready = ready.contains(&planned.task.task_id);
                prop_assert!(!is_ready || planned.task.claim == Claim::Own);
            }
        }

        #[test]
        fn finishing_a_task_takes_no_other_from_the_ready_ones(
            board in boards(), number in 0..12_usize,
        ) {
            let number = number % board.len();
            let mut before = set(&open(&board), Filter::Ready);
            let mut board = board;
            board[number].task.status = TaskStatus::Done;
            before.remove(&board[number].task.task_id);
            prop_assert!(before.is_subset(&set(&open(&board), Filter::Ready)));
        }

        #[test]
        fn a_priority_takes_its_first_and_leaves_the_others_in_their_order(
            board in boards(), priority in any_of(PRIORITIES.to_vec()),
        ) {
            let open = open(&board);
            let mut all = select(&open, Filter::All);
            let (first, others) = pick(&open, Filter::All, Some(priority));
            let at = all.iter().position(|task| task.priority == priority);
            prop_assert_eq!(first, at.map(|at| all.remove(at)));
            prop_assert_eq!(ids(&others), ids(&all));
        }
    }

    fn task(priority: Priority, kind: TaskKind) -> OpenTask {
        OpenTask {
            task_id: TaskId::new(),
            priority,
            kind,
            status: TaskStatus::Todo,
            review: None,
            claim: Claim::Free,
            waits: false,
            is_blocked: false,
        }
    }

    #[test]
    fn a_workers_own_task_comes_first_then_investigations_then_priority_then_age() {
        let low = task(Priority::Low, TaskKind::Investigation);
        let critical = task(Priority::Critical, TaskKind::Work);
        let medium = task(Priority::Medium, TaskKind::Work);
        let younger = task(Priority::Medium, TaskKind::Verification);
        let own =
            OpenTask { claim: Claim::Own, waits: true, ..task(Priority::Low, TaskKind::Work) };
        let open = [&younger, &medium, &critical, &low, &own].map(Clone::clone);
        let expected = [own, low, critical, medium, younger];
        assert_eq!(select(&open, Filter::Ready), expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_was_left_is_ready_again_and_what_is_worked_on_without_a_lease_is_not() {
        let begun =
            OpenTask { status: TaskStatus::InProgress, ..task(Priority::Low, TaskKind::Work) };
        assert_eq!(begun.readiness(), Readiness::Taken);
        assert_eq!(
            OpenTask { claim: Claim::Abandoned, ..begun.clone() }.readiness(),
            Readiness::Ready
        );
        assert_eq!(OpenTask { claim: Claim::Own, ..begun.clone() }.readiness(), Readiness::Ready);
        let paused = OpenTask { claim: Claim::Own, review: Some(ReviewState::Paused), ..begun };
        assert_eq!(paused.readiness(), Readiness::Taken);
    }
}
