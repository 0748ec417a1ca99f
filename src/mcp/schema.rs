//! Published schemas, made from the Rust types. Pure.
//!
//! Clients and model APIs each take their own subset of JSON Schema 2020-12 and
//! drop a tool, or all of them, for what they dislike. What is published here
//! passes everywhere: a flat object root, no `$ref`, no type arrays or nulls in
//! inputs, plain enums, no formats beyond `date-time`.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::worker_error;
use crate::api::args::Text;
use crate::api::field_rules::FieldRule;

/// The `request_id` that every tool with an effect takes.
pub type RequestId = Text<1, 128>;

/// The name of that field.
pub const REQUEST_ID: &str = "request_id";

const REQUEST_ID_MEANS: &str =
    "Idempotency key, 1 to 128 characters: the same call with it again acts once.";

/// The input schema of a tool: the type's, the rules' rules, and `request_id`
/// for a tool that changes something.
pub fn input<T: JsonSchema>(rules: &[FieldRule], changes: bool) -> Arc<JsonObject> {
    let settings = settings().for_deserialize();
    let mut root = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut root, Side::Input);
    let mut root = object(root);
    let mut properties = object(root.remove("properties").unwrap_or_default());
    if changes {
        let key = json!({
            "type": "string", "minLength": 1, "maxLength": 128, "description": REQUEST_ID_MEANS,
        });
        properties.insert(REQUEST_ID.to_owned(), key);
    }
    let required = root.remove("required").unwrap_or_else(|| json!([]));
    let mut published = Map::new();
    published.insert("type".to_owned(), json!("object"));
    published.insert("properties".to_owned(), Value::Object(properties));
    published.insert("required".to_owned(), required);
    published.insert("additionalProperties".to_owned(), json!(false));
    for rule in rules {
        rule.publish(&mut published);
    }
    Arc::new(published)
}

/// A schema without what a caller rarely needs and a refusal tells anyway: lengths,
/// defaults, and that nested objects have no other members. Lists of tools are to be
/// short, and the calls are held against the whole schema.
pub fn lean(schema: &JsonObject) -> Arc<JsonObject> {
    let mut lean = schema.clone();
    if let Some(properties) = lean.get_mut("properties") {
        const SPARED: [&str; 6] =
            ["minLength", "maxLength", "maxItems", "default", "pattern", "additionalProperties"];
        spare(properties, &SPARED);
    }
    Arc::new(lean)
}

/// A schema without patterns. Clients that check arguments themselves show their model
/// only that one did not match, in place of our hint.
pub fn without_patterns(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties") {
        spare(properties, &["pattern"]);
    }
    Arc::new(schema)
}

/// Takes keywords away at every depth.
fn spare(schema: &mut Value, keywords: &[&str]) {
    match schema {
        Value::Object(members) => {
            // A property may have such a name; its schema is an object.
            members.retain(|name, value| value.is_object() || !keywords.contains(&name.as_str()));
            members.values_mut().for_each(|member| spare(member, keywords));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spare(item, keywords)),
        _ => {}
    }
}

/// In which words a tool says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    House,
    /// The worker API's own.
    Worker,
}

/// The output schema of a tool. It admits the error envelope too, since some
/// clients hold failures against it. An untagged enum of structs becomes one
/// object that may have the fields of any of them.
pub fn output<T: JsonSchema>(errors: Errors) -> Arc<JsonObject> {
    let settings = settings().for_serialize();
    let mut root = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut root, Side::Output);
    let mut root = object(root);
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
    let (envelope, required) = match errors {
        Errors::House => {
            (object(envelope()), json!(["error", "code", "message", "retryable", "hint"]))
        }
        Errors::Worker => (worker_error::schema(), json!(worker_error::REQUIRED)),
    };
    for (name, property) in envelope {
        properties.entry(name).or_insert(property);
    }
    branches.push(json!({"required": required}));

    let mut published = Map::new();
    published.insert("type".to_owned(), json!("object"));
    published.insert("properties".to_owned(), Value::Object(properties));
    published.insert("anyOf".to_owned(), Value::Array(branches));
    Arc::new(published)
}

/// Lets a property that several shapes have be what any of them says: a number in one
/// may be an integer in another.
fn widen(there: &mut Value, other: &Value) {
    let is_number = |schema: &Value| schema["type"] == "number";
    if is_number(there) || is_number(other) {
        *there = json!({"type": "number", "description": there["description"]});
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn envelope() -> Value {
    json!({
        "error": {"type": "string", "description": "Failure: what failed."},
        "code": {"type": "string", "description": "Its code."},
        "message": {"type": "string", "description": "As error."},
        "retryable": {"type": "boolean", "description": "May it pass?"},
        "hint": {"type": "string", "description": "What helps."},
        "details": {"type": "object", "description": "Facts."},
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Input,
    Output,
}

/// Rewrites what schemars makes into what is published, at every depth.
fn tidy(schema: &mut Value, side: Side) {
    let Value::Object(schema) = schema else { return };
    if side == Side::Input {
        drop_null_branch(schema);
    }
    flatten_enum(schema);
    schema.remove("$schema");
    schema.remove("title");
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if side == Side::Output {
        // A reader of results needs no bounds, and they cost bytes.
        for bound in ["minimum", "additionalProperties"] {
            schema.remove(bound);
        }
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            tidy(property, side);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(values) = schema.get_mut(keyword) {
            tidy(values, side);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(branches)) = schema.get_mut(keyword) {
            for branch in branches {
                tidy(branch, side);
            }
        }
    }
}

/// `T or null` becomes `T`: in an input, a null counts as absent.
fn drop_null_branch(schema: &mut Map<String, Value>) {
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
            schema.entry(keyword).or_insert(value);
        }
    } else {
        schema.insert("anyOf".to_owned(), Value::Array(branches));
    }
}

/// schemars writes documented enums as `oneOf` of constants.
fn flatten_enum(schema: &mut Map<String, Value>) {
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
        let schema = Value::Object((*input::<Painted>(&[], false)).clone());
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
        let schema = output::<Painted>(Errors::House);
        assert_eq!(schema["properties"]["count"]["type"], json!(["integer", "null"]));
        assert_eq!(schema["anyOf"][0]["required"], json!(["title", "count", "colour"]));
        assert_eq!(
            schema["anyOf"][1]["required"],
            json!(["error", "code", "message", "retryable", "hint"])
        );
    }
}
