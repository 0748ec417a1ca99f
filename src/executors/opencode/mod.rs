//! `opencode`: OpenCode for one prompt, by `opencode run --format json`.
//! Permissions are not asked for.

mod normalize;

use std::collections::BTreeMap;

use provost_actors::executor::{Launch, McpServer, Normalizer, Turn};
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call};

/// Holds a configuration that goes before the files'.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

/// The protocol.
pub struct Opencode;

impl Adapter for Opencode {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        call.args.extend(["run", "--format", "json", "--thinking"].map(ToOwned::to_owned));
        call.option("model", "--model");
        call.option("agent", "--agent");
        if call.options.get("auto").is_some_and(|auto| auto == "yes") {
            call.args.push("--auto".to_owned());
        }
        if let Some(id) = &turn.executor_session_id {
            call.args.extend(["--session".to_owned(), id.clone()]);
        }
        if call.supports_mcp {
            add_way_back(&mut call.env, &turn.mcp)?;
        }
        call.with_prompt(&turn.prompt)
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        normalize::normalizer()
    }
}

/// Adds this daemon to the servers that the user has configured.
fn add_way_back(env: &mut BTreeMap<String, String>, server: &McpServer) -> Result<(), String> {
    let set = env.get(CONFIG).map_or("{}", String::as_str);
    let config: Option<Value> = serde_json::from_str(set).ok().filter(Value::is_object);
    let mut config = config.ok_or_else(|| format!("{CONFIG} is set and is no JSON object"))?;
    let McpServer { name, command, args, env: variables } = server;
    let command: Vec<Value> =
        std::iter::once(json!(command)).chain(args.iter().map(|arg| json!(arg))).collect();
    if !config["mcp"].is_object() {
        config["mcp"] = json!({});
    }
    config["mcp"][*name] =
        json!({ "type": "local", "command": command, "environment": variables, "enabled": true });
    env.insert(CONFIG.to_owned(), config.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;
    use crate::executors::tests::{self, launches};

    #[test]
    fn a_turn_is_launched_and_a_later_one_resumes_it() {
        let options = [("model", "p/m"), ("auto", "yes")];
        insta::assert_json_snapshot!(launches(Protocol::Opencode, &options));
    }

    #[test]
    fn the_way_back_joins_what_the_user_configured() {
        let set = |content: &str| BTreeMap::from([(CONFIG.to_owned(), content.to_owned())]);
        let server = &tests::turn("").mcp;
        let mut env = set(r#"{"model": "p/m", "mcp": {"own": {"type": "remote"}}}"#);
        add_way_back(&mut env, server).unwrap();
        let config: Value = serde_json::from_str(&env[CONFIG]).unwrap();
        assert_eq!(config["model"], "p/m");
        assert_eq!(config["mcp"]["own"]["type"], "remote");
        assert_eq!(config["mcp"]["provost"]["type"], "local");
        assert!(add_way_back(&mut set("// none"), server).is_err());
    }
}
