//! The worker API brought about: who calls and in which project, then the store's
//! one transaction.

mod asking;
mod checks;
mod consult;
mod immediate;
mod inbox;
mod next;
mod notes;
mod plans;
mod question;
mod reports;
mod scope;
mod tickets;

use async_trait::async_trait;
use provost_actors::refusal::Refusal;

use super::Domain;
use crate::api::Session;
use crate::api::worker::answers::AnswerTools;
use crate::work::consult::{CallCoeAgentInput, CallCoeAgentOutput};
use crate::work::immediate::{GetImmediateAnswerInput, GetImmediateAnswerOutput};
use crate::work::question::{AskQuestionInput, AskQuestionOutput};

#[async_trait]
impl AnswerTools for Domain {
    async fn ask_question(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Result<AskQuestionOutput, Refusal> {
        self.asked(session, input).await
    }

    async fn get_immediate_answer(
        &self,
        session: &Session,
        input: GetImmediateAnswerInput,
    ) -> Result<GetImmediateAnswerOutput, Refusal> {
        self.answered_now(session, input).await
    }

    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Result<CallCoeAgentOutput, Refusal> {
        self.consulted(session, input).await
    }
}
