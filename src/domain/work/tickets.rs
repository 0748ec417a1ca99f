//! `createTicket`.

use crate::api::Refusable;
use crate::api::worker::ticket::TicketTools;
use async_trait::async_trait;

use crate::api::worker::ticket::{CreateTicketInput, CreateTicketOutput};
use crate::api::{Key, Once, Session};
use crate::domain::Domain;

#[async_trait]
impl TicketTools for Domain {
    async fn create_ticket(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTicketInput,
    ) -> Refusable<Once<CreateTicketOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.create_ticket(key.as_ref(), &worker, &input).await
    }
}
