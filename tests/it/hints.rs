//! Follows hints word for word, as a program would that understands nothing: the
//! sentence forms of hints, read, and a refused call mended by them until it works.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::Provost;

/// What a hint asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Give fields these values, and leave others out.
    Set(Vec<(String, Value)>, Vec<String>),
    /// Give a field a value that another tool tells.
    From(String, String),
    /// Give a field under another name.
    Rename {
        to: String,
        from: String,
    },
    Without(Vec<String>),
    /// Give one of two fields and not the other.
    OneOf(String, String),
    NewRequestId,
    /// Call another tool instead.
    Instead(String),
    /// Call another tool with this field instead.
    InsteadWith(String, String, Value),
    /// Call another tool with this field first.
    First(String, String, Value),
    /// Only the caller knows the value, or a person has to do something.
    Person,
    /// The same call works at another time.
    Later,
}

/// Reads the first sentence of a hint. `None`: it has none of the forms.
pub fn read(hint: &str, details: &Value) -> Option<Step> {
    let Some(call) = hint.strip_prefix("Call ") else {
        return hint.ends_with('.').then_some(Step::Person);
    };
    let (tool, rest) = call
        .strip_prefix("the tool ")
        .map_or_else(|| call.split_once(' '), |rest| Some(("the tool", rest)))?;
    if rest.starts_with("instead.") {
        return Some(Step::Instead(tool.to_owned()));
    }
    if rest.starts_with("again when ") || rest.starts_with("until ") {
        return Some(Step::Later);
    }
    if let Some(field) = rest.strip_prefix("again without ") {
        // A stop before a blank ends the sentence; others are within paths.
        let fields = field.split_once(". ").map_or(field, |(fields, _)| fields);
        let fields = fields.trim_end_matches('.');
        return Some(Step::Without(fields.split(" and ").map(str::to_owned).collect()));
    }
    if let Some(first) = rest.strip_prefix("with ") {
        let (field, value) = first.split_once(" = ")?;
        let (value, rest) = value_of(value, details)?;
        if rest.starts_with(" instead.") {
            return Some(Step::InsteadWith(tool.to_owned(), field.to_owned(), value));
        }
        return rest
            .starts_with(", then ")
            .then(|| Step::First(tool.to_owned(), field.to_owned(), value));
    }
    let with = rest.strip_prefix("again with ")?;
    if let Some(fields) = with.strip_prefix("exactly one of ") {
        if fields.starts_with("the fields in ") {
            let fields = details["fields"].as_array()?;
            return Some(Step::OneOf(fields[0].as_str()?.into(), fields[1].as_str()?.into()));
        }
        let (one, other) = fields.split_once(" and ")?;
        return Some(Step::OneOf(word(one), word(other)));
    }
    if with.starts_with("a new request_id.") {
        return Some(Step::NewRequestId);
    }
    if with.starts_with("one or more of ") {
        return Some(Step::Person);
    }
    let field = word(with);
    let rest = &with[field.len()..];
    if rest.starts_with(" = ") {
        return values(with, details);
    }
    if let Some(from) = rest.strip_prefix(" instead of ") {
        return Some(Step::Rename { to: field, from: word(from) });
    }
    if let Some(list) = rest.strip_prefix(" from ") {
        return Some(Step::From(field, word(list)));
    }
    rest.starts_with(", ").then_some(Step::Person)
}

/// `F = V and G = W instead of H and I.`
fn values(mut text: &str, details: &Value) -> Option<Step> {
    let mut given = Vec::new();
    loop {
        let field = word(text);
        let (value, rest) = value_of(text[field.len()..].strip_prefix(" = ")?, details)?;
        given.push((field, value));
        if rest.starts_with('.') {
            return Some(Step::Set(given, Vec::new()));
        }
        if let Some(left_out) = rest.strip_prefix(" instead of ") {
            let left_out = left_out.split_once(". ").map_or(left_out, |(fields, _)| fields);
            let left_out = left_out.trim_end_matches('.').split(" and ");
            return Some(Step::Set(given, left_out.map(str::to_owned).collect()));
        }
        text = rest.strip_prefix(" and ")?;
    }
}

