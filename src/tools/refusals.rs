//! The refusals of tools that a caller may not use, and of tools that do not exist.

use std::ops::Deref;

use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{NAME_SHOWN_MAX, cut};
use serde_json::{Value, json};

use super::row::Row;
use super::suggest::{self, Meant};
use super::table;
use crate::api::{Access, Caller, inside};

/// The refusal of a tool that needs more access than the connection has, with the way to get it.
pub fn beyond_access(tool: &Row, caller: &Caller) -> Refusal {
    let (name, needed, access) = (tool.name, tool.access(), caller.access);
    if caller.place.is_inside() && (caller.attempt.is_none() || needed == Access::Admin) {
        return inside::refused(caller, name);
    }
    let message = format!("{name} needs {needed} access, and this connection has {access} access");
    let hint = match &caller.origin.user {
        Some(user) => {
            format!("Use the token of a user with {needed} access, which {user} has not.")
        }
        None => format!("Connect with `provost mcp --access {needed}`, then call {name} again."),
    };
    Refusal::new(Code::NotPermitted, message)
        .hint(hint)
        .detail("tool", name)
        .detail("access", access.to_string())
        .detail("needed", needed.to_string())
}

/// The refusal of a tool that is not one of the caller's role, or works only inside an attempt.
pub fn not_permitted(tool: &Row, caller: &Caller) -> Refusal {
    let name = tool.name;
    let role = caller.role;
    if caller.place.is_inside() {
        return inside::refused(caller, name).detail("role", role.to_string());
    }
    let refusal = if tool.is_for_role(role) && !tool.is_workers() {
        Refusal::new(Code::NotPermitted, format!("{name} works only inside an attempt."))
            .hint("Call list_projects instead.")
    } else {
        Refusal::new(Code::NotPermitted, format!("{name} is not a tool of the role {role}."))
    };
    refusal.detail("tool", name).detail("role", role.to_string())
}

/// The error for a name that no tool has.
pub struct Unknown {
    /// The whole explanation: most clients show the message only.
    pub message: String,
    /// The hint, the nearest tool, and all tools that the caller may use.
    pub data: Value,
}

/// What to answer to a name that no tool has. Suggests a tool only from those that the caller may use.
pub fn unknown(name: &str, caller: &Caller) -> Unknown {
    let visible = table::all().iter().map(Deref::deref).filter(|tool| tool.is_for(caller));
    let visible: Vec<&Row> = visible.collect();
    let shown = cut(name.to_owned(), NAME_SHOWN_MAX);
    let names: Vec<&str> = visible.iter().map(|tool| tool.name).collect();
    let use_another = "Use one of the tools in tools/list.".to_owned();
    let (message, hint, nearest) = match suggest::tool(&shown, &visible) {
        Meant::Tool(near) => (
            format!("There is no tool `{shown}`; did you mean {near}?"),
            format!("Call {near} instead."),
            Some(near),
        ),
        Meant::Absent(why) => (format!("There is no tool `{shown}`. {why}"), use_another, None),
        Meant::Unknown => (format!("There is no tool `{shown}`."), use_another, None),
    };
    let data = json!({"hint": hint, "nearest": nearest, "tools": names});
    Unknown { message, data }
}
