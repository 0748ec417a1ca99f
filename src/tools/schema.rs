//! The published schemas of tools, made from the Rust types. Pure.
//!
//! Clients and model APIs each accept their own subset of JSON Schema 2020-12, and drop a tool, or all of
//! them, because of a keyword that they do not accept. What is published here passes everywhere: a flat
//! object as the root, no `$ref`, no type arrays or nulls in inputs, plain enums, and no formats beyond
//! `date-time`.

use rmcp::model::JsonObject;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::worker_error;
use crate::api::args::Text;
use crate::api::descriptions::{BOARD_INPUTS, FieldLine, OUTPUTS, WORKER_INPUTS, describe};
use crate::api::field_rules::FieldRule;

/// The `request_id` that every tool with an effect takes.
pub type RequestId = Text<1, 128>;

/// The name of that field.
pub const REQUEST_ID: &str = "request_id";

/// The full input schema of a tool: that of the type, its field rules, and `request_id` for a tool with
/// an effect.
pub fn input<T: JsonSchema>(rules: &[FieldRule], changes: bool, is_workers: bool) -> JsonObject {
    let known = if is_workers { WORKER_INPUTS } else { BOARD_INPUTS };
    let mut root = root::<T>(Contract::Deserialize, tidy_input, known);
    let mut properties = object(root.remove("properties").unwrap_or_default());
    if changes {
        let means = "Idempotency key, 128 characters at most.";
        let key = json!({"type": "string", "minLength": 1, "maxLength": 128, "description": means});
        properties.insert(REQUEST_ID.to_owned(), key);
    }
    let mut schema = object(json!({
        "type": "object",
        "properties": properties,
        "required": root.remove("required").unwrap_or_else(|| json!([])),
        "additionalProperties": false,
    }));
    for rule in rules {
        rule.publish(&mut schema);
    }
    schema
}

/// The part of an input schema that is published. Patterns are left out, because clients that check them
/// show their model only that one did not match, instead of our hint. Lengths, and in the worker API more
/// that a caller rarely needs, are left out to keep lists of tools short: calls are checked against the
/// full schema, and the refusal says what was wrong.
pub fn published(mut schema: JsonObject, is_workers: bool) -> JsonObject {
    const SPARED: [&str; 6] =
        ["pattern", "maxLength", "minLength", "maxItems", "default", "additionalProperties"];
    let spared = if is_workers { &SPARED[..] } else { &SPARED[..2] };
    let mut spare = RecursiveTransform(|schema: &mut Schema| {
        for keyword in spared {
            // `additionalProperties` with a schema describes the values of a map, and stays.
            if schema.get(*keyword).is_some_and(|value| !value.is_object()) {
                schema.remove(*keyword);
            }
        }
        // Every flag is false by default, so the schema need not say it.
        if schema.get("default") == Some(&Value::Bool(false)) {
            schema.remove("default");
        }
    });
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Ok(property) = <&mut Schema>::try_from(property) {
            spare.transform(property);
        }
    }
    schema
}

/// The output schema of a tool. It also accepts the error envelope, because some clients check failures
/// against it. An untagged enum of structs becomes one object that can have the fields of all of them.
pub fn output<T: JsonSchema>(is_workers: bool) -> JsonObject {
    let mut root = root::<T>(Contract::Serialize, tidy_output, OUTPUTS);
    let shapes = match root.remove("anyOf") {
        Some(Value::Array(shapes)) => shapes.into_iter().map(object).collect(),
        _ => vec![root],
    };
    let mut properties = Map::new();
    let mut branches = Vec::new();
    for mut shape in shapes {
        for (name, property) in object(shape.remove("properties").unwrap_or_default()) {
            match properties.get_mut(&name) {
                Some(there) => widen(there, &property),
                None => drop(properties.insert(name, property)),
            }
        }
        branches.push(json!({"required": shape.remove("required").unwrap_or_else(|| json!([]))}));
    }
    let (envelope, required) = if is_workers {
        (worker_error::schema(), json!(["success", "error", "context"]))
    } else {
        (envelope(), json!(["error", "code", "hint"]))
    };
    for (name, property) in object(envelope) {
        properties.entry(name).or_insert(property);
    }
    branches.push(json!({"required": required}));
    object(json!({"type": "object", "properties": properties, "anyOf": branches}))
}

