//! Refuses arguments that do not fit a tool, so that the caller can fix the call: the refusal names the
//! field, what the field takes, and where its values come from. Pure.

use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value};

use super::contract::{Fault, ToolContract, property, shown};
use super::repair::repair;
use super::schema::REQUEST_ID;
use crate::api::args::{ID_PATTERN, TASK_PATTERN};
use crate::api::field_path::{BRANCH_FIELD, join, name_of};

impl ToolContract {
    /// Checks arguments against the full schema. `None`: they fit; else the refusal of the first fault.
    pub fn fault(&self, arguments: &Value) -> Option<Refusal> {
        if self.validator.is_valid(arguments) {
            return None;
        }
        Some(match self.first_fault(arguments) {
            Some(Fault::Unknown(pointer, fields)) => {
                self.unknown(&pointer, fields.first().map_or("", String::as_str), arguments)
            }
            Some(Fault::Missing(pointer, field)) => self.missing(&pointer, &field),
            Some(Fault::Invalid(pointer)) => self.invalid(&pointer, arguments),
            None => self.refuse_rule(arguments),
        })
    }

    /// The refusal of fields that do not go together.
    fn refuse_rule(&self, arguments: &Value) -> Refusal {
        let tool = self.row.name;
        let check = |arguments: &Map<String, Value>| {
            self.row.rules.iter().find_map(|rule| rule.check(tool, arguments))
        };
        let broken = arguments.as_object().and_then(|given| {
            let refusal = check(given)?;
            let of = |refusal: &Refusal| refusal.details.get("path")?.as_str().map(str::to_owned);
            let extra = of(&refusal).filter(|_| refusal.code == Code::InvalidArgument);
            // If a field does not belong and another one is then missing, one hint says both.
            let mut rest = given.clone();
            let lacking = extra.as_ref().and_then(|extra| {
                rest.remove(extra)?;
                of(&check(&rest).filter(|next| next.code == Code::MissingRequired)?)
            });
            let Some((extra, lacking)) = extra.zip(lacking) else { return Some(refusal) };
            Some(refusal.hint(format!("Call {tool} again with {lacking} instead of {extra}.")))
        });
        broken.unwrap_or_else(|| {
            let message = format!("The fields given to {tool} don't go together.");
            Refusal::new(Code::InvalidArgument, message)
        })
    }

    /// The refusal of an unknown field. It names all unknown fields that can't be repaired, and the hint
    /// repairs the others.
    fn unknown(&self, pointer: &str, field: &str, arguments: &Value) -> Refusal {
        let tool = self.row.name;
        let path = join(pointer, field);
        let repair = repair(self, arguments);
        let hint = repair.hint(tool, arguments);
        let mut lost = repair.lost.clone();
        let message = match lost.iter().position(|(lost, _)| *lost == path) {
            Some(at) => format!("`{path}` is not a field of {tool}: {}.", lost.remove(at).1),
            None if hint.is_some() => format!("`{path}` is not a field of {tool}."),
            None => format!("`{path}` is not a field of {tool}: no field takes what it holds."),
        };
        let others = lost.iter().map(|(path, why)| format!(" Nor is `{path}`: {why}."));
        let message = others.fold(message, |message, other| message + &other);
        let refusal = Refusal::new(Code::UnknownField, message).detail("path", path.as_str());
        let refusal = match repair.nearest() {
            Some(near) => refusal.detail("nearest", near),
            None => refusal.detail("fields", self.fields(pointer)),
        };
        let refusal = match repair.branch.as_deref() {
            Some(field) => refusal.detail(BRANCH_FIELD, field),
            None => refusal,
        };
        refusal.hint(hint.unwrap_or_else(|| format!("Call {tool} again without {path}.")))
    }

    /// The refusal of a call that lacks a field.
    fn missing(&self, pointer: &str, field: &str) -> Refusal {
        let tool = self.row.name;
        let path = join(pointer, field);
        let expected = expected(self.node(pointer).and_then(|node| property(node, field)));
        let message = format!("{tool} needs `{path}`, {expected}.");
        let hint = match self.source(field) {
            Some(list) => format!("Call {tool} again with {path} from {list}."),
            None => format!("Call {tool} again with {path}, {expected}."),
        };
        Refusal::new(Code::MissingRequired, message).hint(hint).detail("path", path)
    }

