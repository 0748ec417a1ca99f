//! The generated parts of `docs/tools.md` and `docs/errors.md` are what the program says of its tools and errors.
//! `UPDATE_DOCS=1 cargo test --test docs` writes it anew.
#![expect(clippy::disallowed_methods, reason = "the tests start the program")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

const BEGIN: &str = "<!-- generated: `UPDATE_DOCS=1 cargo test --test docs` writes it -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// The fields of a failure, which every tool's output has beside those of its success.
const FAILURE: [&str; 7] = ["error", "code", "message", "retryable", "hint", "details", "context"];

#[test]
fn the_page_of_tools_is_current() {
    is_current("docs/tools.md", &page());
}

#[test]
fn the_page_of_errors_is_current() {
    is_current("docs/errors.md", &errors());
}

fn is_current(page: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (published, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{generated}{END}{after}")).unwrap();
    } else {
        assert!(published == generated, "{page} is old: run the test with UPDATE_DOCS=1");
    }
}

/// Runs `provost tools --json` with more arguments.
fn tools(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
    let output = command.args(["tools", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(role: &str) -> BTreeSet<String> {
    let tools = tools(&["--role", role]);
    tools["tools"].as_array().unwrap().iter().map(|tool| text(tool, "name").to_owned()).collect()
}

fn page() -> String {
    let (all, board, worker) = (tools(&[]), names("orchestrator"), names("worker"));
    let all = all["tools"].as_array().unwrap();
    let mut page = String::from("\n| tool | for | use when |\n|---|---|---|\n");
    let audience = |name: &str| match (board.contains(name), worker.contains(name)) {
        (true, true) => "agents inside an attempt",
        (true, false) => "orchestrators",
        _ => "workers",
    };
    for tool in all {
        let name = text(tool, "name");
        let purpose = text(tool, "description").lines().next().unwrap_or_default();
        let purpose = cell(purpose.strip_prefix("Use when: ").unwrap_or(purpose));
        let anchor = name.to_lowercase();
        writeln!(page, "| [`{name}`](#{anchor}) | {} | {purpose} |", audience(name)).unwrap();
    }
    for tool in all {
        let name = text(tool, "name");
        writeln!(page, "\n### {name}\n\n{}.\n", effect(tool, audience(name))).unwrap();
        for line in text(tool, "description").lines() {
            let (head, rest) = line.split_once(": ").unwrap();
            writeln!(page, "- **{head}:** {rest}").unwrap();
        }
        fields(&mut page, "Input", &tool["inputSchema"], &[]);
        fields(&mut page, "Output", &tool["outputSchema"], &FAILURE);
    }
    page.push('\n');
    page
}

/// For whom a tool is and what it does, as its annotations say it.
fn effect(tool: &Value, audience: &str) -> String {
    let is = |hint: &str| tool["annotations"][hint] == true;
    let effect = match (is("readOnlyHint"), is("destructiveHint"), is("idempotentHint")) {
        (true, ..) => "It changes nothing",
        (_, true, true) => "It overwrites, ends or removes; doing it again changes nothing more",
        (_, true, false) => "It may overwrite, end or remove",
        _ => "It adds to what is there",
    };
    format!("For {audience}. {effect}")
}

/// The table of a schema's fields, those within others by their path.
fn fields(page: &mut String, title: &str, schema: &Value, except: &[&str]) {
    let mut rows = String::new();
    for (name, field) in properties(schema).into_iter().flatten() {
        if !except.contains(&name.as_str()) {
            row(&mut rows, name, field, is_required(schema, name));
        }
    }
    if rows.is_empty() {
        writeln!(page, "\n{title}: no fields.").unwrap();
    } else {
        write!(page, "\n| {title} | type | |\n|---|---|---|\n{rows}").unwrap();
    }
}

fn row(rows: &mut String, path: &str, field: &Value, is_required: bool) {
    let star = if is_required { " \\*" } else { "" };
    let about = cell(field["description"].as_str().unwrap_or_default());
    writeln!(rows, "| `{path}`{star} | {} | {about} |", kind(field)).unwrap();
    for (name, inner) in properties(field).into_iter().flatten() {
        row(rows, &format!("{path}.{name}"), inner, false);
    }
    for (name, inner) in properties(&field["items"]).into_iter().flatten() {
        row(rows, &format!("{path}[].{name}"), inner, false);
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

/// Whether a call, or every answer of success, has the field.
fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["anyOf"].get(0).map_or(&schema["required"], |first| &first["required"]);
    required.as_array().is_some_and(|names| names.iter().any(|it| it == name))
}

/// The type of a field with its bounds and its default.
fn kind(field: &Value) -> String {
    let types: Vec<&str> = match &field["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let named: Vec<&str> = types.iter().copied().filter(|it| *it != "null").collect();
    let mut shown = match (named.as_slice(), field["anyOf"].as_array()) {
        (_, Some(any)) => any.iter().map(kind).collect::<Vec<_>>().join(" or "),
        ([], _) => "any".to_owned(),
        (["array"], _) => format!("array of {}", kind(&field["items"])),
        (["string"], _) if field["format"] == "date-time" => "date-time".to_owned(),
        (named, _) => named.join(" or "),
    };
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> =
            values.iter().filter(|it| !it.is_null()).map(|it| format!("`{}`", plain(it))).collect();
        shown = values.join(", ");
    }
    let bounds = [
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minimum", "maximum", ""),
    ];
    for (least, most, unit) in bounds {
        match (field.get(least), field.get(most)) {
            (Some(least), Some(most)) => write!(shown, ", {least} to {most}{unit}").unwrap(),
            (Some(least), None) => write!(shown, ", {least}{unit} or more").unwrap(),
            (None, Some(most)) => write!(shown, ", at most {most}{unit}").unwrap(),
            (None, None) => {}
        }
    }
    if types.contains(&"null") {
        shown.push_str(" or null");
    }
    match field.get("default") {
        None | Some(Value::Null) => {}
        Some(default) => write!(shown, "; default `{}`", plain(default)).unwrap(),
    }
    shown
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The codes of errors, and what helps.
fn errors() -> String {
    let mut page = String::from("\n| code | retryable | hint |\n|---|---|---|\n");
    for error in tools(&["--errors"])["errors"].as_array().unwrap() {
        let retryable = if error["retryable"] == true { "yes" } else { "no" };
        let hint = cell(text(error, "hint"));
        writeln!(page, "| `{}` | {retryable} | {hint} |", text(error, "code")).unwrap();
    }
    page.push('\n');
    page
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// A text as the cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;")
}
