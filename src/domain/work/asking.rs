//! What every way to ask has in common: who asks, in which task, and what the plan and
//! earlier answers say.

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

/// The refusal of a call that got no answer to its question in time.
pub(super) fn timed_out(question: &Question, waited: Duration) -> Refusal {
    let (handle, seconds) = (&question.handle, waited.as_secs());
    let message = format!(
        "no answer to {handle} within {seconds} s. Create ticket or continue with other work: the \
         question is in the inbox, and the answer is delivered later"
    );
    Refusal::new(Code::Timeout, message).detail("question_id", handle.as_str())
}

impl Domain {
    /// Who asks, and in which task: the one named, or that of the attempt.
    pub(super) async fn asking(
        &self,
        caller: &Caller,
        project: Option<&str>,
        task: Option<&str>,
    ) -> Result<Asking, Refusal> {
        let worker = self.worker(caller, project).await?;
        self.store.asking(worker, task).await
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
        let given = self.store.earlier_answers(project).await?;
        let mut has_earlier_answer = false;
        if let Some(same) = earlier::same(question, &given) {
            // This reply delivers the answer to an agent that asked before.
            self.store.take_answer(same.question_id, &asking.worker.agent).await?;
            let said = &same.said;
            has_earlier_answer = said.is_decision() || !answer.is_sure();
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

    /// Puts a question into the inbox; the call waits for its answer for so long.
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
