//! Tasks as JSON: an array of objects, or an object with such an array as `tasks`.

use serde_json::Value;

use super::{Draft, Faults};
use crate::lenient;

/// The tasks of a JSON text, or all its faults. Slightly wrong JSON is read leniently.
pub fn drafts(text: &str) -> Result<Vec<Draft>, Faults> {
    let value = serde_json::from_str(text)
        .or_else(|error| lenient::read(text.as_bytes()).ok_or(error))
        .map_err(|error| vec![format!("line {}: it is not JSON: {error}", error.line())])?;
    let tasks = match value {
        Value::Array(tasks) => Some(tasks),
        Value::Object(mut whole) => match whole.remove("tasks") {
            Some(Value::Array(tasks)) => Some(tasks),
            _ => None,
        },
        _ => None,
    };
    let Some(tasks) = tasks else {
        return Err(vec!["it must be an array of tasks, or an object with such a `tasks`".into()]);
    };
    let mut drafts = Vec::new();
    let mut faults = Faults::new();
    for (number, task) in (1..).zip(tasks) {
        match task {
            Value::Object(members) => {
                let title = members.get("title").and_then(Value::as_str);
                let title = title.map(|title| format!(" ({title:?})")).unwrap_or_default();
                drafts.push(Draft { place: format!("task {number}{title}"), members });
            }
            _ => faults.push(format!("task {number}: it must be an object")),
        }
    }
    if faults.is_empty() { Ok(drafts) } else { Err(faults) }
}
