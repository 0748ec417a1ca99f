//! What every way to ask has in common: who asks, in which task, and what the plan and
//! earlier answers say.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::refusal::Refusal;

use crate::api::Session;
use crate::domain::Domain;
use crate::work::answer::SHOWN;
use crate::work::answer::{Answer, Hit, rulings};
use crate::work::reply::Known;
use crate::work::{TaskKind, Worker};

/// The task that a question comes up in.
pub(super) struct Asking {
    pub worker: Worker,
    pub task: Option<TaskId>,
    /// The sections of the plan that the task is about.
    pub sections: Vec<String>,
    /// The task is to answer a question.
    pub is_answering: bool,
}

/// The moment when a wait that begins now is over.
pub(super) fn after(wait: Duration) -> Timestamp {
    let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(Timestamp::now().millis().saturating_add(millis))
}

impl Domain {
    /// Who asks, and in which task: the one named, or that of the attempt.
    pub(super) async fn asking(
        &self,
        session: &Session,
        project: Option<&str>,
        task: Option<&str>,
    ) -> Result<Asking, Refusal> {
        let worker = self.worker(session, project).await?;
        let found = self.store.task_of(&worker, task).await?;
        let task = found.as_ref().map(|found| found.task_id);
        let is_answering = found.as_ref().is_some_and(|found| found.kind == TaskKind::Answer);
        let sections = found.map(|found| found.sections).unwrap_or_default();
        Ok(Asking { worker, task, sections, is_answering })
    }

    /// What the plan and earlier answers say; `names` are sections to look at first. Few
    /// questions are looked up at once, so that other reads always find a connection.
    pub(super) async fn known(
        &self,
        asking: &Asking,
        question: &str,
        names: &[String],
    ) -> Result<Known, Refusal> {
        // Never closed.
        let _turn = self.searches.acquire().await;
        let project = asking.worker.project_id;
        let search = self.store.search_plans(project, question, names, &asking.sections).await?;
        let mut answer = Answer::of_plan(&search);
        let given = self.store.rulings(project).await?;
        let mut has_earlier_answer = false;
        if let Some(ruling) = rulings::same(question, &given) {
            // This reply delivers the answer to an agent that asked before.
            self.store.take_answer(ruling.question_id, &asking.worker.agent).await?;
            has_earlier_answer = ruling.is_decision() || !answer.is_sure();
            if ruling.is_decision() {
                answer = ruling.to_answer();
            } else if has_earlier_answer {
                let (said, by) = (&ruling.answer, &ruling.by);
                answer = self.executor_answer(project, said, by, &ruling.handle).await?;
            }
        }
        let decisions = rulings::similar(question, &given);
        let nearest = search.best(SHOWN).iter().map(Hit::to_near).collect();
        Ok(Known { answer, has_earlier_answer, decisions, nearest })
    }

    /// An executor's answer: the passage of the plan that it cites, if it does so verbatim.
    pub(super) async fn executor_answer(
        &self,
        project: ProjectId,
        answer: &str,
        executor: &str,
        question: &str,
    ) -> Result<Answer, Refusal> {
        if let Some((hit, words)) = self.store.cited(project, answer).await? {
            return Ok(Answer::of_citation(&hit, &words));
        }
        Ok(Answer::of_executor(answer, executor, question))
    }
}