/// The next call as the hint of an answer that was cut short, or blocked, says.
pub fn go_on(arguments: &Value, answer: &Value) -> Value {
    let hint = answer["hint"].as_str().unwrap();
    let Some(Step::Set(given, left_out)) = read(hint, &Value::Null) else {
        panic!("no way on: {hint}")
    };
    let mut arguments = arguments.clone();
    set(&mut arguments, given, &left_out);
    arguments
}

fn set(arguments: &mut Value, given: Vec<(String, Value)>, left_out: &[String]) {
    for field in left_out {
        remove(arguments, field);
    }
    for (path, value) in given {
        *at(arguments, &steps(&path)) = value;
    }
}

/// The tool, field or path that a text begins with.
fn word(text: &str) -> String {
    let end = text.find([' ', ',']).unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// The JSON that a text begins with, or the member of the details; and the rest.
fn value_of<'t>(text: &'t str, details: &Value) -> Option<(Value, &'t str)> {
    if let Some(name) = text.strip_prefix("details.") {
        let name = word(name);
        return Some((details[&name].clone(), &text["details.".len() + name.len()..]));
    }
    // A full stop after a number or a truth value is the sentence's.
    if !text.starts_with(['"', '[', '{']) {
        let bare = word(text);
        return Some((serde_json::from_str(&bare).ok()?, &text[bare.len()..]));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// The steps of a path: `repos[0].path` is `repos`, `0`, `path`.
fn steps(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect()
}

/// What stands at a path, made if it is not there.
fn at<'v>(arguments: &'v mut Value, path: &[&str]) -> &'v mut Value {
    path.iter().fold(arguments, |value, step| match step.parse::<usize>() {
        Ok(index) => &mut value[index],
        Err(_) => &mut value[*step],
    })
}

fn remove(arguments: &mut Value, path: &str) -> Value {
    let steps = steps(path);
    let (last, parents) = steps.split_last().unwrap();
    match at(arguments, parents) {
        Value::Array(items) => items.remove(last.parse().unwrap()),
        Value::Object(members) => members.shift_remove(*last).unwrap_or_default(),
        other => panic!("{path}: nothing to remove from {other}"),
    }
}

/// Makes request ids that no call has used.
static NEW: AtomicUsize = AtomicUsize::new(0);

/// How a refused call came to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By so many mended calls.
    Steps(usize),
    /// By a value that another tool told.
    Read,
    /// Not by a program.
    Person,
    /// At another time.
    Later,
}

/// Whoever follows hints, and the ids that stand in its conversation.
pub struct Follower<'p> {
    pub provost: &'p Provost,
    /// `project_id`, `task_id`, `attempt_id`.
    pub known: Value,
}

