//! Requests: a tool's arguments from its published schema, then made wrong in one of
//! many ways, or not; and lines that are not requests. Pure.

use std::collections::BTreeMap;
use std::fmt;

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// A line for the server.
pub enum Request {
    /// A call of a tool.
    Call { tool: String, arguments: Value },
    /// Another method, known or not.
    Method { name: String, params: Value },
    /// A line that is not a request; its answer has no id.
    Garbage(Vec<u8>),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { tool, arguments } => write!(f, "{tool} {arguments}"),
            Self::Method { name, params } => write!(f, "{name} {params}"),
            Self::Garbage(line) => write!(f, "{:?}", String::from_utf8_lossy(line)),
        }
    }
}

/// Ids that exist, each under the field that named it, so that calls get beyond the first
/// check.
#[derive(Default)]
pub struct Ids(Vec<(String, String)>);

/// The most ids that are remembered.
const IDS: usize = 200;

impl Ids {
    /// An id for a field: mostly one that such a field has named.
    fn pick(&self, rng: &mut Rng, field: &str) -> Option<String> {
        let fitting: Vec<&String> = self
            .0
            .iter()
            .filter(|(name, _)| field == name || field == format!("{name}s"))
            .map(|(_, id)| id)
            .collect();
        if !fitting.is_empty() && rng.u8(..10) > 0 {
            return Some(fitting[rng.usize(..fitting.len())].clone());
        }
        (!self.0.is_empty()).then(|| self.0[rng.usize(..self.0.len())].1.clone())
    }

    /// Remembers the ids in an answer.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member.as_str() {
                        Some(id) if name.ends_with("_id") && self.0.len() < IDS => {
                            self.0.push((name.clone(), id.to_owned()));
                        }
                        Some(_) => {}
                        None => self.learn(member),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }
}

/// What strings are made of: names that exist, and what parsers trip over. No line of
/// them starts a program, since one may become the prompt of an attempt.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "a",
    "fuzz",
    "fake",
    "main",
    "TASK-001",
    "Q-001",
    "TASK-999999999999",
    "null",
    "0",
    "-1",
    "../../etc/passwd",
    "/",
    "repo/file.txt",
    "\u{0}",
    "\u{202e}gnp.exe",
    "\u{1b}[31m",
    "e\u{301}",
    "😀",
    "'; DROP TABLE tasks; --",
    "say hello\nsay bye",
];

/// One request.
pub fn request(rng: &mut Rng, tools: &BTreeMap<String, Value>, ids: &Ids) -> Request {
    match rng.u8(..100) {
        0..=3 => Request::Garbage(garbage(rng)),
        4..=9 => Request::Method { name: method(rng), params: anything(rng, ids, 2) },
        roll => {
            let names: Vec<&String> = tools.keys().collect();
            let name = names[rng.usize(..names.len())].clone();
            let schema = &tools[&name]["inputSchema"];
            let mut arguments = of_schema(rng, schema, ids, "", 0);
            if roll > 45 {
                make_wrong(rng, &mut arguments, ids);
            }
            harmless(&name, &mut arguments);
            match roll {
                // Workers' tools are methods of their own, too; others are unknown there.
                10..=12 => Request::Method { name, params: arguments },
                13 => Request::Call { tool: format!("{name}x"), arguments },
                _ => Request::Call { tool: name, arguments },
            }
        }
    }
}

/// What would take the test with it, or wait for long.
fn harmless(tool: &str, arguments: &mut Value) {
    let Some(arguments) = arguments.as_object_mut() else { return };
    for name in ["timeout_ms", "timeout_seconds"] {
        if arguments.get(name).is_some_and(Value::is_u64) {
            arguments.insert(name.to_owned(), json!(1));
        }
    }
    if tool == "wait_for_attempts" || tool == "getImmediateAnswer" {
        let name = if tool == "wait_for_attempts" { "timeout_ms" } else { "timeout_seconds" };
        arguments.entry(name).or_insert(json!(1));
    }
}

fn method(rng: &mut Rng) -> String {
    const METHODS: [&str; 12] = [
        "ping",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "no/such/method",
        "tools/",
        "getNextTask",
    ];
    METHODS[rng.usize(..METHODS.len())].to_owned()
}

