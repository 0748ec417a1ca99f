//! The trait behind the tools that ask.

use async_trait::async_trait;

use crate::api::{Refusable, Session};
use crate::work::consult::{CallCoeAgentInput, CallCoeAgentOutput};
use crate::work::immediate::{GetImmediateAnswerInput, GetImmediateAnswerOutput};
use crate::work::question::{AskQuestionInput, AskQuestionOutput};

/// What the tools that ask want of the daemon.
#[async_trait]
pub trait AnswerTools: Send + Sync {
    async fn ask_question(
        &self,
        session: &Session,
        input: AskQuestionInput,
    ) -> Refusable<AskQuestionOutput>;

    async fn get_immediate_answer(
        &self,
        session: &Session,
        input: GetImmediateAnswerInput,
    ) -> Refusable<GetImmediateAnswerOutput>;

    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Refusable<CallCoeAgentOutput>;
}
