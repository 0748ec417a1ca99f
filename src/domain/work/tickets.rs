//! `createTicket`.

use provost_actors::refusal::Refusal;

use crate::domain::Domain;
use crate::mcp::ask::{Answer, Key, Session};
use crate::work::ticket::{CreateTicketInput, CreateTicketOutput};

impl Domain {
    pub(in crate::domain) async fn new_ticket(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTicketInput,
    ) -> Result<Answer<CreateTicketOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.create_ticket(key.as_ref(), &worker, &input).await
    }
}
