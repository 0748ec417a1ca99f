//! Writes the two lines of each change into the audit log: at its begin and at its end. Of the arguments,
//! only ids and the action are written; texts never are.

use provost_actors::event::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Domain;
use crate::api::users::OWNER;
use crate::api::{Audit, Caller, Change};
use crate::audit::Line;

/// The longest id that is written, in bytes: that of a `request_id`.
const ID_MAX: usize = 128;

impl Audit for Domain {
    fn begin_change(&self, caller: &Caller, what: &str, arguments: &Map<String, Value>) -> Change {
        let change = Uuid::now_v7();
        self.audit.append(&Line::Begin {
            at: Timestamp::now(),
            change,
            who: who(caller),
            from: caller.origin.from.clone(),
            what: what.to_owned(),
            of: ids_among(arguments),
        });
        Change(change)
    }

    fn end_change(&self, Change(change): Change, refused: Option<&str>) {
        let outcome = refused.unwrap_or("done").to_owned();
        self.audit.append(&Line::End { at: Timestamp::now(), change, outcome });
    }
}

/// The ids among the arguments, and `action`, which says what a tool with several actions does. The arguments
/// are not checked yet, so only what looks like an id is copied: a caller can give any text that name.
fn ids_among(arguments: &Map<String, Value>) -> Map<String, Value> {
    let names_id = |name: &str| name.ends_with("_id") || name.ends_with("Id") || name == "action";
    let is_id =
        |text: &str| text.len() <= ID_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    let of = arguments
        .iter()
        .filter(|(name, value)| names_id(name) && is_id(name) && value.as_str().is_some_and(is_id));
    of.map(|(name, value)| (name.clone(), value.clone())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_an_id_is_written() {
        let long = "x".repeat(ID_MAX + 1);
        let ids = [
            ("attempt_id", "019f3f6e-7c1a-7d3e-9a55-0123456789ab"),
            ("originalTaskId", "TASK-001"),
            ("action", "merge"),
        ];
        let texts = [
            ("prompt", "TASK-001"),
            ("task_id", "fix the login page"),
            ("request_id", long.as_str()),
            ("a sentence that ends with _id", "x"),
        ];
        let map = |entries: &[(&str, &str)]| -> Map<String, Value> {
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
        };
        let mut arguments = map(&texts);
        arguments.extend(map(&ids));
        assert_eq!(ids_among(&arguments), map(&ids));
    }
}
