//! What every way to ask has in common: who asks, in which task, and what is known
//! already.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::refusal::Refusal;

use crate::domain::Domain;
use crate::mcp::ask::Session;
use crate::work::answer::{self, Focus, Ruling, rulings};
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

    /// What the plan and earlier rulings say.
    pub(super) async fn known(
        &self,
        asking: &Asking,
        question: &str,
        focus: &Focus,
    ) -> Result<Known, Refusal> {
        let project = asking.worker.project_id;
        let decided: Vec<Ruling> = self.store.rulings(project).await?;
        let near = focus.terms.iter().chain(&focus.sections).cloned().collect::<Vec<_>>().join(" ");
        let search = self.store.search_plans(project, question, &near).await?;
        let found = answer::find(&search, focus);
        let told = answer::tell(&search, &found);
        let decisions = rulings::similar(question, &decided);
        let Some(ruling) = rulings::same(question, &decided) else {
            return Ok(Known { told, is_ruled: false, decisions });
        };
        // Whoever asked it is told by this.
        self.store.take_answer(ruling.question_id, &asking.worker.agent).await?;
        let ruled = rulings::told(ruling);
        let is_ruled = ruled.confidence > told.confidence;
        Ok(Known { told: if is_ruled { ruled } else { told }, is_ruled, decisions })
    }
}
