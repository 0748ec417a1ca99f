//! The output schemas that the daemon publishes. Every answer of a tool in every test is
//! held against its own.

use std::collections::HashMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use super::program;

static SCHEMAS: LazyLock<HashMap<String, Validator>> = LazyLock::new(|| {
    let provost = env!("CARGO_BIN_EXE_provost");
    let listed = program(provost).args(["--json", "tools", "--role", "all"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let compiled = |tool: &Value| {
        let validator = jsonschema::draft202012::new(&tool["outputSchema"]).unwrap();
        (tool["name"].as_str().unwrap().to_owned(), validator)
    };
    listed["tools"].as_array().unwrap().iter().map(compiled).collect()
});

/// Panics if an answer, an error's envelope too, is not what its tool publishes.
pub fn check(tool: &str, answer: &Value) {
    let Some(schema) = SCHEMAS.get(tool) else { return };
    let faults: Vec<String> = schema.iter_errors(answer).map(|it| it.to_string()).collect();
    assert!(faults.is_empty(), "{tool} answered against its schema: {faults:?}\n{answer}");
}
