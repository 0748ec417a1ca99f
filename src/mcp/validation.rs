//! Why arguments don't fit a tool's schema, said so that the caller can mend
//! the call: the field, what it should be, and where its values come from. Pure.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use provost_actors::refusal::{Code, Refusal};
use serde_json::Value;

use super::repair::repair;
use super::schema::REQUEST_ID;
use crate::api::args::{ID_PATTERN, TASK_PATTERN};
use crate::api::field_path::{BRANCH_FIELD, join, name_of, pointer_of, source};
use crate::api::field_rules::FieldRule;

/// What is needed of a tool to judge arguments for it.
pub struct ToolContract<'a> {
    pub tool: &'a str,
    pub schema: &'a Value,
    pub validator: &'a Validator,
    pub rules: &'a [FieldRule],
    /// It is one of the worker API's.
    pub is_workers: bool,
}

/// What is wrong with arguments, and at which JSON pointer.
pub enum Fault {
    /// The object there has these fields that it should not have.
    Unknown(String, Vec<String>),
    /// The object there lacks a field.
    Missing(String, String),
    Invalid(String),
}

impl ToolContract<'_> {
    /// Holds arguments against the published schema. Tells the first fault, in
    /// the order in which a caller would mend them.
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

    /// A value that passed the schema and not its parser.
    pub fn unparsable(&self, path: &str, arguments: &Value) -> Refusal {
        self.invalid(&pointer_of(path), arguments)
    }

    /// The tool whose answer has the values of a field, as far as the caller has it.
    fn source(&self, field: &str) -> Option<&'static str> {
        if !self.is_workers {
            return source(field);
        }
        let names_a_task = matches!(field, "task_id" | "depends_on") || field.ends_with("askId");
        names_a_task.then_some("getNextTask")
    }

    fn refuse_rule(&self, arguments: &Value) -> Refusal {
        let broken = arguments
            .as_object()
            .and_then(|arguments| self.rules.iter().find_map(|m| m.check(self.tool, arguments)));
        broken.unwrap_or_else(|| {
            let message = format!("The fields given to {} don't go together.", self.tool);
            Refusal::new(Code::InvalidArgument, message)
        })
    }

    /// The first fault, in the order in which a caller would mend them.
    pub fn first_fault(&self, arguments: &Value) -> Option<Fault> {
        let errors = self.validator.iter_errors(arguments);
        let error =
            errors.filter(|error| !is_of_modes(error)).min_by_key(|error| rank(error.kind()))?;
        let pointer = error.instance_path().as_str().to_owned();
        Some(match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                Fault::Unknown(pointer, unexpected.clone())
            }
            ValidationErrorKind::Required { property } => {
                Fault::Missing(pointer, property.as_str().unwrap_or_default().to_owned())
            }
            _ => Fault::Invalid(pointer),
        })
    }

    fn unknown(&self, pointer: &str, field: &str, arguments: &Value) -> Refusal {
        let tool = self.tool;
        let path = join(pointer, field);
        let repair = repair(self, arguments);
        let hint = repair.hint(tool, arguments);
        let mut lost = repair.lost().to_vec();
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
            None => refusal.detail("fields", self.fields(pointer).collect::<Vec<_>>()),
        };
        let refusal = match repair.branch() {
            Some(field) => refusal.detail(BRANCH_FIELD, field),
            None => refusal,
        };
        refusal.hint(hint.unwrap_or_else(|| format!("Call {tool} again without {path}.")))
    }

    fn missing(&self, pointer: &str, field: &str) -> Refusal {
        let tool = self.tool;
        let path = join(pointer, field);
        let expected = expected(self.node(pointer).and_then(|node| property(node, field)));
        let message = format!("{tool} needs `{path}`, {expected}.");
        let hint = match self.source(field) {
            Some(list) => format!("Call {tool} again with {path} from {list}."),
            None => format!("Call {tool} again with {path}, {expected}."),
        };
        Refusal::new(Code::MissingRequired, message).hint(hint).detail("path", path)
    }

    fn invalid(&self, pointer: &str, arguments: &Value) -> Refusal {
        let tool = self.tool;
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

    /// The fields that can stand in the object that a pointer names.
    pub fn fields(&self, pointer: &str) -> impl Iterator<Item = &str> {
        properties(self.node(pointer))
    }

    /// Those of them without which the call can't be, alone or with another one.
    pub fn needed(&self, pointer: &str) -> Vec<&str> {
        let required = self.node(pointer).and_then(|node| node.get("required"));
        let required = required.and_then(Value::as_array).into_iter().flatten();
        let mut needed: Vec<&str> = required.filter_map(Value::as_str).collect();
        for rule in self.rules.iter().filter(|_| pointer.is_empty()) {
            needed.extend(rule.targets());
        }
        needed
    }

    /// Whether the call can do without the field: neither its schema nor, with the
    /// other fields as they are, a rule asks for it.
    fn is_optional(&self, pointer: &str, arguments: &Value) -> bool {
        let Some((parent, field)) = pointer.rsplit_once('/') else { return false };
        if let (Some(arguments), "") = (arguments.as_object(), parent) {
            let mut rest = arguments.clone();
            rest.shift_remove(field);
            if self.rules.iter().any(|rule| rule.check(self.tool, &rest).is_some()) {
                return false;
            }
        }
        let parent = self.node(parent);
        let required = parent.and_then(|node| node.get("required")).and_then(Value::as_array);
        parent.and_then(|node| property(node, field)).is_some()
            && required.is_none_or(|names| names.iter().all(|name| name != field))
    }

    /// The schema of what a JSON pointer into the arguments points at.
    pub fn node(&self, pointer: &str) -> Option<&Value> {
        let mut steps = pointer.split('/').skip(1).filter(|step| !step.is_empty());
        steps.try_fold(self.schema, |node, step| {
            let of_any_name = || node.get("additionalProperties").filter(|node| node.is_object());
            node.get("items").or_else(|| property(node, step)).or_else(of_any_name)
        })
    }
}

