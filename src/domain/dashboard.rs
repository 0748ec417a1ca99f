//! What the pages read: everything that needs a person, the board, and usage. The rules are in
//! `work::attention`; this file reads the facts that the rules decide on, and the details of the items
//! that are shown. Positions are decided from small rows of all tasks; details are read for one page
//! only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{ApprovalId, AttemptId, TaskId};
use provost_actors::text::cut;

use super::approvals::summary;
use super::{Domain, cursor};
use crate::api::window::{
    AttemptCard, Attention, AttentionInput, Board, BoardColumn, BoardInput, Card, Column,
    CompareInput, LoginsInput, Need, NeedDetail, NeedKind, Outcome, TaskLine, Usage, UsageInput,
    Why, WindowReads,
};
use crate::api::{Caller, Refusable, Refusal};
use crate::store::{AttemptRow, OpenFacts};
use crate::work::attention::{AttemptFacts, TaskFacts, needs, place};

/// Longest final message of an attempt in a list, in characters.
const FINAL_MESSAGE_MAX: usize = 600;

/// Most paths of a conflict.
const PATHS_MAX: usize = 20;

/// Most attempts of one task that are compared.
const COMPARED_MAX: usize = 20;

const DAY_MS: i64 = 86_400_000;

/// One item that needs a person, before its details are read.
#[derive(Clone, Debug)]
struct Found {
    kind: NeedKind,
    at: Timestamp,
    /// Of the approval, question or attempt.
    id: String,
    of: Of,
}

/// What an item is about.
#[derive(Clone, Copy, Debug)]
enum Of {
    Approval(ApprovalId),
    Question,
    Attempt(AttemptId),
}

impl Found {
    /// The sort key: newest first, items of one moment by their ids. A cursor names such a key, so a page
    /// continues correctly if items before it vanish.
    fn place(&self) -> (Reverse<i64>, &str) {
        (Reverse(self.at.millis()), &self.id)
    }

    fn cursor(&self) -> String {
        format!("{}_{}", self.at.millis(), self.id)
    }
}

#[async_trait]
impl WindowReads for Domain {
    async fn attention(&self, _: &Caller, input: AttentionInput) -> Refusable<Attention> {
        let after = cursor(input.cursor.as_deref(), "attention", |text| {
            let (millis, id) = text.split_once('_')?;
            Some((millis.parse::<i64>().ok()?, id.to_owned()))
        })?;
        let mut found = self.found(&input).await?;
        found.sort_by(|a, b| a.place().cmp(&b.place()));
        let total = found.len();
        if let Some((millis, id)) = &after {
            found.retain(|it| it.place() > (Reverse(*millis), id.as_str()));
        }
        let has_more = found.len() > input.limit.get();
        found.truncate(input.limit.get());
        let next_cursor = found.last().filter(|_| has_more).map(Found::cursor);
        Ok(Attention { items: self.in_detail(found).await?, total, next_cursor })
    }

    async fn board(&self, _: &Caller, input: BoardInput) -> Refusable<Board> {
        // Of the open tasks that were begun, all are read: their columns follow from their attempts. Of
        // the other two kinds, which can be many, only as many are read as the page can show, and their
        // total.
        let most = input.skip.saturating_add(input.limit.get());
        let wants = |column| input.column.is_none_or(|only| only == column);
        let most_of = |column| if wants(column) { most } else { 0 };
        let (facts, (unbegun, first), (closed, newest)) = tokio::try_join!(
            self.store.open_facts(input.project_id),
            self.store.unbegun_tasks(input.project_id, most_of(Column::Waiting)),
            self.store.closed_tasks(input.project_id, most_of(Column::Done)),
        )?;
        let attempts = by_task(facts.attempts);
        let mut columns = Column::ALL.map(|_| Vec::new());
        let mut totals = Column::ALL.map(|_| 0);
        for task in &facts.tasks {
            let (column, why) = place(task, of(&attempts, task));
            columns[column as usize].push(Placed::new(task, column, why));
            totals[column as usize] += 1;
        }
        totals[Column::Waiting as usize] += unbegun;
        columns[Column::Waiting as usize].extend(first.iter().map(|task| {
            let (column, why) = place(task, &[]);
            Placed::new(task, column, why)
        }));
        totals[Column::Done as usize] += closed;
        columns[Column::Done as usize].extend(newest.iter().map(|task| Placed {
            task: task.task_id,
            why: None,
            rank: (Reverse(0), Reverse(task.updated_at.millis()), task.task_id),
        }));
        let shown = Column::ALL.map(|column| {
            let mut placed = std::mem::take(&mut columns[column as usize]);
            placed.sort_by_key(|it| it.rank);
            let wanted = if wants(column) { input.limit.get() } else { 0 };
            placed.into_iter().skip(input.skip).take(wanted).collect::<Vec<_>>()
        });
        let mut cards = self.cards(shown.iter().flatten(), &attempts).await?;
        let columns = Column::ALL.into_iter().zip(shown).filter(|(column, _)| wants(*column));
        let columns = columns.map(|(column, placed)| BoardColumn {
            column,
            total: totals[column as usize],
            skipped: input.skip,
            cards: placed.iter().filter_map(|it| cards.remove(&it.task)).collect(),
        });
        Ok(Board { columns: columns.collect() })
    }