/// A line that is not a request.
fn garbage(rng: &mut Rng) -> Vec<u8> {
    const LINES: [&[u8]; 10] = [
        b"{",
        b"[]",
        b"nonsense",
        b"\xff\xfe\xfd",
        b"{}",
        b"[1,2]",
        b"{\"jsonrpc\":\"2.0\"}",
        b"\"text\"",
        b"{\"jsonrpc\":\"1.0\",\"method\":\"ping\"",
        b"{\"id\":null,\"jsonrpc\":\"2.0\",\"method\":\"ping\"}",
    ];
    LINES[rng.usize(..LINES.len())].to_vec()
}

/// A value that the schema mostly takes.
fn of_schema(rng: &mut Rng, schema: &Value, ids: &Ids, field: &str, depth: u8) -> Value {
    if let Some(allowed) = schema["enum"].as_array() {
        return allowed[rng.usize(..allowed.len())].clone();
    }
    if let Some(forms) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let form = &forms[rng.usize(..forms.len())];
        return of_schema(rng, form, ids, field, depth);
    }
    let kind = match &schema["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds[rng.usize(..kinds.len())].as_str().unwrap_or("null"),
        _ => return anything(rng, ids, depth),
    };
    match kind {
        "string" if rng.u8(..4) > 0 && field.ends_with("_id") || field.ends_with("_ids") => {
            json!(ids.pick(rng, field).unwrap_or_default())
        }
        "string" => json!(text(rng, ids)),
        "integer" => json!(rng.i64(0..=60)),
        "number" => json!(rng.f64()),
        "boolean" => json!(rng.bool()),
        "array" if depth < 4 => {
            let count = rng.usize(..3);
            (0..count).map(|_| of_schema(rng, &schema["items"], ids, field, depth + 1)).collect()
        }
        "object" if depth < 4 => {
            let mut object = Map::new();
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if required.contains(&json!(name)) || rng.u8(..4) == 0 {
                    object.insert(name.clone(), of_schema(rng, property, ids, name, depth + 1));
                }
            }
            Value::Object(object)
        }
        _ => Value::Null,
    }
}

fn text(rng: &mut Rng, ids: &Ids) -> String {
    match rng.u8(..10) {
        0..=2 => ids.pick(rng, "").unwrap_or_default(),
        6 => "x".repeat(rng.usize(..20_000)),
        _ => TEXTS[rng.usize(..TEXTS.len())].to_owned(),
    }
}

fn anything(rng: &mut Rng, ids: &Ids, depth: u8) -> Value {
    match rng.u8(..8) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(..)),
        3 => json!(rng.f64() * 1e300),
        4 | 5 => json!(text(rng, ids)),
        6 if depth < 4 => (0..rng.usize(..4)).map(|_| anything(rng, ids, depth + 1)).collect(),
        _ if depth < 4 => {
            let member = |rng: &mut Rng| (text(rng, ids), anything(rng, ids, depth + 1));
            Value::Object((0..rng.usize(..4)).map(|_| member(rng)).collect())
        }
        _ => json!([]),
    }
}

/// One or two faults.
fn make_wrong(rng: &mut Rng, arguments: &mut Value, ids: &Ids) {
    for _ in 0..=rng.u8(..2) {
        let Some(object) = arguments.as_object_mut() else { return };
        let names: Vec<String> = object.keys().cloned().collect();
        let one = (!names.is_empty()).then(|| names[rng.usize(..names.len())].clone());
        match (rng.u8(..6), one) {
            (0, Some(name)) => drop(object.remove(&name)),
            (1 | 2, Some(name)) => drop(object.insert(name, anything(rng, ids, 0))),
            (3, Some(name)) => {
                let value = object.remove(&name).unwrap_or_default();
                object.insert(format!("{name}s"), value);
            }
            (4, Some(name)) => drop(object.insert(name, nested(rng.usize(..100)))),
            _ => drop(object.insert(text(rng, ids), anything(rng, ids, 0))),
        }
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!([inner]))
}
