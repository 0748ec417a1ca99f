//! Collections of worktrees: handed to the attempt's owner, whose mailbox puts
//! them in one order with follow-ups.

use crate::attempt::{self, Collect, CollectPort};
use crate::ids::AttemptId;

use super::{State, owners};

impl State {
    pub(super) fn collect(&self, id: AttemptId, how: Collect, port: CollectPort) {
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let told =
                owners::ask(&myself, id, false, |_, port| attempt::Message::Collect(how, port));
            let _ = port.send(told.await);
        });
    }
}
