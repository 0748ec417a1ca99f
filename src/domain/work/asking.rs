//! What all tools that ask have in common: who asks, about which task, what the plan and earlier answers
//! say, and how a question gets into the inbox.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::ProjectId;
use serde_json::Value;

use crate::api::worker::report::LateAnswer;
use crate::api::worker::ticket::Urgency;
use crate::api::{Caller, Code, Refusal};
use crate::domain::Domain;
use crate::store::{Asking, NewQuestion, Question};
use crate::work::answer::{Answer, Hit, SHOWN, earlier};
use crate::work::reply::Known;

/// The refusal of a call whose question got no answer in time. The question stays in the inbox.
pub(super) fn timed_out(question: &Question, waited: Duration) -> Refusal {
    let (handle, seconds) = (&question.handle, waited.as_secs());
    let message = format!(
        "no answer to {handle} within {seconds} s. Create ticket or continue with other work: the \
         question is in the inbox, and the answer is delivered later"
    );
    Refusal::new(Code::Timeout, message).detail("question_id", handle.as_str())
}

impl Domain {
    /// Who asks, and about which task: the one named, else the task of the caller's attempt.
    pub(super) async fn asking(
        &self,
        caller: &Caller,
        project: Option<&str>,
        task: Option<&str>,
    ) -> Result<Asking, Refusal> {
        let worker = self.worker(caller, project).await?;
        self.store.asking(worker, task).await
    }

    /// What the plan and earlier answers say. `names` are sections to search first. Only `SEARCHES`
    /// questions are searched at the same time, so that other reads always find a connection.
    pub(super) async fn known(
        &self,
        asking: &Asking,
        question: &str,
        names: &[String],
    ) -> Result<Known, Refusal> {
        // The semaphore is never closed, so this can't fail.
        let _turn = self.searches.acquire().await;
        let project = asking.worker.project_id;
        let search = self.store.search_plans(project, question, names, &asking.sections).await?;
        let mut answer = Answer::of_plan(&search);
        let given = self.store.earlier_answers(project).await?;
        let mut has_earlier_answer = false;
        if let Some(same) = earlier::same(question, &given) {
            let said = &same.said;
            has_earlier_answer = said.is_decision() || !answer.is_sure();
            if has_earlier_answer {
                // This reply delivers the answer, also to an agent that asked before: it must not be
                // delivered again.
                let agent = &asking.worker.agent;
                self.store.take_answer(same.question_id, agent, &said.answer).await?;
            }
            // A decision of a person or the orchestrator replaces the plan's answer; an executor's answer
            // counts only where the plan is not sure.
            if said.is_decision() {
                answer = said.to_answer();
            } else if has_earlier_answer {
                let LateAnswer { question_id, answer: text, answered_by, .. } = said;
                answer = self.executor_answer(project, text, answered_by, question_id).await?;
            }
        }
        let decisions = earlier::similar(question, &given);
        let nearest = search.best(SHOWN).iter().map(Hit::to_near).collect();
        Ok(Known { answer, has_earlier_answer, decisions, nearest })
    }

    /// Puts a question into the inbox, or joins the same one there. `wait` is how long the call itself
    /// will wait for the answer: until then, the answer is not delivered otherwise.
    pub(super) async fn pass_on(
        &self,
        asking: &Asking,
        question: &str,
        context: Option<&Value>,
        priority: Urgency,
        wait: Option<Duration>,
    ) -> Result<Question, Refusal> {
        let waits_until = wait.map(|wait| Timestamp::now().plus(wait));
        let new = NewQuestion { question, context, priority, task: asking.task, waits_until };
        self.store.pass_on(&asking.worker, &new).await
    }

    /// An executor's answer. If it cites a passage of the plan word for word, the answer is that passage.
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
