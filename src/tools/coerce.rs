//! Guesses the intended value when a field refuses one: wrong quotes or brackets, or another system's
//! word. A guess becomes a hint only if the field's schema accepts it. Pure.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::suggest;

/// The longest value that a hint contains, in bytes of JSON.
pub const LONGEST: usize = 300;

/// The first guess that the schema accepts, if there is one.
pub fn coerced(node: &Value, value: &Value) -> Option<Value> {
    guesses(node, value)
        .into_iter()
        .find(|guess| guess != value && takes(node, guess) && guess.to_string().len() <= LONGEST)
}

/// True if a value fits a schema, formats included.
pub fn takes(node: &Value, value: &Value) -> bool {
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(node)
        .is_ok_and(|validator| validator.is_valid(value))
}

/// All guesses for a value, the likeliest first.
fn guesses(node: &Value, value: &Value) -> Vec<Value> {
    let mut guesses = Vec::new();
    match value {
        Value::String(text) => of_text(node, text, &mut guesses),
        Value::Number(number) => {
            guesses.push(json!(number.to_string()));
            guesses.extend(number.as_i64().filter(|n| *n == 0 || *n == 1).map(|n| json!(n == 1)));
            #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
            guesses.extend(number.as_f64().map(|number| json!(number as i64)));
            guesses.extend(number.as_i64().and_then(time_of_unix));
        }
        Value::Array(items) => {
            if let [only] = items.as_slice() {
                guesses.push(only.clone());
                guesses.extend(coerced(node, only));
            }
            if let Some(node) = node.get("items") {
                let fixed = items.iter().map(|item| {
                    if takes(node, item) { Some(item.clone()) } else { coerced(node, item) }
                });
                guesses.extend(fixed.collect::<Option<Vec<_>>>().map(Value::Array));
            }
        }
        // The whole item of another tool's list, where the field takes its id.
        Value::Object(members) if node.get("type").is_some_and(|kind| kind == "string") => {
            let ids = members
                .iter()
                .filter(|(name, id)| id.is_string() && (*name == "id" || name.ends_with("_id")));
            if let [(_, id)] = ids.collect::<Vec<_>>().as_slice() {
                guesses.push((*id).clone());
            }
        }
        Value::Bool(_) | Value::Null | Value::Object(_) => {}
    }
    if let Some(items) = node.get("items") {
        if let Some(text) = value.as_str().filter(|text| text.contains([',', '\n', ' '])) {
            let parts = text.split([',', '\n', ' ']).filter(|part| !part.is_empty());
            let parts = parts.map(|part| match json!(part) {
                part if takes(items, &part) => Some(part),
                part => coerced(items, &part),
            });
            let is_of_ids = items.get("pattern").is_some();
            guesses
                .extend(parts.collect::<Option<Vec<_>>>().filter(|_| is_of_ids).map(Value::Array));
        }
        guesses.push(json!([value]));
        guesses.extend(coerced(items, value).map(|item| json!([item])));
    }
    let required = node.get("required").and_then(Value::as_array);
    if let Some([Value::String(only)]) = required.map(Vec::as_slice) {
        guesses.push(json!({only: value}));
    }
    guesses
}

/// Guesses for a text: trimmed, as JSON, as a word of an enum, as an id, as a time.
fn of_text(node: &Value, text: &str, guesses: &mut Vec<Value>) {
    let trimmed = text.trim();
    guesses.push(json!(trimmed));
    guesses.extend(serde_json::from_str::<Value>(&trimmed.to_lowercase()).ok());
    guesses.extend(serde_json::from_str::<Value>(trimmed).ok());
    match trimmed.to_ascii_lowercase().as_str() {
        "yes" | "on" => guesses.push(json!(true)),
        "no" | "off" => guesses.push(json!(false)),
        _ => {}
    }
    let allowed = node.get("enum").and_then(Value::as_array).into_iter().flatten();
    let allowed: Vec<&str> = allowed.filter_map(Value::as_str).collect();
    guesses.extend(suggest::value(trimmed, &allowed).map(|name| json!(name)));
    // A UUID in braces, after `urn:uuid:`, or without hyphens.
    guesses.extend(trimmed.parse::<uuid::Uuid>().map(|id| json!(id.hyphenated().to_string())).ok());
    guesses.extend(id_within(trimmed).map(|id| json!(id)));
    guesses.push(json!(trimmed.trim_matches(|c: char| !c.is_alphanumeric())));
    if node.get("format").is_some() {
        let time = trimmed.replacen(' ', "T", 1);
        for rest in ["Z", ":00Z", "T00:00:00Z"] {
            guesses.push(json!(format!("{time}{rest}")));
        }
        guesses.push(json!(time));
        guesses.extend(trimmed.parse().ok().and_then(time_of_unix));
    }
}

