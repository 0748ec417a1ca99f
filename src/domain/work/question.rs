//! `askQuestion`: what the plan or an earlier ruling says; what they don't say goes to the
//! inbox, or first to the executor that the project has for answers.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::refusal::{Code, Refusal};

use super::consult::Consulted;
use crate::domain::Domain;
use crate::mcp::ask::Session;
use crate::store::NewQuestion;
use crate::work::answer::{self, Focus, Ruling, Told, rulings, words};
use crate::work::question::{AskQuestionInput, AskQuestionOutput};
use crate::work::reply::{Known, Outcome};
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

fn is_of_the_wait(code: Code) -> bool {
    matches!(code, Code::Timeout | Code::DaemonRestarting | Code::ShuttingDown)
}

impl Domain {
    pub(in crate::domain) async fn asked(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        input.check(self.answers.token_limit)?;
        let project = input.project_id.as_deref();
        let asking = self.asking(session, project, input.task()).await?;
        let focus = Focus { terms: input.terms(), sections: asking.sections.clone() };
        let mut known = self.known(&asking, &input.question, &focus).await?;
        let mut outcome = Outcome::Told;
        if !known.is_sure() {
            let context = input.told();
            // One that it has answered already waits for somebody's word.
            let asks_executor =
                self.answers.is_configured() && !asking.is_answering && !known.is_ruled;
            let wait = Duration::from_secs(self.answers.timeout_secs);
            let new = NewQuestion {
                question: &input.question,
                normal: &words::normal(&input.question),
                context: context.as_ref(),
                priority: input.urgency(),
                task: asking.task,
                waits_until: asks_executor.then(|| after(wait)),
            };
            let question = self.store.pass_on(&asking.worker, &new).await?;
            outcome = Outcome::PassedOn(question.handle.clone());
            if question.answered.is_some() {
                // Meanwhile somebody ruled.
                known = self.known(&asking, &input.question, &focus).await?;
                outcome = Outcome::Told;
            } else if asks_executor {
                match self.consult(&asking, &question, wait).await {
                    Ok(Consulted { answer, executor }) => {
                        known.told = Told::consulted(&answer, &executor, &question.handle);
                        outcome = Outcome::Answered(question.handle);
                    }
                    Err(refusal) if is_of_the_wait(refusal.code) => return Err(refusal),
                    // It gave no answer: the question is with people now.
                    Err(_) => {}
                }
            }
        }
        let answers = self.store.due_answers(&asking.worker, asking.task).await?;
        Ok(input.reply(known, &outcome, answers))
    }

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