    async fn usage(&self, _: &Caller, input: UsageInput) -> Refusable<Usage> {
        // Whole days of UTC, of which today is the last one.
        let days = u32::try_from(input.days.get()).unwrap_or(u32::MAX);
        let today = Timestamp::now().millis().div_euclid(DAY_MS);
        let from = Timestamp::from_millis((today - i64::from(days) + 1) * DAY_MS);
        let rows = self.store.usage_since(from, DAY_MS).await?;
        Ok(Usage { from, days, rows })
    }

    async fn logins(&self, _: &Caller, _: LoginsInput) -> Refusable<BTreeMap<String, bool>> {
        let asked =
            self.world.executors.all().into_iter().map(async |executor| {
                Some((executor.describe().name, executor.is_logged_in().await?))
            });
        Ok(futures_util::future::join_all(asked).await.into_iter().flatten().collect())
    }

    async fn outcomes(&self, _: &Caller, input: CompareInput) -> Refusable<Vec<Outcome>> {
        self.store.outcomes(input.task_id, COMPARED_MAX).await
    }
}

/// A task with its column's reason and its sort key.
struct Placed {
    task: TaskId,
    why: Option<Why>,
    rank: (Reverse<u8>, Reverse<i64>, TaskId),
}

impl Placed {
    /// Waiting tasks are in the order in which they would begin, by priority; the other columns have the
    /// latest change first.
    fn new(task: &TaskFacts, column: Column, why: Option<Why>) -> Self {
        let (priority, changed) = match column {
            Column::Waiting => (task.priority as u8, 0),
            _ => (0, task.updated_at.millis()),
        };
        let rank = (Reverse(priority), Reverse(changed), task.task_id);
        Self { task: task.task_id, why, rank }
    }
}

/// Attempts by their tasks, oldest first.
type ByTask = HashMap<TaskId, Vec<AttemptFacts>>;

fn by_task(attempts: Vec<AttemptFacts>) -> ByTask {
    let mut by_task = ByTask::new();
    for attempt in attempts {
        by_task.entry(attempt.task_id).or_default().push(attempt);
    }
    by_task
}

fn of<'a>(attempts: &'a ByTask, task: &TaskFacts) -> &'a [AttemptFacts] {
    attempts.get(&task.task_id).map_or(&[], Vec::as_slice)
}

/// What the attempts of open tasks need a person for.
fn of_attempts(facts: OpenFacts) -> Vec<Found> {
    let attempts = by_task(facts.attempts);
    let of_task = |task: &TaskFacts| {
        let attempts = of(&attempts, task);
        let found = needs(task, attempts).into_iter().zip(attempts);
        let found = found.filter_map(|(kind, attempt)| {
            Some(Found {
                kind: kind?,
                at: attempt.settled_at,
                id: attempt.attempt_id.to_string(),
                of: Of::Attempt(attempt.attempt_id),
            })
        });
        found.collect::<Vec<_>>()
    };
    facts.tasks.iter().flat_map(of_task).collect()
}

impl Domain {
    /// All that needs a person in a project, or in all: attempts, pending approvals, open questions.
    /// Unsorted.
    async fn found(&self, input: &AttentionInput) -> Result<Vec<Found>, Refusal> {
        let (facts, approvals, questions) = tokio::try_join!(
            self.store.open_facts(input.project_id),
            self.store.pending_approvals(input.project_id),
            self.store.open_questions(input.project_id),
        )?;
        let mut found = of_attempts(facts);
        found.extend(approvals.into_iter().map(|(id, at)| Found {
            kind: NeedKind::Approval,
            at,
            id: id.to_string(),
            of: Of::Approval(id),
        }));
        found.extend(questions.into_iter().map(|(id, at)| Found {
            kind: NeedKind::Question,
            at,
            id,
            of: Of::Question,
        }));
        Ok(found)
    }