/// Widens a property that several shapes have to what any of them says: a number and an integer become a
/// number, and the words of enums are joined.
fn widen(there: &mut Value, other: &Value) {
    if let (Some(Value::Array(words)), Some(Value::Array(more))) =
        (there.get_mut("enum"), other.get("enum"))
    {
        let new: Vec<_> = more.iter().filter(|word| !words.contains(word)).cloned().collect();
        words.extend(new);
    }
    let is_number = |schema: &Value| schema["type"] == "number";
    if is_number(there) || is_number(other) {
        *there = json!({"type": "number", "description": there["description"]});
    }
}

/// The schema of a type without references, tidied and described.
fn root<T: JsonSchema>(
    contract: Contract,
    tidy: fn(&mut Schema),
    known: &'static [FieldLine],
) -> JsonObject {
    let describe = move |schema: &mut Schema| describe(schema, known);
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(tidy));
    let generator = settings.with_transform(RecursiveTransform(describe)).into_generator();
    object(generator.into_root_schema_for::<T>().to_value())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The fields of the error envelope that a client needs; an error may have more. This part is in every
/// tool's schema, so it is short.
fn envelope() -> Value {
    json!({
        "error": {"type": "string", "description": "What failed."},
        "code": {"type": "string", "description": "Its code."},
        "hint": {"type": "string", "description": "What helps."},
    })
}

fn tidy_input(schema: &mut Schema) {
    drop_null_branch(schema);
    tidy(schema);
}

/// Bounds are removed: a reader of results does not need them, and they make the list of tools longer.
fn tidy_output(schema: &mut Schema) {
    tidy(schema);
    for bound in ["minimum", "additionalProperties"] {
        schema.remove(bound);
    }
}

/// Rewrites one node that schemars made into its published form.
fn tidy(schema: &mut Schema) {
    flatten_enum(schema);
    schema.remove("title");
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// Makes `T` of `T or null`: in an input, a null counts as absent.
fn drop_null_branch(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(names)) = schema.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    let Some(Value::Array(mut branches)) = schema.remove("anyOf") else { return };
    branches.retain(|branch| branch.get("type") != Some(&json!("null")));
    if branches.len() == 1 {
        for (keyword, value) in branches.into_iter().flat_map(object) {
            schema.ensure_object().entry(keyword).or_insert(value);
        }
    } else {
        schema.insert("anyOf".to_owned(), Value::Array(branches));
    }
}

/// Makes a plain enum of the `oneOf` of constants that schemars writes for an enum with documented
/// variants.
fn flatten_enum(schema: &mut Schema) {
    let Some(Value::Array(branches)) = schema.get("oneOf") else { return };
    let mut names = Vec::new();
    for branch in branches {
        match (branch.get("const"), branch.get("enum")) {
            (Some(name), _) => names.push(name.clone()),
            (None, Some(Value::Array(more))) => names.extend(more.iter().cloned()),
            _ => return,
        }
    }
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(names));
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A colour.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        /// Like blood.
        Red,
        Blue,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Painted {
        /// The title, not to be
        /// taken for the keyword.
        title: String,
        /// How often.
        count: Option<u32>,
        /// Which colour.
        colour: Option<Colour>,
    }

    #[test]
    fn inputs_have_no_nulls_formats_or_references() {
        let schema = Value::Object(input::<Painted>(&[], false, false));
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "The title, not to be taken for the keyword."},
                    "count": {"type": "integer", "minimum": 0, "description": "How often."},
                    "colour": {"type": "string", "enum": ["blue", "red"], "description": "Which colour."},
                },
                "required": ["title"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn outputs_say_null_and_admit_the_envelope() {
        let schema = output::<Painted>(false);
        assert_eq!(schema["properties"]["count"]["type"], json!(["integer", "null"]));
        assert_eq!(schema["anyOf"][0]["required"], json!(["title", "count", "colour"]));
        assert_eq!(schema["anyOf"][1]["required"], json!(["error", "code", "hint"]));
    }
}
