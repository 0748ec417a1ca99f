//! The output of `config show`: every value with its origin, but no secret. Pure.

use std::collections::BTreeMap;

use provost_actors::secret::{Needle, SecretNames};
use serde_json::{Value as Json, json};

use super::settings::TABLE;
use super::{Config, ExecutorConfig, Origin};

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
    /// The documentation, for settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<&'static str>,
}

impl Shown {
    fn new(key: String, value: Json, origin: String) -> Self {
        Self { key, value, origin, variable: None, doc: None }
    }
}

impl Config {
    /// Every value with its origin: the settings in the order of their table, then the
    /// executors and the projects by name.
    pub fn show(&self) -> Vec<Shown> {
        let settings = TABLE.iter().zip(&self.origins).map(|(setting, origin)| {
            let value = (setting.get)(&self.settings);
            let (variable, doc) = (Some(setting.variable()), Some(setting.doc()));
            Shown { variable, doc, ..Shown::new(setting.path(), value, self.describe(origin)) }
        });
        let secrets = SecretNames(self.settings.secrets.names.clone());
        let executors = self.executors.iter().flat_map(|(name, executor)| {
            let origin = self.describe(&executor.line.map_or(Origin::Default, Origin::File));
            fields(executor, &secrets).into_iter().map(move |(field, value)| {
                Shown::new(format!("executors.{name}.{field}"), value, origin.clone())
            })
        });
        let projects = self.projects.iter().flat_map(|(name, project)| {
            project.checks.iter().map(move |(check, command)| {
                let key = format!("projects.{name}.checks.{check}");
                Shown::new(key, json!(command), self.describe(&Origin::File(project.line)))
            })
        });
        settings.chain(executors).chain(projects).collect()
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

/// Replaces a value that is a secret or contains one.
const HIDDEN: &str = "***";

/// Hides an executor's secrets in its values.
struct Redactor<'c> {
    names: &'c SecretNames,
    needles: Vec<Needle>,
}

impl<'c> Redactor<'c> {
    fn of(executor: &ExecutorConfig, names: &'c SecretNames) -> Self {
        let variants = executor.variants.values().map(|variant| &variant.env);
        let secrets = |env: &BTreeMap<String, String>| {
            names.take_out(&mut env.clone(), &BTreeMap::new()).needles
        };
        let needles = std::iter::once(&executor.env).chain(variants).flat_map(secrets).collect();
        Self { names, needles }
    }

    fn text<'t>(&self, text: &'t str) -> &'t str {
        let has_secret = self.needles.iter().any(|needle| text.contains(&needle.text));
        if has_secret { HIDDEN } else { text }
    }

    fn texts(&self, texts: &[String]) -> Json {
        texts.iter().map(|text| self.text(text)).collect()
    }

    fn env(&self, env: &BTreeMap<String, String>) -> Json {
        let shown = |name: &String, value| {
            let value = if self.names.name(name) { HIDDEN } else { self.text(value) };
            (name.clone(), json!(value))
        };
        env.iter().map(|(name, value)| shown(name, value)).collect()
    }
}

fn fields(executor: &ExecutorConfig, secrets: &SecretNames) -> Vec<(String, Json)> {
    let redactor = Redactor::of(executor, secrets);
    let mut fields = vec![
        ("protocol".to_owned(), json!(executor.protocol.as_str())),
        ("command".to_owned(), redactor.texts(&executor.command)),
        ("prompt".to_owned(), json!(executor.prompt)),
        ("supports_mcp".to_owned(), json!(executor.supports_mcp)),
        ("env".to_owned(), redactor.env(&executor.env)),
        ("env_pass".to_owned(), json!(executor.env_pass)),
        ("default_variant".to_owned(), json!(executor.default_variant)),
        ("options".to_owned(), redactor.env(&executor.options)),
        ("on_quota".to_owned(), json!(executor.on_quota)),
        ("role".to_owned(), json!(executor.role)),
        ("install".to_owned(), json!(executor.install)),
    ];
    for (name, value) in &executor.limits {
        fields.push((format!("limits.{name}"), json!(value)));
    }
    for (name, variant) in &executor.variants {
        fields.push((format!("variants.{name}.args"), redactor.texts(&variant.args)));
        fields.push((format!("variants.{name}.env"), redactor.env(&variant.env)));
        fields.push((format!("variants.{name}.options"), redactor.env(&variant.options)));
    }
    fields
}