    /// The details of these items, read by one statement for each kind. An item that is gone by now is
    /// left out.
    async fn in_detail(&self, found: Vec<Found>) -> Result<Vec<Need>, Refusal> {
        let approvals: Vec<_> = found
            .iter()
            .filter_map(|it| if let Of::Approval(id) = it.of { Some(id) } else { None })
            .collect();
        let approvals = self.store.approvals_by_id(&approvals).await?;
        let mut approvals: HashMap<_, _> =
            approvals.into_iter().map(|it| (it.approval_id, summary(it))).collect();
        let of_questions = found.iter().filter(|it| it.kind == NeedKind::Question);
        let questions: Vec<String> = of_questions.map(|it| it.id.clone()).collect();
        let questions = self.store.open_questions_by_id(&questions).await?;
        let mut questions: HashMap<_, _> =
            questions.into_iter().map(|it| (it.question_id.clone(), Box::new(it))).collect();
        let of_attempts = found.iter().filter_map(|it| match it.of {
            Of::Attempt(id) => Some(id),
            Of::Approval(id) => approvals.get(&id).map(|it| it.attempt_id),
            Of::Question => None,
        });
        let shown = self.attempt_cards(&of_attempts.collect::<Vec<_>>()).await?;
        let of_kind = |kind| {
            let is_of = move |it: &&Found| it.kind == kind;
            let id = |it: &Found| if let Of::Attempt(id) = it.of { Some(id) } else { None };
            found.iter().filter(is_of).filter_map(id).collect::<Vec<AttemptId>>()
        };
        let checks = self.store.failed_checks(&of_kind(NeedKind::ChecksFailed)).await?;
        let mut checks = grouped(checks, usize::MAX);
        let paths = self.store.conflict_paths(&of_kind(NeedKind::Conflict)).await?;
        let mut paths = grouped(paths, PATHS_MAX);
        let need = |it: Found| {
            let (attempt, detail) = match it.of {
                Of::Approval(id) => {
                    let approval = Box::new(approvals.remove(&id)?);
                    (Some(approval.attempt_id), NeedDetail::Approval(approval))
                }
                Of::Question => (None, NeedDetail::Question(questions.remove(&it.id)?)),
                Of::Attempt(id) => {
                    let detail = match it.kind {
                        NeedKind::ChecksFailed => {
                            NeedDetail::Checks(checks.remove(&id).unwrap_or_default())
                        }
                        NeedKind::Conflict => {
                            NeedDetail::Conflict(paths.remove(&id).unwrap_or_default())
                        }
                        _ => NeedDetail::Attempt,
                    };
                    (Some(id), detail)
                }
            };
            let (task, attempt) = match attempt {
                Some(id) => shown.get(&id).cloned().unzip(),
                None => (None, None),
            };
            let id = format!("{}-{}", it.kind.prefix(), it.id);
            Some(Need { id, kind: it.kind, at: it.at, task, attempt, detail })
        };
        Ok(found.into_iter().filter_map(need).collect())
    }

    /// Attempts with their tasks, by attempt.
    async fn attempt_cards(
        &self,
        attempts: &[AttemptId],
    ) -> Result<HashMap<AttemptId, (TaskLine, AttemptCard)>, Refusal> {
        let rows = self.store.statuses(attempts).await?;
        let tasks: Vec<TaskId> = rows.iter().map(|row| row.overview.line.task_id).collect();
        let lines = self.store.task_lines(&tasks).await?;
        let lines: HashMap<TaskId, TaskLine> =
            lines.into_iter().map(|line| (line.task_id, line)).collect();
        let shown = rows.into_iter().filter_map(|row| {
            let line = lines.get(&row.overview.line.task_id)?.clone();
            Some((row.overview.line.attempt_id, (line, card(row))))
        });
        Ok(shown.collect())
    }

    /// The cards of tasks, each with its newest attempt.
    async fn cards(
        &self,
        placed: impl Iterator<Item = &Placed>,
        attempts: &ByTask,
    ) -> Result<HashMap<TaskId, Card>, Refusal> {
        let why: HashMap<TaskId, Option<Why>> = placed.map(|it| (it.task, it.why)).collect();
        let tasks: Vec<TaskId> = why.keys().copied().collect();
        let newest = tasks.iter().filter_map(|task| attempts.get(task)?.last());
        let newest: Vec<AttemptId> = newest.map(|it| it.attempt_id).collect();
        let rows = self.store.statuses(&newest).await?;
        let mut rows: HashMap<TaskId, AttemptRow> =
            rows.into_iter().map(|row| (row.overview.line.task_id, row)).collect();
        let lines = self.store.task_lines(&tasks).await?.into_iter().map(|task| {
            let why = why.get(&task.task_id).copied().flatten();
            let attempt = rows.remove(&task.task_id).map(card);
            (task.task_id, Card { task, why, attempt })
        });
        Ok(lines.collect())
    }
}

fn card(row: AttemptRow) -> AttemptCard {
    let line = row.overview.line;
    AttemptCard {
        attempt_id: line.attempt_id,
        executor: line.executor,
        variant: line.variant,
        state: line.state,
        phase: line.phase,
        waiting_on: line.waiting_on,
        resume_at: row.overview.resume_at,
        created_at: line.created_at,
        updated_at: line.updated_at,
        failure_summary: row.failure_summary,
        final_message: row.final_message.map(|it| cut(it, FINAL_MESSAGE_MAX)),
    }
}

/// Rows by attempt, at most `most` of each.
fn grouped<T>(rows: Vec<(AttemptId, T)>, most: usize) -> HashMap<AttemptId, Vec<T>> {
    let mut of: HashMap<AttemptId, Vec<T>> = HashMap::new();
    for (attempt, row) in rows {
        let rows = of.entry(attempt).or_default();
        if rows.len() < most {
            rows.push(row);
        }
    }
    of
}
