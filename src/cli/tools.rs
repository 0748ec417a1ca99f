//! `provost tools` and `provost call`: the MCP tools from a command line.

use std::io::Read;

use super::prelude::*;
use super::text::harmless_json;
use crate::role::Role;
use crate::tools::Tool;
use crate::tools::table;

#[derive(clap::Args, Debug)]
pub struct ToolsArgs {
    /// Role whose tools to list
    #[arg(long, value_enum, default_value_t = Role::All)]
    pub role: Role,
    /// List the error codes instead of the tools
    #[arg(long)]
    pub errors: bool,
}

#[derive(clap::Args, Debug)]
pub struct CallArgs {
    /// The tool's name
    tool: String,
    /// The tool's arguments as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

/// `provost tools`. It needs no daemon: the table of tools is part of the program.
pub fn tools(out: &mut Output, args: &ToolsArgs) -> Result<Exit, Failure> {
    if args.errors {
        return errors(out);
    }
    let visible = table::all().iter().filter(|tool| tool.is_for_role(args.role));
    let tools: Vec<_> = visible.map(Tool::definition).collect();
    if out.as_json(&json!({ "tools": tools }))? {
        return Ok(Exit::Done);
    }
    let row = |tool: &rmcp::model::Tool| {
        let purpose = tool.description.as_deref().unwrap_or_default();
        let purpose = purpose.lines().next().unwrap_or_default();
        let purpose = purpose.strip_prefix("Use when:").unwrap_or(purpose).trim();
        vec![tool.name.to_string(), purpose.to_owned()]
    };
    out.table(&["TOOL", "USE WHEN"], tools.iter().map(row))?;
    Ok(Exit::Done)
}

/// `provost tools --errors`: every error code with its general hint.
fn errors(out: &mut Output) -> Result<Exit, Failure> {
    let json = Code::ALL
        .iter()
        .map(|code| json!({"code": code, "retryable": code.retryable(), "hint": code.hint()}));
    if out.as_json(&json!({"errors": json.collect::<Vec<_>>()}))? {
        return Ok(Exit::Done);
    }
    let row = |code: &Code| {
        let retryable = if code.retryable() { "yes" } else { "no" };
        vec![code.as_str().to_owned(), retryable.to_owned(), code.hint().to_owned()]
    };
    out.table(&["CODE", "RETRY", "HINT"], Code::ALL.iter().map(row))?;
    Ok(Exit::Done)
}

/// `provost call`: prints the answer as JSON, and a refusal as its envelope on standard error, with the
/// exit code of its error code.
pub async fn call(context: &mut Context, args: CallArgs) -> Result<Exit, Failure> {
    let given = match args.arguments.as_str() {
        "-" => {
            let mut given = String::new();
            std::io::stdin().read_to_string(&mut given)?;
            given
        }
        _ => args.arguments,
    };
    let arguments = arguments(&given)?;
    match context.client().await?.tool(&args.tool, arguments).await.map_err(Failure::Client) {
        Ok(output) => {
            context.out.json(&output)?;
            Ok(Exit::Done)
        }
        // Programs read it: the envelope, with or without `--json`, and nothing else.
        Err(Failure::Client(ClientError::Refused(envelope))) => {
            anstream::eprintln!("{}", harmless_json(&envelope.json.to_string()));
            Ok(envelope.code.map_or(Exit::Refused, super::exit::of))
        }
        Err(failure) => Err(failure),
    }
}

fn arguments(given: &str) -> Result<Value, Failure> {
    match serde_json::from_str(given) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(Failure::Usage("the arguments must be a JSON object".to_owned())),
        Err(error) => Err(Failure::Usage(format!("the arguments are not valid JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_json_object() {
        assert_eq!(arguments(r#"{"a":1}"#).unwrap(), json!({"a": 1}));
        for bad in ["", "[]", "{", "1"] {
            assert_eq!(arguments(bad).unwrap_err().exit(), Exit::Usage);
        }
    }
}
