//! Rules about which fields of a tool go together. Each rule is declared once, beside its tool. It is
//! published (JSON Schema 2020-12) and also checked. Pure.
//!
//! The published conditions are in `dependentSchemas`: some clients refuse `oneOf`, `anyOf`, `allOf`, `if`
//! and `not` at the root of a tool's schema, and no known client refuses this keyword.

use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

/// The fields that select a page or a part. Two that exclude each other are refused as mixed pagination.
const PAGING: &[&str] =
    &["cursor", "after_entry_index", "start_line", "line_count", "offset", "max_bytes"];

/// A rule about the fields of one tool.
#[derive(Clone, Copy, Debug)]
pub enum FieldRule {
    /// Exactly one of the two fields, which both name the target.
    OneTarget(&'static str, &'static str),
    /// Two ways to select what is wanted: fields of the first exclude fields of the second.
    Apart(&'static [&'static str], &'static [&'static str]),
    /// Each of the first fields needs all of the second.
    Together(&'static [&'static str], &'static [&'static str]),
    /// At least one of these fields, besides the required ones.
    AnyOf(&'static [&'static str]),
    /// These fields may be given only with these values of a required field.
    Only(&'static [&'static str], &'static str, &'static [&'static str]),
    /// These values of a required field need all of these fields.
    Needs(&'static str, &'static [&'static str], &'static [&'static str]),
}

impl FieldRule {
    /// Adds the rule to a tool's input schema. All properties must be in the schema already.
    pub fn publish(&self, schema: &mut Map<String, Value>) {
        match *self {
            Self::OneTarget(one, other) => {
                require_any(schema, &[one, other]);
                depend(schema, one, json!({"not": {"required": [other]}}));
            }
            Self::Apart(ones, others) => {
                let not = match others {
                    [other] => json!({"required": [other]}),
                    others => json!({"anyOf": each_required(others)}),
                };
                for one in ones {
                    depend(schema, one, json!({"not": not}));
                }
            }
            Self::Together(fields, all) => {
                // If the fields of `all` are among `fields`, each may require just the next one, and the last
                // the first: one given field then requires all of them, and the schema is shorter.
                let is_ring = all.iter().all(|needed| fields.contains(needed));
                for field in fields {
                    let at = all.iter().position(|needed| needed == field);
                    let next = at.map_or(0, |at| (at + 1) % all.len());
                    let needed = if is_ring { &all[next..=next] } else { all };
                    depend(schema, field, json!({"required": needed}));
                }
            }
            Self::AnyOf(fields) => require_any(schema, fields),
            Self::Only(fields, field, values) => {
                for only in fields {
                    depend(schema, only, json!({"properties": {field: {"enum": values}}}));
                }
            }
            Self::Needs(field, values, needed) => {
                let other = json!({"properties": {field: {"not": {"enum": values}}}});
                depend(schema, field, json!({"anyOf": [{"required": needed}, other]}));
            }
        }
    }

    /// The refusal of arguments that break the rule; `None`: they keep it.
    pub fn check(&self, tool: &str, arguments: &Map<String, Value>) -> Option<Refusal> {
        let has = |field: &str| arguments.contains_key(field);
        let both = |one: &str, other: &str| format!("{tool} got both {one} and {other}.");
        match *self {
            Self::OneTarget(one, other) if has(one) == has(other) => {
                let neither = || format!("{tool} got neither {one} nor {other}.");
                let message = if has(one) { both(one, other) } else { neither() };
                let hint = format!("Call {tool} again with exactly one of {one} and {other}.");
                let refusal = refusal(Code::AmbiguousTarget, message, hint, one);
                Some(refusal.detail("fields", vec![one, other]))
            }
            Self::Apart(ones, others) => {
                let one = ones.iter().find(|field| has(field))?;
                let other = others.iter().find(|field| has(field))?;
                let hint = format!(
                    "Call {tool} again without {other}. It takes {} or {}, not both.",
                    ones.join(" and "),
                    others.join(" and ")
                );
                let is_paging = [one, other].iter().all(|field| PAGING.contains(field));
                let code = if is_paging { Code::MixedPagination } else { Code::InvalidArgument };
                let refusal = refusal(code, both(one, other), hint, other);
                Some(refusal.detail("fields", vec![*one, *other]))
            }
            Self::Together(fields, all) => {
                let given = fields.iter().find(|field| has(field))?;
                let missing = all.iter().find(|field| !has(field))?;
                let message = format!("{tool} needs `{missing}` beside {given}.");
                let hint = format!("Call {tool} again with {missing}, which {given} asks for.");
                Some(refusal(Code::MissingRequired, message, hint, missing))
            }
            Self::AnyOf(fields) if !fields.iter().any(|field| has(field)) => {
                let list = fields.join(", ");
                let message = format!("{tool} needs at least one of {list}.");
                let hint = format!("Call {tool} again with one or more of {list}.");
                let refusal = refusal(Code::MissingRequired, message, hint, fields[0]);
                Some(refusal.detail("fields", fields.to_vec()))
            }
            Self::Only(fields, field, values) => {
                let value = arguments.get(field)?.as_str()?;
                let given = fields.iter().find(|name| has(name))?;
                (!values.contains(&value)).then(|| extra(tool, field, value, given))
            }
            Self::Needs(field, values, needed) => {
                let value = arguments.get(field)?.as_str().filter(|it| values.contains(it))?;
                let lacking = needed.iter().find(|needed| !has(needed))?;
                Some(missing(tool, field, value, lacking))
            }
            Self::OneTarget(..) | Self::AnyOf(_) => None,
        }
    }
}

/// The refusal of a call without a field that the value of another field needs.
fn missing(tool: &str, field: &str, value: &str, needed: &str) -> Refusal {
    let message = format!("{tool} needs `{needed}` when {field} is {value}.");
    let hint = format!("Call {tool} again with {needed}, which {field} = \"{value}\" needs.");
    refusal(Code::MissingRequired, message, hint, needed)
}

/// The refusal of a call with a field that the value of another field excludes.
fn extra(tool: &str, field: &str, value: &str, given: &str) -> Refusal {
    let message =
        format!("{tool} takes no `{given}` when {field} is {value}: it would be left out.");
    let hint = format!("Call {tool} again without {given}.");
    refusal(Code::InvalidArgument, message, hint, given)
}

fn refusal(code: Code, message: String, hint: String, path: &str) -> Refusal {
    Refusal::new(code, message).hint(hint).detail("path", path)
}

fn each_required(fields: &[&str]) -> Vec<Value> {
    fields.iter().map(|field| json!({"required": [field]})).collect()
}

/// Requires one of `fields`. If the tool has a required field, the condition depends on that one; else it
/// depends on every other field, and `minProperties` excludes the empty object.
fn require_any(schema: &mut Map<String, Value>, fields: &[&str]) {
    let condition = json!({"anyOf": each_required(fields)});
    let required = schema.get("required").and_then(|required| required.get(0));
    if let Some(always) = required.and_then(Value::as_str).map(str::to_owned) {
        depend(schema, &always, condition);
        return;
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let others: Vec<_> =
        properties.keys().filter(|name| !fields.contains(&name.as_str())).cloned().collect();
    for other in others {
        depend(schema, &other, condition.clone());
    }
    schema.insert("minProperties".to_owned(), json!(1));
}

/// Merges a condition into `dependentSchemas.<field>`: beside the conditions there, or in `allOf` if a
/// keyword is already used.
fn depend(schema: &mut Map<String, Value>, field: &str, condition: Value) {
    let all = schema.entry("dependentSchemas").or_insert_with(|| json!({}));
    let there = all.as_object_mut().map(|all| all.entry(field).or_insert_with(|| json!({})));
    let (Some(Value::Object(there)), Value::Object(condition)) = (there, condition) else { return };
    if condition.keys().all(|keyword| !there.contains_key(keyword)) {
        there.extend(condition);
        return;
    }
    let parts = there.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(parts) = parts {
        parts.push(Value::Object(condition));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: [FieldRule; 7] = [
        FieldRule::OneTarget("a", "b"),
        FieldRule::Apart(&["c"], &["d"]),
        FieldRule::AnyOf(&["c", "d", "e"]),
        FieldRule::Apart(&["b", "c"], &["d", "e"]),
        FieldRule::Together(&["c", "e"], &["b", "e"]),
        FieldRule::Only(&["d", "a"], "f", &["x", "y"]),
        FieldRule::Needs("f", &["z", "x"], &["e", "d"]),
    ];

    proptest! {
        #[test]
        fn the_published_rule_and_the_check_agree(
            rules in proptest::sample::subsequence(RULES.to_vec(), 0..=7),
            fields in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..=6),
            f_is_required in any::<bool>(),
            f in proptest::sample::select(vec!["x", "y", "z"]),
        ) {
            prop_assume!(!f_is_required || fields.contains(&"f"));
            let properties = ["a", "b", "c", "d", "e", "f"].map(|name| (name.to_owned(), json!({})));
            let mut schema = Map::from_iter([
                ("properties".to_owned(), Value::Object(Map::from_iter(properties))),
                ("required".to_owned(), if f_is_required { json!(["f"]) } else { json!([]) }),
            ]);
            for rule in &rules {
                rule.publish(&mut schema);
            }
            let validator = jsonschema::draft202012::new(&Value::Object(schema)).unwrap();
            let arguments: Map<_, _> =
                fields.iter().map(|name| ((*name).to_owned(), json!(f))).collect();
            let refused = rules.iter().any(|rule| rule.check("t", &arguments).is_some());
            prop_assert_eq!(validator.is_valid(&Value::Object(arguments)), !refused);
        }
    }

    #[test]
    fn the_rules_of_a_tagged_tool_stand_side_by_side_under_its_tag() {
        let mut schema = Map::from_iter([("required".to_owned(), json!(["f"]))]);
        RULES[2].publish(&mut schema);
        RULES[0].publish(&mut schema);
        assert!(schema["dependentSchemas"]["f"]["anyOf"].is_array());
        assert!(schema["dependentSchemas"]["f"]["allOf"].is_array());
        assert_eq!(schema["dependentSchemas"]["a"], json!({"not": {"required": ["b"]}}));
    }
}
