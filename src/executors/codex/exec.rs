//! `codex exec --json`: one prompt and its end, a line an event. It is read, not
//! talked to.

use provost_actors::event::Timestamp;
use provost_actors::executor::{Observed, TurnEnded};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::json::{system, text};
use super::error::Errors;
use super::item::{self, Items};
use super::usage;

/// Reads one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Exec {
    items: Items,
    errors: Errors,
    pub has_ended: bool,
}

impl Exec {
    /// One line. `false`: it is not understood.
    pub fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        match text(message, "type") {
            "thread.started" => {
                let Some(id) = message["thread_id"].as_str() else { return false };
                out.push(Observed::ExecutorSession(id.to_owned()));
            }
            "turn.started" => self.has_ended = false,
            "item.started" => return self.items.started(&camel(&message["item"]), out),
            "item.updated" => return updated(&camel(&message["item"]), out),
            "item.completed" => return self.items.completed(&camel(&message["item"]), out),
            "error" => {
                let text = text(message, "message");
                if text.starts_with("Reconnecting") {
                    out.push(system(text.to_owned()));
                } else {
                    self.errors.tell(text, &Value::Null, at, out);
                }
            }
            "turn.completed" => {
                if message["usage"].is_object() {
                    usage::of_exec(&message["usage"]).tell(out);
                }
                self.has_ended = true;
                out.push(Observed::TurnEnded(TurnEnded::default()));
            }
            "turn.failed" => {
                let text = message["error"]["message"].as_str().unwrap_or("the turn failed");
                self.has_ended = true;
                self.errors.fail(text, &Value::Null, at, out);
            }
            _ => return false,
        }
        true
    }

    /// The process has ended.
    pub fn end(&mut self, out: &mut Vec<Observed>) {
        self.items.flush(out);
    }
}

/// A list of things to do is told whenever it changes.
fn updated(item: &Value, out: &mut Vec<Observed>) -> bool {
    let is_list = item["type"] == "todoList";
    if is_list {
        out.push(system(item::todos(&item["items"])));
    }
    // What else changes is told as it is at its end.
    is_list || item["type"].is_string()
}

/// An item with the app server's names.
fn camel(item: &Value) -> Value {
    let fields = item.as_object().into_iter().flatten().map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("type", Value::String(kind)) => Value::String(camel_name(kind)),
            _ => value.clone(),
        };
        (camel_name(name), value)
    });
    Value::Object(fields.collect::<Map<_, _>>())
}

fn camel_name(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}
