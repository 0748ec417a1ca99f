//! Repairs a call as a whole: renames unknown fields and converts wrong values, several in one step where
//! possible. The result is only used for hints: a repaired call is never executed. Pure.

use serde_json::{Map, Value, json};

use super::coerce::{LONGEST, coerced, takes};
use super::contract::{Fault, ToolContract, shown};
use super::fields::{Sense, UnknownField};
use crate::api::field_path::{join, pointer_of};

/// Most faults of one call that are repaired.
const MOST: usize = 16;

/// What has to change for a call to fit, as far as it could be found out.
#[derive(Default)]
pub struct Repair {
    arguments: Value,
    /// Paths of fields with new values, in the order in which they were set.
    set: Vec<String>,
    /// Fields whose value was moved: from which path, to which.
    moved: Vec<(String, String)>,
    /// Fields that were replaced by fields in `set`.
    replaced: Vec<String>,
    /// Fields that were dropped, each with a clause that says why.
    pub lost: Vec<(String, String)>,
    /// Sentences to append to the hint.
    notes: Vec<&'static str>,
    /// The hint if another tool was meant.
    other: Option<String>,
    /// The field that names a branch for repositories that only the board knows.
    pub branch: Option<String>,
}

/// Repairs what can be repaired without a look at the board. It stops at the first fault that it can't
/// repair.
pub fn repair(contract: &ToolContract, arguments: &Value) -> Repair {
    let mut repair = Repair { arguments: arguments.clone(), ..Repair::default() };
    for _ in 0..MOST {
        let goes_on = match contract.first_fault(&repair.arguments) {
            Some(Fault::Unknown(pointer, fields)) => repair.unknown(contract, &pointer, &fields),
            Some(Fault::Invalid(pointer)) => repair.invalid(contract, &pointer),
            Some(Fault::Missing(..)) | None => false,
        };
        if !goes_on {
            break;
        }
    }
    repair
}

impl Repair {
    /// Repairs one unknown field. `false`: nothing more can be repaired.
    fn unknown(&mut self, contract: &ToolContract, pointer: &str, fields: &[String]) -> bool {
        let Some(Value::Object(beside)) = self.arguments.pointer(pointer) else { return false };
        let beside = beside.clone();
        let known = contract.fields(pointer);
        let needed = contract.needed(pointer);
        let sense = |field: &str| {
            let mut others: Map<String, Value> = beside.clone();
            let value = others.shift_remove(field).unwrap_or_default();
            let unknown = UnknownField {
                tool: contract.row.name,
                is_nested: !pointer.is_empty(),
                name: field,
                value: &value,
                beside: &others,
                known: &known,
                needed: &needed,
            };
            (unknown.sense(), value)
        };
        // Branches come last: the other fields may say which repositories they are for.
        let mut senses: Vec<_> = fields.iter().map(|field| (field, sense(field))).collect();
        senses.sort_by_key(|(_, (sense, _))| matches!(sense, Some(Sense::Branch)));
        let Some((field, (sense, value))) = senses.into_iter().next() else { return false };
        let path = join(pointer, field);
        match sense {
            Some(Sense::Other(tool, by)) => {
                let own = contract.row.name;
                self.other =
                    Some(format!("Call {tool} with {by} = {value} instead. {own} takes no {by}."));
                return false;
            }
            Some(Sense::Branch) => {
                self.branch = Some(path);
                return false;
            }
            _ => {}
        }
        if let Some(Value::Object(members)) = self.arguments.pointer_mut(pointer) {
            members.shift_remove(field);
        }
        match sense {
            Some(Sense::Name(name)) => {
                let to = join(pointer, &name);
                if self.at(&to).is_none_or(|there| *there == value) {
                    // Converted at once, because another unknown field may have to be placed inside it.
                    let node = contract.node(&pointer_of(&to));
                    let misfit = node.filter(|node| !takes(node, &value));
                    let fixed = misfit.and_then(|node| coerced(node, &value));
                    self.put(&to, fixed.unwrap_or(value));
                    self.moved.push((path, to));
                } else {
                    self.lost.push((path, format!("{to} is given as well")));
                }
            }
            Some(Sense::Values(values, note)) => {
                for (name, value) in values {
                    let to = join(pointer, &name);
                    self.put(&to, value);
                    self.set.push(to);
                }
                self.replaced.push(path);
                self.notes.extend((!note.is_empty()).then_some(note));
            }
            Some(Sense::Nothing(instead)) => self.lost.push((path, instead.to_owned())),
            _ => {
                let lost = shown(&value);
                self.lost.push((path, format!("no other field means it, and {lost} is left out")));
            }
        }
        true
    }

    /// Repairs one wrong value. `false`: nothing more can be repaired.
    fn invalid(&mut self, contract: &ToolContract, pointer: &str) -> bool {
        let (Some(node), Some(value)) = (contract.node(pointer), self.arguments.pointer(pointer))
        else {
            return false;
        };
        let value = value.clone();
        if let Some(other) = elsewhere(contract.row.name, pointer, &value, &self.arguments) {
            self.other = Some(other);
            return false;
        }
        let path = join(pointer, "");
        if let Some(fixed) = coerced(node, &value) {
            self.put(&path, fixed);
            self.set.push(path);
            return true;
        }
        // Other systems pass an executor and its variant as one object.
        let (Value::Object(profile), "/executor") = (&value, pointer) else { return false };
        let name = ["executor", "name"].iter().find_map(|name| profile.get(*name));
        let Some(name @ Value::String(_)) = name else { return false };
        self.put("executor", name.clone());
        self.set.push(path);
        if let Some(variant @ Value::String(_)) = profile.get("variant") {
            self.put("variant", variant.clone());
            self.set.push("variant".to_owned());
        }
        true
    }

