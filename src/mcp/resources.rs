//! Attempts as MCP resources. Each URI stands for a call of a tool, and its text is the output of that
//! tool, so that a resource never shows more or less than the call. Pure.

use provost_actors::ids::AttemptId;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::{NAME_SHOWN_MAX, cut};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};

use crate::api::Caller;
use crate::tools::{Tool, table};

/// How many attempts a list shows: the newest ones.
pub const LISTED: usize = 20;

const ATTEMPTS: &str = "provost://attempts/";
const JSON: &str = "application/json";

/// One thing that can be read of an attempt, and the tool that it calls.
struct View {
    /// What follows the attempt's id.
    path: &'static str,
    tool: &'static str,
    title: &'static str,
    description: &'static str,
}

const VIEWS: [View; 3] = [
    View {
        path: "",
        tool: "get_attempt_status",
        title: "Attempt status",
        description: "The status of an attempt, as get_attempt_status returns it.",
    },
    View {
        path: "/log",
        tool: "tail_attempt_logs",
        title: "Attempt log",
        description: "The newest entries of an attempt's log, as tail_attempt_logs returns them.",
    },
    View {
        path: "/changes",
        tool: "get_attempt_changes",
        title: "Attempt changes",
        description: "The files that an attempt changed, as get_attempt_changes lists them.",
    },
];

impl View {
    /// The tool behind the view, if the caller may use it.
    fn tool(&self, caller: &Caller) -> Option<&'static Tool> {
        table::find(self.tool).filter(|tool| tool.is_for(caller))
    }
}

/// The kinds of resources that a caller may read.
pub fn templates(caller: &Caller) -> Vec<ResourceTemplate> {
    let views = VIEWS.iter().filter(|view| view.tool(caller).is_some());
    views
        .map(|view| {
            let uri = format!("{ATTEMPTS}{{attempt_id}}{}", view.path);
            ResourceTemplate::new(uri, view.title)
                .with_title(view.title)
                .with_description(view.description)
                .with_mime_type(JSON)
        })
        .collect()
}

/// An attempt as a list shows it.
pub fn listed((attempt_id, task_title): &(AttemptId, String)) -> Resource {
    let name = format!("{task_title} ({})", attempt_id.short());
    Resource::new(format!("{ATTEMPTS}{attempt_id}"), name).with_mime_type(JSON)
}

/// The call that a URI stands for. `None`: the URI is unknown, or the caller may not use the tool.
pub fn call(uri: &str, caller: &Caller) -> Option<(&'static Tool, Map<String, Value>)> {
    let rest = uri.strip_prefix(ATTEMPTS)?;
    let (attempt, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let tool = VIEWS.iter().find(|view| view.path == path)?.tool(caller)?;
    Some((tool, Map::from_iter([("attempt_id".to_owned(), json!(attempt))])))
}

/// What was read.
pub fn contents(uri: &str, output: &Value) -> ReadResourceResult {
    let text = ResourceContents::text(output.to_string(), uri).with_mime_type(JSON);
    ReadResourceResult::new(vec![text])
}

/// The error for a URI that names no resource.
pub fn unknown(uri: &str) -> ErrorData {
    let shown = cut(uri.to_owned(), NAME_SHOWN_MAX);
    let hint = "Read one from resources/list or resources/templates/list.";
    let data = json!({"uri": uri, "hint": hint});
    ErrorData::resource_not_found(format!("There is no resource `{shown}`."), Some(data))
}

/// The error for a call that was refused, with the refusal as its data.
pub fn fault(refusal: Refusal) -> ErrorData {
    let data = Some(refusal.envelope());
    match refusal.code {
        // The id in the URI is malformed, or no attempt has it.
        Code::AttemptNotFound | Code::InvalidArgument => {
            ErrorData::resource_not_found(refusal.message, data)
        }
        _ => ErrorData::internal_error(refusal.message, data),
    }
}
