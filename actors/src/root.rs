//! The root of the actor tree. It links the actors that must live as long as the daemon, and never ends
//! with a child: the owner of a child decides what the child's end means.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

/// An actor without messages: it only logs the failure of a child.
pub struct Root;

impl Actor for Root {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    // The default of ractor would end the root, and with it every healthy sibling.
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
