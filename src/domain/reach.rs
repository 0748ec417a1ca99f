//! How far the board's tools reach from inside an attempt whose executor is configured as an
//! orchestrator: the attempts that it started, and its project. Every id in the arguments has to be
//! within reach.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::Domain;
use crate::api::inside::{self, Inside};
use crate::api::{Access, Caller, Reach, Refusal};
use crate::store::Named;

#[async_trait]
impl Reach for Domain {
    async fn permit(
        &self,
        caller: &Caller,
        tool: &'static str,
        reach: Inside,
        access: Access,
        arguments: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let Some(own) = caller.place.attempt() else { return Err(inside::refused(caller, tool)) };
        let names = |fields: &[&str]| fields.iter().any(|field| arguments.contains_key(*field));
        match reach {
            Inside::Never => return Err(inside::refused(caller, tool)),
            Inside::NamedBy(fields) if !names(fields) => {
                return Err(inside::lacking(caller, tool, fields));
            }
            Inside::Named if !arguments.keys().any(|name| is_id(name)) => {
                return Err(inside::refused(caller, tool));
            }
            Inside::OfNoProject | Inside::Named | Inside::NamedBy(_) => {}
        }
        for (name, value) in arguments.iter().filter(|(name, _)| is_id(name)) {
            let Some(named) = Named::by(name, tool) else {
                return Err(inside::too_far(caller, tool, name, ""));
            };
            for id in texts(value) {
                // An attempt may always read itself; to change itself is not within its reach.
                let is_itself = access == Access::Read
                    && name.starts_with("attempt_id")
                    && id.parse().is_ok_and(|id: provost_actors::ids::AttemptId| id == own);
                if !is_itself && !self.store.reaches(own, named, id).await? {
                    return Err(inside::too_far(caller, tool, name, id));
                }
            }
        }
        Ok(())
    }
}

/// True for arguments that name something on the board. `request_id` is a key that the caller chose.
fn is_id(name: &str) -> bool {
    (name.ends_with("_id") || name.ends_with("_ids")) && name != "request_id"
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
