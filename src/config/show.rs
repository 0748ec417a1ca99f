//! What `config show` tells: every value with its origin, but no secret. Pure.

use std::collections::BTreeMap;

use provost_actors::secret::Names;
use serde_json::{Value as Json, json};

use super::settings::TABLE;
use super::{Config, ExecutorConfig, Origin, PromptVia};

/// One line of `config show`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Shown {
    /// Dotted path of the value.
    pub key: String,
    pub value: Json,
    /// `default`, a variable, a flag or a place in the file.
    pub origin: String,
    /// The environment variable that would set it, for settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// What it is for, for settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<&'static str>,
}

impl Config {
    /// Every value with its origin: settings as they are documented, then the
    /// executors by name.
    pub fn show(&self) -> Vec<Shown> {
        let settings = TABLE.iter().zip(&self.origins).map(|(setting, origin)| Shown {
            key: setting.path(),
            value: json!((setting.get)(&self.settings)),
            origin: self.describe(origin),
            variable: Some(setting.variable()),
            doc: Some(setting.doc()),
        });
        let secrets = Names::new(self.settings.secrets.names.clone());
        let executors = self.executors.iter().flat_map(|(name, executor)| {
            let origin = self.describe(&Origin::File(executor.line));
            fields(executor, &secrets).into_iter().map(move |(field, value)| Shown {
                key: format!("executors.{name}.{field}"),
                value,
                origin: origin.clone(),
                variable: None,
                doc: None,
            })
        });
        settings.chain(executors).collect()
    }

    fn describe(&self, origin: &Origin) -> String {
        match origin {
            Origin::Default => "default".to_owned(),
            Origin::File(line) => format!("{}:{line}", self.file.display()),
            Origin::Environment(name) => name.clone(),
            Origin::Flag(flag) => flag.clone(),
        }
    }
}

/// What is told of a value that is a secret, or holds one.
const HIDDEN: &str = "***";

fn fields(executor: &ExecutorConfig, secrets: &Names) -> Vec<(String, Json)> {
    let shown = |env: &BTreeMap<String, String>| {
        let mut told = env.clone();
        let taken = secrets.take_out(&mut told, &BTreeMap::new());
        let hidden =
            taken.env.into_keys().chain(env.keys().filter(|&name| secrets.name(name)).cloned());
        told.extend(hidden.map(|name| (name, HIDDEN.to_owned())));
        json!(told)
    };
    let prompt = match executor.prompt {
        PromptVia::Stdin => "stdin",
        PromptVia::Arg => "arg",
    };
    let mut fields = vec![
        ("protocol".to_owned(), json!(executor.protocol.as_str())),
        ("command".to_owned(), json!(executor.command)),
        ("prompt".to_owned(), json!(prompt)),
        ("supports_mcp".to_owned(), json!(executor.supports_mcp)),
        ("env".to_owned(), shown(&executor.env)),
        ("env_pass".to_owned(), json!(executor.env_pass)),
        ("default_variant".to_owned(), json!(executor.default_variant)),
    ];
    for (name, value) in &executor.limits {
        fields.push((format!("limits.{name}"), json!(value)));
    }
    for (name, variant) in &executor.variants {
        fields.push((format!("variants.{name}.args"), json!(variant.args)));
        fields.push((format!("variants.{name}.env"), shown(&variant.env)));
    }
    fields
}
