//! `getNextTask`: the next task for a worker, shown or claimed. It also delivers the answers that wait
//! for the worker.

use crate::api::{Caller, Code, Idempotent, Key, Refusable, Refusal};
use async_trait::async_trait;

use crate::api::worker::next::{Filter, GetNextTaskInput, GetNextTaskOutput, NextTools};
use crate::domain::Domain;

#[async_trait]
impl NextTools for Domain {
    async fn get_next_task(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: GetNextTaskInput,
    ) -> Refusable<Idempotent<GetNextTaskOutput>> {
        let worker = self.worker(caller, input.project_id.as_deref()).await?;
        if !input.claim {
            let mut value = self.store.next_task(&worker, &input).await?;
            value.answers = self.store.deliver_answers(&worker, None).await?;
            return Ok(Idempotent { value, deduplicated: false });
        }
        if input.filter != Filter::Ready {
            return Err(Refusal::new(Code::InvalidArgument, "only a ready task can be claimed")
                .hint("Call getNextTask again without filter.")
                .detail("path", "filter"));
        }
        if !worker.may_write {
            return Err(Refusal::new(Code::NotPermitted, "to claim a task asks for write access")
                .hint("Call getNextTask again without claim."));
        }
        self.store.claim_next_task(key.as_ref(), &worker, &input).await
    }
}
