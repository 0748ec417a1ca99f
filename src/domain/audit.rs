//! Writes the two lines of each change into the audit log: at its begin and at its end. Of the arguments,
//! only ids and the action are written; texts never are.

use provost_actors::event::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Domain;
use crate::api::users::OWNER;
use crate::api::{Audit, Caller, Change};
use crate::audit::Line;

impl Audit for Domain {
    fn begin_change(&self, caller: &Caller, what: &str, arguments: &Map<String, Value>) -> Change {
        let change = Uuid::now_v7();
        // `action` says what a tool with several actions does. No other text is copied.
        let is_id = |name: &str| name.ends_with("_id") || name.ends_with("Id") || name == "action";
        let of = arguments.iter().filter(|(name, value)| is_id(name) && value.is_string());
        self.audit.append(&Line::Begin {
            at: Timestamp::now(),
            change,
            who: who(caller),
            from: caller.origin.from.clone(),
            what: what.to_owned(),
            of: of.map(|(name, value)| (name.clone(), value.clone())).collect(),
        });
        Change(change)
    }

    fn end_change(&self, Change(change): Change, refused: Option<&str>) {
        let outcome = refused.unwrap_or("done").to_owned();
        self.audit.append(&Line::End { at: Timestamp::now(), change, outcome });
    }
}

/// Who makes the change: a user, an attempt, or the name that a client gave itself. A person's command
/// line counts as the owner.
fn who(caller: &Caller) -> String {
    let owner = caller.is_person.then(|| OWNER.to_owned());
    let user = caller.origin.user.clone().or(owner);
    user.unwrap_or_else(|| match caller.attempt {
        Some(attempt) => format!("attempt {attempt}"),
        None => caller.agent.clone(),
    })
}