/// The UUID in a text such as `provost://attempts/<id>` or `attempt_id: <id>`. `None`: there is none, or
/// several.
fn id_within(text: &str) -> Option<String> {
    const LENGTH: usize = 36;
    let starts = (0..text.len().saturating_sub(LENGTH - 1)).filter(|at| {
        let piece = text.get(*at..at + LENGTH);
        piece.is_some_and(|piece| {
            piece.matches('-').count() == 4 && piece.parse::<uuid::Uuid>().is_ok()
        })
    });
    let [start] = starts.take(2).collect::<Vec<_>>().try_into().ok()?;
    let start: usize = start;
    Some(text[start..start + LENGTH].to_owned())
}

/// A Unix time as RFC 3339. Numbers too large for seconds count as milliseconds.
fn time_of_unix(number: i64) -> Option<Value> {
    const FAR: i64 = 100_000_000_000;
    let millis = if number.abs() < FAR { number.checked_mul(1000)? } else { number };
    let time = DateTime::from_timestamp_millis(millis)?;
    Some(json!(time.to_rfc3339_opts(SecondsFormat::Millis, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    #[test]
    fn what_was_meant_is_guessed_only_if_the_field_takes_it() {
        let integer = json!({"type": "integer", "minimum": 1});
        let flag = json!({"type": "boolean"});
        let text = json!({"type": "string", "minLength": 1});
        let time = json!({"type": "string", "format": "date-time"});
        let names = json!({"type": "array", "items": {"type": "string", "enum": ["high", "low"]}});
        let repos = json!({"type": "array", "items": {
            "type": "object", "required": ["path"], "properties": {"path": {"type": "string"}},
        }});
        let id = json!({"type": "string", "pattern": "^[0-9A-Fa-f-]{36}$"});
        let ids = json!({"type": "array", "items": id});
        for (node, given, meant) in [
            (&integer, json!("5"), Some(json!(5))),
            (&integer, json!(1.5), Some(json!(1))),
            (&integer, json!("0"), None),
            (&integer, json!([7]), Some(json!(7))),
            (&flag, json!("True"), Some(json!(true))),
            (&flag, json!(0), Some(json!(false))),
            (&text, json!(7), Some(json!("7"))),
            (&text, json!(" "), None),
            (&time, json!("2026-01-31"), Some(json!("2026-01-31T00:00:00Z"))),
            (&time, json!("2026-01-31 12:00"), Some(json!("2026-01-31T12:00:00Z"))),
            (&time, json!(0), Some(json!("1970-01-01T00:00:00.000Z"))),
            (&time, json!("yesterday"), None),
            (&names, json!("urgent"), None),
            (&names, json!("important"), Some(json!(["high"]))),
            (&names, json!("[\"low\"]"), Some(json!(["low"]))),
            (&repos, json!("/r"), Some(json!([{"path": "/r"}]))),
            (&repos, json!(["/r", "/s"]), Some(json!([{"path": "/r"}, {"path": "/s"}]))),
            (&id, json!(format!("attempt-{ID}")), Some(json!(ID))),
            (&id, json!(format!("provost://attempts/{ID}/log")), Some(json!(ID))),
            (&id, json!(format!("<{ID}>")), Some(json!(ID))),
            (&id, json!({"id": ID, "title": "t"}), Some(json!(ID))),
            (&id, json!(format!("{ID} {ID}")), None),
            (&ids, json!(format!("{ID}, {ID}")), Some(json!([ID, ID]))),
            (&ids, json!([{"attempt_id": ID}]), Some(json!([ID]))),
        ] {
            assert_eq!(coerced(node, &given), meant, "{given}");
        }
    }
}