    /// The refusal of a value that does not fit its schema, or that the parser did not accept. The hint
    /// is, in this order: a repaired call, the tool that has the values, a call without the field, what
    /// the field takes.
    pub fn invalid(&self, pointer: &str, arguments: &Value) -> Refusal {
        let tool = self.row.name;
        let value = arguments.pointer(pointer).unwrap_or(&Value::Null);
        let path = join(pointer, "");
        let node = self.node(pointer);
        let expected = expected(node);
        let message = format!("`{path}` must be {expected}, not {}.", shown(value));
        let refusal = Refusal::new(Code::InvalidArgument, message).detail("path", path.as_str());
        let repair = repair(self, arguments);
        if let Some(hint) = repair.hint(tool, arguments) {
            let refusal = refusal.hint(hint);
            return match repair.nearest() {
                Some(near) => refusal.detail("nearest", near),
                None => refusal,
            };
        }
        let hint = match self.source(name_of(&path)) {
            _ if is_too_long(node, value) => format!("Call {tool} again with {path}, {expected}."),
            Some(list) => format!("Call {tool} again with {path} from {list}."),
            None if path == REQUEST_ID => format!("Call {tool} again with a new request_id."),
            None if self.is_optional(pointer, arguments) => {
                let default = node.and_then(|node| node.get("default"));
                let default = default.map(|value| format!(" It is then {value}."));
                format!("Call {tool} again without {path}.{}", default.unwrap_or_default())
            }
            None => format!("Call {tool} again with {path}, {expected}."),
        };
        refusal.hint(hint)
    }
}

/// What a schema accepts, in words for the end of a sentence.
fn expected(node: Option<&Value>) -> String {
    let Some(node) = node else { return "something else".to_owned() };
    if let Some(names) = node.get("enum").and_then(Value::as_array) {
        let shown = |name: &Value| name.as_str().map_or(name.to_string(), str::to_owned);
        return format!("one of {}", names.iter().map(shown).collect::<Vec<_>>().join(", "));
    }
    match node.get("pattern").and_then(Value::as_str) {
        Some(ID_PATTERN) => return "an id (a UUID of 36 characters)".to_owned(),
        Some(TASK_PATTERN) => {
            return "a task's id (a UUID of 36 characters) or handle (such as TASK-001)".to_owned();
        }
        _ => {}
    }
    if node.get("format").is_some_and(|format| format == "date-time") {
        return "an RFC 3339 time such as 2026-01-31T12:00:00.000Z".to_owned();
    }
    let bound = |name: &str| node.get(name).and_then(Value::as_i64);
    match node.get("type").and_then(Value::as_str) {
        Some(kind @ ("integer" | "number")) => {
            let name = if kind == "integer" { "an integer" } else { "a number" };
            match (bound("minimum"), bound("maximum")) {
                (Some(least), Some(most)) => format!("{name} from {least} to {most}"),
                (Some(least), None) => format!("{name} of {least} or more"),
                _ => name.to_owned(),
            }
        }
        Some("string") => match (bound("minLength"), bound("maxLength")) {
            (Some(least), Some(most)) => format!("a string of {least} to {most} characters"),
            (None, Some(most)) => format!("a string of at most {most} characters"),
            _ => "a string".to_owned(),
        },
        Some("array") => {
            let of = match node.pointer("/items/type").and_then(Value::as_str) {
                Some("string") => " of strings",
                Some("object") => " of objects",
                _ => "",
            };
            match (bound("minItems"), bound("maxItems")) {
                (Some(least), Some(most)) => format!("an array{of} with {least} to {most} items"),
                (None, Some(most)) => format!("an array{of} with at most {most} items"),
                _ => format!("an array{of}"),
            }
        }
        Some("boolean") => "true or false".to_owned(),
        Some("object") => "an object".to_owned(),
        _ => "something else".to_owned(),
    }
}

/// True if a list has more items, or a text more characters, than its schema allows. Then the hint must
/// not be to leave the field out: what the caller meant would be lost.
fn is_too_long(node: Option<&Value>, value: &Value) -> bool {
    let (bound, length) = match value {
        Value::Array(items) => ("maxItems", items.len()),
        Value::String(text) => ("maxLength", text.chars().count()),
        _ => return false,
    };
    let most = node.and_then(|node| node.get(bound)).and_then(Value::as_u64);
    most.is_some_and(|most| length as u64 > most)
}
