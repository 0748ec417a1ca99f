//! Whether an answer has the form that is promised for it, and how often each outcome
//! was seen. Pure.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::Result;
use crate::generate::Request;

pub struct Judge {
    /// The output schema of each tool.
    outputs: BTreeMap<String, Validator>,
    falsify: Option<String>,
    /// Outcomes by their code.
    seen: BTreeMap<String, u32>,
}

type Verdict = std::result::Result<(), String>;

impl Judge {
    /// `falsify`: the kind of answer to spoil before it is judged.
    pub fn new(tools: &BTreeMap<String, Value>, falsify: Option<&str>) -> Result<Self> {
        let mut outputs = BTreeMap::new();
        for (name, tool) in tools {
            let validator = jsonschema::draft202012::new(&tool["outputSchema"])
                .map_err(|error| format!("the output schema of {name}: {error}"))?;
            outputs.insert(name.clone(), validator);
        }
        Ok(Self { outputs, falsify: falsify.map(str::to_owned), seen: BTreeMap::new() })
    }

    /// Judges the answer to a request.
    pub fn answer(&mut self, request: &Request, mut answer: Value) -> Verdict {
        self.spoil(&mut answer);
        match request {
            Request::Call { tool, .. } => {
                if self.outputs.contains_key(tool) {
                    self.call(tool, &answer)
                } else {
                    self.protocol_error(&answer)
                }
            }
            Request::Method { .. } if answer.get("result").is_some() => {
                self.count("result of a method");
                Ok(())
            }
            Request::Method { .. } => self.protocol_error(&answer),
            Request::Garbage(_) => Err("a line without an id has an answer with one".to_owned()),
        }
    }

    /// Judges the answer to a line without an id.
    pub fn unnumbered(&mut self, answer: &Value) -> Verdict {
        let code = answer["error"]["code"].as_i64();
        if answer["id"].is_null() && matches!(code, Some(-32700 | -32600)) {
            self.count("refused line");
            return Ok(());
        }
        Err(format!("no answer to a line that is not a request: {answer}"))
    }

    fn call(&mut self, tool: &str, answer: &Value) -> Verdict {
        let result = answer.get("result").ok_or("a call of a tool has no result")?;
        let structure = &result["structuredContent"];
        let text = result["content"][0]["text"].as_str().ok_or("no text")?;
        if serde_json::from_str::<Value>(text).ok().as_ref() != Some(structure) {
            return Err("text and structure differ".to_owned());
        }
        if let Err(fault) = self.outputs[tool].validate(structure) {
            return Err(format!("{}: {fault}", fault.instance_path()));
        }
        if result["isError"] != true {
            self.count("done");
            return Ok(());
        }
        let error = if structure["success"] == false { &structure["error"] } else { structure };
        let code = error["code"].as_str().ok_or("an error without a code")?;
        if code.eq_ignore_ascii_case("internal") || code.eq_ignore_ascii_case("internal_error") {
            return Err("an internal fault".to_owned());
        }
        for field in ["message", "hint"] {
            if error[field].as_str().is_none_or(str::is_empty) {
                return Err(format!("an error without `{field}`"));
            }
        }
        if !error["retryable"].is_boolean() {
            return Err("an error without `retryable`".to_owned());
        }
        self.count(code);
        Ok(())
    }

    fn protocol_error(&mut self, answer: &Value) -> Verdict {
        let code = answer["error"]["code"].as_i64().ok_or("neither result nor error")?;
        if code == -32603 {
            return Err("an internal fault".to_owned());
        }
        if answer["error"]["message"].as_str().is_none_or(str::is_empty) {
            return Err("an error without a message".to_owned());
        }
        self.count(&code.to_string());
        Ok(())
    }

    /// Spoils the first answer that it can, if that was asked for.
    fn spoil(&mut self, answer: &mut Value) {
        let is_error = answer["result"]["isError"] == true;
        match self.falsify.as_deref() {
            Some("envelope") if is_error => answer["result"]["structuredContent"] = json!({}),
            Some("output") if answer["result"]["isError"] == false => {
                answer["result"]["structuredContent"]["of_no_schema"] = json!(1);
            }
            Some("silence") => *answer = json!({"id": answer["id"]}),
            _ => return,
        }
        self.falsify = None;
    }

    fn count(&mut self, outcome: &str) {
        *self.seen.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Prints how often each outcome was seen.
    pub fn report(&self, seed: u64, sent: usize) {
        println!("seed {seed}: {sent} requests, each answered once and in its form");
        for (outcome, count) in &self.seen {
            println!("| {outcome} | {count} |");
        }
    }
}
