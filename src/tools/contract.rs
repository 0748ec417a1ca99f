//! What a tool requires of its arguments, and the first fault of arguments that do not fit. Pure.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::row::Row;
use crate::api::field_path::source;
use crate::api::field_rules::FieldRule;

/// The part of a tool that judges arguments.
pub struct ToolContract {
    /// Its line of the table.
    pub row: Row,
    /// The full schema. The published one leaves some of it out (`schema::published`).
    pub schema: Value,
    /// Compiled from `schema`.
    pub validator: Validator,
}

/// What is wrong with arguments. The first text is the JSON pointer (RFC 6901) to the place.
pub enum Fault {
    /// The object there has these unknown fields.
    Unknown(String, Vec<String>),
    /// The object there lacks a field.
    Missing(String, String),
    /// The value there has the wrong type, or is out of its bounds.
    Invalid(String),
}

impl ToolContract {
    /// The fault that a caller would fix first. `None`: there is none, or only rules about fields that go
    /// together are broken.
    pub fn first_fault(&self, arguments: &Value) -> Option<Fault> {
        let errors = self.validator.iter_errors(arguments);
        let error =
            errors.filter(|error| !is_of_rules(error)).min_by_key(|error| rank(error.kind()))?;
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

    /// The tool that returns the values of a field. `None`: the caller makes them up itself.
    pub fn source(&self, field: &str) -> Option<&'static str> {
        if !self.row.is_workers() {
            return source(field);
        }
        let names_a_task = matches!(field, "task_id" | "depends_on") || field.ends_with("askId");
        names_a_task.then_some("getNextTask")
    }

    /// The part of the schema for the value that a JSON pointer into the arguments names.
    pub fn node(&self, pointer: &str) -> Option<&Value> {
        let mut steps = pointer.split('/').skip(1).filter(|step| !step.is_empty());
        steps.try_fold(&self.schema, |node, step| {
            let of_any_name = || node.get("additionalProperties").filter(|node| node.is_object());
            node.get("items").or_else(|| property(node, step)).or_else(of_any_name)
        })
    }

    /// The fields that the object at a pointer can have.
    pub fn fields(&self, pointer: &str) -> Vec<&str> {
        let fields = self.node(pointer).and_then(|node| node.get("properties")?.as_object());
        fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    /// The fields of that object that a call needs, including those of which it needs one of two.
    pub fn needed(&self, pointer: &str) -> Vec<&str> {
        let mut needed = self.required(pointer);
        for rule in self.row.rules.iter().filter(|_| pointer.is_empty()) {
            if let FieldRule::OneTarget(one, other) = rule {
                needed.extend([*one, *other]);
            }
        }
        needed
    }

    /// True if the call is valid without the field: its schema does not require it, and no rule does with
    /// the other fields as they are.
    pub fn is_optional(&self, pointer: &str, arguments: &Value) -> bool {
        let Some((parent, field)) = pointer.rsplit_once('/') else { return false };
        if let (Some(arguments), "") = (arguments.as_object(), parent) {
            let mut rest = arguments.clone();
            rest.shift_remove(field);
            if self.row.rules.iter().any(|rule| rule.check(self.row.name, &rest).is_some()) {
                return false;
            }
        }
        self.fields(parent).contains(&field) && !self.required(parent).contains(&field)
    }

    fn required(&self, pointer: &str) -> Vec<&str> {
        let required = self.node(pointer).and_then(|node| node.get("required")?.as_array());
        required.into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

/// True for errors of the schema keywords that field rules publish: `refuse_rule` explains them better.
fn is_of_rules(error: &ValidationError<'_>) -> bool {
    let path = error.schema_path().as_str();
    path.starts_with("/dependentSchemas") || path == "/minProperties"
}

/// The order in which faults are reported. Unknown fields come first, because a misspelt field explains a
/// missing one.
fn rank(kind: &ValidationErrorKind) -> u8 {
    match kind {
        ValidationErrorKind::AdditionalProperties { .. } => 0,
        ValidationErrorKind::Required { .. } => 1,
        ValidationErrorKind::Type { .. } => 2,
        _ => 3,
    }
}

/// The schema of a field of an object's schema.
pub fn property<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    node.get("properties")?.get(name)
}

/// A value as a few words in a sentence. Long texts, arrays and objects are only described.
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
