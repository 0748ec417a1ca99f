//! What every way to ask has in common: who asks, in which task, and what is known
//! already.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::refusal::Refusal;

use crate::api::Session;
use crate::domain::Domain;
use crate::work::answer::{self, Focus, Ruling, SURE, rulings};
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

    /// What the plan and earlier rulings say. Few questions are looked up at once, so that
    /// other reads always find a connection and a thread.
    pub(super) async fn known(
        &self,
        asking: &Asking,
        question: &str,
        focus: &Focus,
    ) -> Result<Known, Refusal> {
        // Never closed.
        let _turn = self.searches.acquire().await;
        let project = asking.worker.project_id;
        let decided: Vec<Ruling> = self.store.rulings(project).await?;
        let near = focus.terms.iter().chain(&focus.sections).cloned().collect::<Vec<_>>().join(" ");
        let search = self.store.search_plans(project, question, &near).await?;
        let (asked, focused) = (question.to_owned(), focus.clone());
        let weighed = tokio::task::spawn_blocking(move || {
            let found = answer::find(&search, &focused);
            let ruling = rulings::same(&asked, &decided).cloned();
            (answer::tell(&search, &found), ruling, rulings::similar(&asked, &decided))
        });
        let (mut told, ruling, decisions) =
            weighed.await.map_err(|error| Refusal::internal(error.to_string()))?;
        let mut is_ruled = false;
        if let Some(ruling) = ruling {
            // Whoever asked it is told by this.
            self.store.take_answer(ruling.question_id, &asking.worker.agent).await?;
            let ruled = rulings::told(&ruling);
            is_ruled = ruled.confidence > told.confidence;
            told = if is_ruled { ruled } else { told };
        }
        let nearest = if told.confidence < SURE {
            self.store.nearest_passages(project, question, &focus.terms).await?
        } else {
            Vec::new()
        };
        Ok(Known { told, is_ruled, decisions, nearest })
    }
}
