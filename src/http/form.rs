//! Forms of the page: `POST /do/<tool>` with the tool's arguments as fields calls the tool. So every
//! action also works without a script.

use axum::Form;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

use super::{RequestContext, login, page, problem};
use crate::tools::{REQUEST_ID, Tool, table};

/// The field with the request id, which is made when the page is rendered: a double click is one call.
const CALL: &str = "_request_id";
/// The field with the path to which the browser returns after a call without script.
const BACK: &str = "_back";

/// Handles `POST /do/<tool>`. A script gets a fragment with the outcome; a browser without script
/// is redirected to the field `_back`, which can only be a path of this site.
pub async fn submit(
    Path(name): Path<String>,
    desk: RequestContext,
    headers: HeaderMap,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let is_script = headers.contains_key("hx-request");
    let back = fields.iter().find(|(name, _)| name == BACK).map_or("/", |(_, path)| path.as_str());
    let done = match table::find(&name) {
        None => Err(problem::no_tool(&name, &desk.caller)),
        Some(tool) => match arguments(tool, &fields) {
            Ok(arguments) => desk.call(tool.name, arguments).await.map(|done| (tool, done.value)),
            Err(refusal) => Err(refusal),
        },
    };
    match done {
        Ok((tool, answer)) if is_script => page::done(tool.title, &answer),
        Ok(_) => Redirect::to(login::local(back)).into_response(),
        Err(refusal) => page::refused(&refusal),
    }
}

/// The fields as the tool's arguments, with the types that its schema names. An empty field counts
/// as left out; several fields with the name of an array are its items.
fn arguments(tool: &Tool, fields: &[(String, String)]) -> Result<Map<String, Value>, Refusal> {
    let definition = tool.definition();
    let properties = definition.input_schema.get("properties").cloned().unwrap_or_default();
    let mut arguments = Map::new();
    for (name, text) in fields.iter().filter(|(name, text)| name != BACK && !text.is_empty()) {
        let name = if name == CALL { REQUEST_ID } else { name.as_str() };
        let kinds = kinds(&properties[name]);
        let value = if kinds.contains(&"array") {
            let items = arguments.entry(name).or_insert_with(|| json!([]));
            let item = typed(name, text, &self::kinds(&properties[name]["items"]))?;
            if let Some(items) = items.as_array_mut() {
                items.push(item);
            }
            continue;
        } else {
            typed(name, text, &kinds)?
        };
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

/// The JSON types that a schema allows; empty if it names none, and then the text is a string.
fn kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => schema["anyOf"].as_array().into_iter().flatten().flat_map(kinds).collect(),
    }
}

/// A field's text as the first type that fits, in the order below. `string` comes first, because a
/// form can't tell "12" from 12.
fn typed(name: &str, text: &str, kinds: &[&str]) -> Result<Value, Refusal> {
    let wrong = |expected: &str| {
        Refusal::new(Code::InvalidArgument, format!("`{name}` is no {expected}"))
            .detail("path", name)
    };
    // A browser ends the lines of a text area with CR LF.
    if kinds.contains(&"string") || kinds.is_empty() {
        Ok(json!(text.replace("\r\n", "\n")))
    } else if kinds.contains(&"boolean") {
        Ok(json!(["true", "on", "1"].contains(&text)))
    } else if kinds.contains(&"integer") {
        text.trim().parse::<i64>().map(Value::from).map_err(|_| wrong("whole number"))
    } else if kinds.contains(&"number") {
        text.trim().parse::<f64>().map(Value::from).map_err(|_| wrong("number"))
    } else {
        serde_json::from_str(text).map_err(|_| wrong("JSON"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tool: &str, fields: &[(&str, &str)]) -> Result<Value, Refusal> {
        let fields: Vec<_> =
            fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        arguments(table::find(tool).unwrap(), &fields).map(Value::Object)
    }

    #[test]
    fn fields_become_what_the_schema_says() {
        let fields =
            [("attempt_id", "x"), ("force", "on"), ("_request_id", "r"), ("_back", "/board")];
        let expected = json!({"attempt_id": "x", "force": true, "request_id": "r"});
        assert_eq!(read("stop_attempt", &fields).unwrap(), expected);
        let fields =
            [("title", "12"), ("description", ""), ("depends_on", "a"), ("depends_on", "b")];
        let expected = json!({"title": "12", "depends_on": ["a", "b"]});
        assert_eq!(read("create_task", &fields).unwrap(), expected);
        assert_eq!(read("list_tasks", &[("limit", "5")]).unwrap(), json!({"limit": 5}));
        assert_eq!(read("list_tasks", &[("limit", "x")]).unwrap_err().code, Code::InvalidArgument);
    }
}