    /// The value or the field name that alone fixes the call, if one does.
    pub fn nearest(&self) -> Option<Value> {
        match (self.moved.as_slice(), self.set.as_slice()) {
            ([(_, to)], []) => Some(json!(to.rsplit('.').next())),
            ([], [path]) => self.at(path).cloned(),
            _ => None,
        }
    }

    /// The hint that says how to repeat the call. `None`: nothing could be repaired.
    pub fn hint(&self, tool: &str, given: &Value) -> Option<String> {
        if let Some(other) = &self.other {
            return Some(other.clone());
        }
        if let Some(path) = &self.branch {
            return Some(format!(
                "Call {tool} again with repos, an array of objects, each a repo_id from list_repos \
                 and the target_branch that {path} names."
            ));
        }
        let mut hint = self.changes(tool, given)?;
        for note in &self.notes {
            hint.push(' ');
            hint.push_str(note);
        }
        Some(hint)
    }

    /// The hint that spells the changes out, as `Call TOOL again with A = 1 instead of B.`
    fn changes(&self, tool: &str, given: &Value) -> Option<String> {
        let lost = self.lost.iter().map(|(path, _)| path.as_str());
        let from = self.moved.iter().map(|(from, _)| from.as_str());
        let left_out: Vec<&str> =
            from.chain(self.replaced.iter().map(String::as_str)).chain(lost).collect();
        let mut paths: Vec<&str> = self.moved.iter().map(|(_, to)| to.as_str()).collect();
        paths.extend(self.set.iter().map(String::as_str));
        paths.dedup();
        // A path inside another listed path is left out, because the outer value contains it.
        let within = |path: &str, whole: &str| {
            path.strip_prefix(whole).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let mut values: Vec<(&str, &Value)> = Vec::new();
        for path in &paths {
            let is_part = paths.iter().any(|whole| within(path, whole));
            if !is_part && !values.iter().any(|(there, _)| there == path) {
                values.push((path, self.at(path)?));
            }
        }
        if values.is_empty() {
            let left_out = left_out.join(" and ");
            return (!left_out.is_empty())
                .then(|| format!("Call {tool} again without {left_out}."));
        }
        let is_same =
            |(from, to): &(String, String)| given.pointer(&pointer_of(from)) == self.at(to);
        let is_one_name = values.len() == 1 && left_out.len() == 1;
        let is_long = values.iter().any(|(_, value)| value.to_string().len() > LONGEST);
        match self.moved.first() {
            Some(moved) if is_same(moved) && (is_one_name || is_long) => {
                Some(format!("Call {tool} again with {} instead of {}.", moved.1, moved.0))
            }
            _ if is_long && left_out.is_empty() => None,
            // The value is too long for a hint, so the hint only says where it belongs.
            _ if is_long => {
                let left_out = left_out.join(" and ");
                Some(format!(
                    "Call {tool} again with {}, which says what {left_out} does.",
                    values[0].0
                ))
            }
            _ => {
                let values = values.iter().map(|(path, value)| format!("{path} = {value}"));
                let values = values.collect::<Vec<_>>().join(" and ");
                let instead = match left_out.join(" and ") {
                    none if none.is_empty() => none,
                    fields => format!(" instead of {fields}"),
                };
                Some(format!("Call {tool} again with {values}{instead}."))
            }
        }
    }

    fn at(&self, path: &str) -> Option<&Value> {
        self.arguments.pointer(&pointer_of(path))
    }

    /// Sets the value at a path. Missing objects on the way are created.
    fn put(&mut self, path: &str, value: Value) {
        let pointer = pointer_of(path);
        let mut at = &mut self.arguments;
        for step in pointer.split('/').skip(1) {
            let next = match at {
                Value::Array(items) => step.parse().ok().and_then(|n: usize| items.get_mut(n)),
                Value::Object(members) => Some(members.entry(step).or_insert_with(|| json!({}))),
                _ => None,
            };
            let Some(next) = next else { return };
            at = next;
        }
        *at = value;
    }
}

/// The hint to call another tool, if a value asks for what that tool does.
fn elsewhere(tool: &str, pointer: &str, value: &Value, arguments: &Value) -> Option<String> {
    const STOPS: [&str; 6] = ["stop", "interrupt", "abort", "kill", "terminate", "end"];
    let is_stop = |value: &str| STOPS.contains(&value.trim().to_ascii_lowercase().as_str());
    if (tool, pointer) != ("follow_up", "/action") || !value.as_str().is_some_and(is_stop) {
        return None;
    }
    let attempt = arguments.get("attempt_id").filter(|attempt| attempt.is_string())?;
    Some(format!(
        "Call stop_attempt with attempt_id = {attempt} instead. follow_up only sends and queues \
         prompts, or empties the queue."
    ))
}
