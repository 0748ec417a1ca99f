//! The root of the actor tree: links what must live as long as the daemon and
//! never ends with a child. The owner of a child decides what its end means.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

pub struct Root;

impl Actor for Root {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    // ractor's default would end the root, and with it every healthy sibling.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(child, error) = event {
            tracing::error!(child = %child.get_id(), %error, "an actor failed");
        }
        Ok(())
    }
}
