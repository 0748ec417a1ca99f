//! The output of `config show`: every value with its origin, but no secret. Pure.

use std::collections::BTreeMap;

use provost_actors::environment::Given;
use provost_actors::secret::{Needle, SecretNames};
use serde_json::{Value as Json, json};

use super::settings::TABLE;
use super::{Config, ExecutorConfig};

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
    /// All values with their origins: the settings in the order of their table, then the executors, the
    /// projects and the forges by name.
    pub fn show(&self) -> Vec<Shown> {
        let settings = TABLE.iter().zip(&self.origins).map(|(setting, origin)| {
            let value = setting.shown((setting.get)(&self.settings));
            let (variable, doc) = (Some(setting.variable()), Some(setting.doc()));
            Shown { variable, doc, ..Shown::new(setting.path(), value, origin.clone()) }
        });
        let secrets = SecretNames(self.settings.secrets.names.clone());
        let executors = self.executors.iter().flat_map(|(name, executor)| {
            let origin = executor.origin.as_deref().unwrap_or("default");
            fields(executor, &secrets).into_iter().map(move |(field, value)| {
                Shown::new(format!("executors.{name}.{field}"), value, origin.to_owned())
            })
        });
        let projects = self.projects.iter().flat_map(|(name, project)| {
            project.checks.iter().map(move |(check, command)| {
                let key = format!("projects.{name}.checks.{check}");
                Shown::new(key, json!(command), project.origin.clone())
            })
        });
        let repos = self.projects.iter().flat_map(|(name, project)| {
            project.repos.iter().flat_map(move |(repo, settings)| {
                settings.entries().into_iter().map(move |(key, entry)| {
                    let key = format!("projects.{name}.repos.{repo}.{key}");
                    Shown::new(key, entry.value, entry.origin)
                })
            })
        });
        let given = self.projects.iter().flat_map(|(name, project)| {
            let checks = (format!("projects.{name}.checks_"), &project.checks_given);
            let mut all = vec![checks];
            for (repo, scripts) in &project.given {
                let of_script = |(script, given): (&&str, _)| {
                    (format!("projects.{name}.repos.{repo}.{script}."), given)
                };
                all.extend(scripts.iter().map(of_script));
            }
            let shown = |(key, given): (String, &Given)| {
                shown_given(&key, given, &project.origin, &secrets)
            };
            all.into_iter().flat_map(shown).collect::<Vec<_>>()
        });
        let forges = self.forges.iter().flat_map(|(host, it)| {
            let token = it.token_env.as_ref().map_or(HIDDEN, |name| name);
            let key = if it.token_env.is_some() { "token_env" } else { "token" };
            let kind = format!("{:?}", it.forge.kind).to_lowercase();
            [("api", it.forge.api.as_str()), ("kind", &kind), (key, token)].map(|(key, value)| {
                Shown::new(format!("forges.{host}.{key}"), json!(value), it.origin.clone())
            })
        });
        settings.chain(executors).chain(projects).chain(repos).chain(given).chain(forges).collect()
    }
}

/// The variables that are given to processes, with the secrets among them hidden.
fn shown_given(key: &str, given: &Given, origin: &str, secrets: &SecretNames) -> Vec<Shown> {
    let mut env = json!(given.set);
    hide(&mut env, secrets, &[]);
    let all = [
        ("env", env, given.set.is_empty()),
        ("env_pass", json!(given.pass), given.pass.is_empty()),
    ];
    let given = all.into_iter().filter(|(.., is_empty)| !is_empty);
    given
        .map(|(name, value, _)| Shown::new(format!("{key}{name}"), value, origin.to_owned()))
        .collect()
}

/// What is shown in place of a value that is a secret or contains one.
const HIDDEN: &str = "***";

/// The fields that may contain a secret.
const OPEN: [&str; 4] = ["command", "args", "env", "options"];

/// An executor's fields, with its secrets hidden. Each limit, and each field of a variant, is a field of
/// its own.
fn fields(executor: &ExecutorConfig, secrets: &SecretNames) -> Vec<(String, Json)> {
    let variants = executor.variants.values().map(|variant| &variant.env);
    let envs = std::iter::once(&executor.env).chain(variants);
    let needles: Vec<Needle> = envs
        .flat_map(|env| secrets.take_out(&mut env.clone(), &BTreeMap::new(), &[]).needles)
        .collect();
    let mut fields = Vec::new();
    add_fields("", json!(executor), &mut fields);
    for (path, value) in &mut fields {
        if OPEN.contains(&path.rsplit('.').next().unwrap_or_default()) {
            hide(value, secrets, &needles);
        }
    }
    fields
}

/// Appends the fields of a table with their paths; only limits and variants are taken apart.
fn add_fields(path: &str, table: Json, fields: &mut Vec<(String, Json)>) {
    let Json::Object(table) = table else { return };
    for (key, value) in table {
        match (path, key.as_str()) {
            ("", "limits" | "variants") | ("variants.", _) => {
                add_fields(&format!("{path}{key}."), value, fields);
            }
            _ => fields.push((format!("{path}{key}"), value)),
        }
    }
}

/// Replaces texts that contain a secret, and members whose name is that of a secret.
fn hide(value: &mut Json, names: &SecretNames, needles: &[Needle]) {
    match value {
        Json::String(text) if needles.iter().any(|needle| text.contains(&needle.text)) => {
            HIDDEN.clone_into(text);
        }
        Json::Array(items) => items.iter_mut().for_each(|item| hide(item, names, needles)),
        Json::Object(members) => {
            for (name, member) in members {
                hide(member, names, needles);
                if names.name(name) {
                    *member = json!(HIDDEN);
                }
            }
        }
        _ => {}
    }
}
