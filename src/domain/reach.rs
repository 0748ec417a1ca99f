//! How far the board's tools reach from inside an attempt whose executor is
//! configured as an orchestrator: the attempts that it started, and its project.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::Domain;
use crate::api::{Access, Caller, Reach, Refusal, inside};
use crate::store::Named;

/// Tools that reach beyond one project, or of which no argument says how far: with
/// one of these arguments they are within it.
const ONLY_WITH: [(&str, &[&str]); 5] = [
    ("list_inbox", &["project_id", "attempt_id"]),
    ("answer", &["approval_id", "project_id"]),
    ("list_approvals", &["attempt_id"]),
    ("list_questions", &["project_id"]),
    ("answer_question", &["project_id"]),
];

/// Tools that show nothing of any project. All others name what they are about.
const OF_NO_PROJECT: [&str; 1] = ["list_executors"];

/// What is a person's to do.
const NEVER: [&str; 5] =
    ["list_projects", "create_project", "add_repo", "delete_task", "finish_attempt"];

#[async_trait]
impl Reach for Domain {
    async fn permit(
        &self,
        caller: &Caller,
        tool: &'static str,
        access: Access,
        arguments: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let Some(own) = caller.place.attempt() else { return Err(inside::refused(caller, tool)) };
        if NEVER.contains(&tool) {
            return Err(inside::refused(caller, tool));
        }
        let lacking = ONLY_WITH.iter().find(|(name, _)| *name == tool);
        let lacks = |fields: &[&str]| !fields.iter().any(|field| arguments.contains_key(*field));
        if let Some((_, fields)) = lacking.filter(|(_, fields)| lacks(fields)) {
            return Err(inside::lacking(caller, tool, fields));
        }
        if !OF_NO_PROJECT.contains(&tool) && !arguments.keys().any(|name| is_id(name)) {
            return Err(inside::refused(caller, tool));
        }
        for (name, value) in arguments.iter().filter(|(name, _)| is_id(name)) {
            let Some(named) = Named::by(name, tool) else {
                return Err(inside::too_far(caller, tool, name, ""));
            };
            for id in texts(value) {
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