fn is_of_modes(error: &ValidationError<'_>) -> bool {
    let path = error.schema_path().as_str();
    path.starts_with("/dependentSchemas") || path == "/minProperties"
}

/// The order in which faults are told: a misspelt field explains a missing one.
fn rank(kind: &ValidationErrorKind) -> u8 {
    match kind {
        ValidationErrorKind::AdditionalProperties { .. } => 0,
        ValidationErrorKind::Required { .. } => 1,
        ValidationErrorKind::Type { .. } => 2,
        _ => 3,
    }
}

fn property<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    node.get("properties")?.get(name)
}

fn properties(node: Option<&Value>) -> impl Iterator<Item = &str> {
    let fields = node.and_then(|node| node.get("properties")).and_then(Value::as_object);
    fields.into_iter().flatten().map(|(name, _)| name.as_str())
}

/// What a schema asks for, in words that end a sentence.
fn expected(node: Option<&Value>) -> String {
    let Some(node) = node else { return "something else".to_owned() };
    let names: Vec<String> = match node.get("enum").and_then(Value::as_array) {
        Some(names) => {
            let shown = |name: &Value| name.as_str().map_or(name.to_string(), str::to_owned);
            names.iter().map(shown).collect()
        }
        None => Vec::new(),
    };
    if !names.is_empty() {
        return format!("one of {}", names.join(", "));
    }
    if node.get("pattern").is_some_and(|pattern| pattern == ID_PATTERN) {
        return "an id (a UUID of 36 characters)".to_owned();
    }
    if node.get("pattern").is_some_and(|pattern| pattern == TASK_PATTERN) {
        return "a task's id (a UUID of 36 characters) or handle (such as TASK-001)".to_owned();
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

/// Whether a list has more items than its schema allows.
fn is_too_long(node: Option<&Value>, value: &Value) -> bool {
    let most = node.and_then(|node| node.get("maxItems")).and_then(Value::as_u64);
    most.zip(value.as_array()).is_some_and(|(most, items)| items.len() as u64 > most)
}

/// A value as a sentence can bear it: short.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if !text.is_empty() && text.trim().is_empty() => "blank".to_owned(),
        Value::String(text) if text.chars().count() <= 60 => format!("the string {value}"),
        Value::String(text) => format!("a string of {} characters", text.chars().count()),
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {}