impl Follower<'_> {
    /// Follows the hints of a call until it works, or only another person or agent can continue.
    pub fn follow(&self, tool: &str, arguments: &Value) -> Way {
        let (mut tool, mut arguments) = (tool.to_owned(), arguments.clone());
        let mut way = Way::Steps(0);
        let mut made: Vec<(String, Value)> = Vec::new();
        loop {
            let call = (tool.clone(), arguments.clone());
            let was_before = made.iter().filter(|before| **before == call).count();
            let answer = self.provost.answer(&tool, &arguments);
            if !answer.is_error {
                return way;
            }
            let refusal = answer.value;
            assert_eq!(was_before, 0, "a circle: {tool} {arguments}: {refusal}");
            made.push(call);
            if let Way::Steps(count) = &mut way {
                *count += 1;
            }
            let hint = refusal["hint"].as_str().unwrap();
            let step = read(hint, &refusal["details"]);
            match step.unwrap_or_else(|| panic!("no form of hint: {hint}")) {
                Step::Set(given, left_out) => set(&mut arguments, given, &left_out),
                Step::From(path, list) => {
                    way = Way::Read;
                    let value = self.value_from(&path, &list, &arguments);
                    *at(&mut arguments, &steps(&path)) = value;
                }
                Step::Rename { to, from } => {
                    let value = remove(&mut arguments, &from);
                    *at(&mut arguments, &steps(&to)) = value;
                }
                Step::Without(paths) => {
                    for path in paths {
                        remove(&mut arguments, &path);
                    }
                }
                Step::OneOf(one, other) => {
                    remove(&mut arguments, &other);
                    if arguments.get(&one).is_none() {
                        arguments[&one] = self.known[&one].clone();
                    }
                }
                Step::NewRequestId => {
                    arguments["request_id"] =
                        json!(format!("new {}", NEW.fetch_add(1, Ordering::Relaxed)));
                }
                Step::Instead(other) => (tool, arguments) = (other, json!({})),
                Step::InsteadWith(other, field, value) => {
                    (tool, arguments) = (other, json!({ field: value }));
                }
                Step::First(other, field, value) => {
                    self.provost.call(&other, &json!({ field: value }));
                    // The same call again is what the hint asks for.
                    made.clear();
                }
                Step::Person => return Way::Person,
                Step::Later => return Way::Later,
            }
        }
    }

    /// A value for a field, from the tool that tells such.
    fn value_from(&self, path: &str, list: &str, arguments: &Value) -> Value {
        let needs = match list {
            "list_tasks" | "list_repos" => json!({"project_id": self.known["project_id"]}),
            "list_task_attempts" => json!({"task_id": self.known["task_id"]}),
            "get_attempt_status" | "get_attempt_changes" => {
                json!({"attempt_id": self.known["attempt_id"]})
            }
            _ => json!({}),
        };
        let answer = self.provost.call(list, &needs);
        let last = *steps(path).iter().rfind(|step| step.parse::<usize>().is_err()).unwrap();
        let (name, is_list) = match last {
            "depends_on" => ("task_id", path == last),
            "attempt_ids" => ("attempt_id", path == last),
            "paths" => ("path", path == last),
            "session_id" => return answer["latest_session_id"].clone(),
            name => (name, false),
        };
        // An agent goes on in its own project, which is not the first of the list.
        if list == "list_projects" {
            return self.known[name].clone();
        }
        // The inbox has several lists.
        let mut items = answer.as_object().unwrap().values().filter_map(Value::as_array).flatten();
        let item = items.find(|item| {
            let has_it = !item[name].is_null() && item["available"] != false;
            has_it && (name == last || item[name] != arguments[name])
        });
        let value = item.unwrap_or_else(|| panic!("{list} tells nothing"))[name].clone();
        if is_list { json!([value]) } else { value }
    }
}

/// Tools that may end, overwrite or drop something.
const DESTRUCTIVE: [&str; 5] =
    ["delete_task", "stop_attempt", "update_task", "follow_up", "answer"];

/// What holds for the first step of every hint: it aims no call that may take something
/// away at another thing than the one named, overrides no guard, and leaves nothing out
/// of which the message does not speak.
pub fn harmless(tool: &str, arguments: &Value, refusal: &Value) {
    let (hint, details) = (refusal["hint"].as_str().unwrap(), &refusal["details"]);
    let describe = || format!("{tool} {arguments}: {refusal}");
    let step = read(hint, details).unwrap_or_else(|| panic!("no form of hint: {hint}"));
    let first = hint.split(". ").next().unwrap();
    for guard in ["ignore_dependencies", "force"] {
        let meant = arguments.get(guard).is_some()
            || ["kill", "hard", "signal"].iter().any(|word| arguments.get(word).is_some());
        assert!(meant || !first.contains(&format!("{guard} = true")), "{}", describe());
    }
    // Every id that a hint aims at was named, whole or in a piece, or by its name.
    let named = arguments.to_string();
    let is_named = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        let is_id = text.len() == 36 && text.bytes().filter(|b| *b == b'-').count() == 4;
        let kind = details["id_is"].as_str();
        !is_id || named.contains(&text[24..]) || kind.is_none_or(|kind| details[kind] == *text)
    };
    match step {
        Step::Set(given, _) if DESTRUCTIVE.contains(&tool) => {
            assert!(given.iter().all(|(_, value)| is_named(value)), "{}", describe());
        }
        Step::InsteadWith(other, _, value) if DESTRUCTIVE.contains(&other.as_str()) => {
            assert!(is_named(&value), "{}", describe());
        }
        Step::Instead(other) => assert_ne!(other, "delete_task", "{}", describe()),
        Step::Without(paths) if refusal["code"] == "unknown_field" => {
            let message = refusal["message"].as_str().unwrap();
            for path in paths {
                assert!(message.contains(path.as_str()), "{}", describe());
            }
        }
        _ => {}
    }
}
