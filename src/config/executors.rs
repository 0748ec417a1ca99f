//! The `[executors.NAME]` tables: which program speaks which protocol, and its
//! variants. Plain data; whether a program is there is not asked here.

use std::collections::BTreeMap;

use super::ConfigError;
use super::reader::{Item, Table, nearest};
use super::settings::{TABLE, Value};

/// What an executor says on its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Lines of text.
    Plain,
    /// Lines of normalized entries as JSON.
    Events,
    /// The built-in executor that its prompt scripts.
    Fake,
    Claude,
    Codex,
    Gemini,
    Opencode,
    Qwen,
    Copilot,
    /// The Agent Client Protocol.
    Acp,
}

impl Protocol {
    const ALL: [(&str, Self); 10] = [
        ("plain", Self::Plain),
        ("events", Self::Events),
        ("fake", Self::Fake),
        ("claude", Self::Claude),
        ("codex", Self::Codex),
        ("gemini", Self::Gemini),
        ("opencode", Self::Opencode),
        ("qwen", Self::Qwen),
        ("copilot", Self::Copilot),
        ("acp", Self::Acp),
    ];

    /// The spelling in `config.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Events => "events",
            Self::Fake => "fake",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Acp => "acp",
        }
    }

    /// Whether this version can run it. An executor of another protocol is
    /// listed as unavailable.
    pub fn is_supported(self) -> bool {
        matches!(self, Self::Plain | Self::Events | Self::Fake)
    }

    fn read(item: &Item<'_>) -> Result<Self, ConfigError> {
        let text = item.text()?;
        let known = Self::ALL.map(|(name, _)| name);
        match Self::ALL.iter().find(|(name, _)| *name == text) {
            Some((_, protocol)) => Ok(*protocol),
            None => Err(item.invalid(&format!(
                "one of {} (did you mean \"{}\"?)",
                known.join(", "),
                nearest(&text, &known).unwrap_or_default()
            ))),
        }
    }
}

/// How the prompt reaches the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptVia {
    /// On its standard input, which is then closed.
    #[default]
    Stdin,
    /// As its last argument.
    Arg,
}

/// What a variant adds to its executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantConfig {
    /// Put after the executor's own command.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// One configured executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    pub protocol: Protocol,
    /// The program and its arguments; empty only for protocols with a program
    /// of their own.
    pub command: Vec<String>,
    pub prompt: PromptVia,
    pub supports_mcp: bool,
    /// Set for the executor.
    pub env: BTreeMap<String, String>,
    /// Taken over from the daemon's environment: `NAME` or `PREFIX_*`.
    pub env_pass: Vec<String>,
    /// One of `variants`.
    pub default_variant: Option<String>,
    pub variants: BTreeMap<String, VariantConfig>,
    /// Those of `[limits]` that are its own.
    pub limits: BTreeMap<&'static str, u64>,
    /// The line in `config.toml` where its table begins, from 1.
    pub line: usize,
}

const KEYS: &[&str] = &[
    "protocol",
    "command",
    "prompt",
    "supports_mcp",
    "env",
    "env_pass",
    "default_variant",
    "variants",
    "limits",
];

/// Reads the table `[executors]`.
pub fn read(executors: &Item<'_>) -> Result<BTreeMap<String, ExecutorConfig>, ConfigError> {
    let one = |(name, item): (&str, Item<'_>)| {
        check_name(name, &item)?;
        Ok((name.to_owned(), read_one(&item)?))
    };
    executors.table()?.items().map(one).collect()
}

fn read_one(item: &Item<'_>) -> Result<ExecutorConfig, ConfigError> {
    let table = item.table()?;
    table.only(KEYS)?;
    let protocol = table.get("protocol").ok_or_else(|| item.invalid("a table with `protocol`"))?;
    let protocol = Protocol::read(&protocol)?;
    let variants = match table.get("variants") {
        Some(variants) => read_variants(&variants)?,
        None => BTreeMap::new(),
    };
    Ok(ExecutorConfig {
        protocol,
        command: read_command(item, &table, protocol)?,
        prompt: table.get("prompt").as_ref().map(read_prompt).transpose()?.unwrap_or_default(),
        supports_mcp: table.get("supports_mcp").map_or(Ok(false), |item| item.boolean())?,
        env: table.get("env").map_or(Ok(BTreeMap::new()), |item| item.environment())?,
        env_pass: read_env_pass(&table)?,
        default_variant: read_default(&table, &variants)?,
        variants,
        limits: table.get("limits").map_or(Ok(BTreeMap::new()), |item| read_limits(&item))?,
        line: item.line(),
    })
}

/// Names are used in tool calls, on command lines and in messages.
fn check_name(name: &str, item: &Item<'_>) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    Err(item.invalid("a name of 1 to 64 letters, digits, `.`, `_` or `-`"))
}

fn read_command(
    executor: &Item<'_>,
    table: &Table<'_>,
    protocol: Protocol,
) -> Result<Vec<String>, ConfigError> {
    const EXPECTED: &str = "the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]";
    match table.get("command") {
        Some(item) => {
            let command = item.texts().map_err(|_| item.invalid(EXPECTED))?;
            let named = command.first().is_some_and(|program| !program.is_empty());
            if named { Ok(command) } else { Err(item.invalid(EXPECTED)) }
        }
        None if matches!(protocol, Protocol::Plain | Protocol::Events) => {
            Err(executor.invalid(&format!("a table with `command`: {EXPECTED}")))
        }
        None => Ok(Vec::new()),
    }
}

fn read_prompt(item: &Item<'_>) -> Result<PromptVia, ConfigError> {
    match item.text()?.as_str() {
        "stdin" => Ok(PromptVia::Stdin),
        "arg" => Ok(PromptVia::Arg),
        _ => Err(item.invalid("\"stdin\" or \"arg\"")),
    }
}

fn read_env_pass(table: &Table<'_>) -> Result<Vec<String>, ConfigError> {
    let Some(item) = table.get("env_pass") else { return Ok(Vec::new()) };
    let names = item.texts()?;
    let good = |name: &String| {
        let stem = name.strip_suffix('*').unwrap_or(name);
        !stem.is_empty() && !stem.contains(['*', '='])
    };
    if names.iter().all(good) {
        Ok(names)
    } else {
        Err(item.invalid("an array of \"NAME\" or \"PREFIX_*\""))
    }
}

fn read_variants(item: &Item<'_>) -> Result<BTreeMap<String, VariantConfig>, ConfigError> {
    let one = |(name, item): (&str, Item<'_>)| {
        check_name(name, &item)?;
        let table = item.table()?;
        table.only(&["args", "env"])?;
        let variant = VariantConfig {
            args: table.get("args").map_or(Ok(Vec::new()), |item| item.texts())?,
            env: table.get("env").map_or(Ok(BTreeMap::new()), |item| item.environment())?,
        };
        Ok((name.to_owned(), variant))
    };
    item.table()?.items().map(one).collect()
}

fn read_limits(item: &Item<'_>) -> Result<BTreeMap<&'static str, u64>, ConfigError> {
    let table = item.table()?;
    let known = || TABLE.iter().filter(|setting| setting.section == "limits");
    table.only(&known().map(|setting| setting.key).collect::<Vec<_>>())?;
    let mut limits = BTreeMap::new();
    for setting in known() {
        let Some(item) = table.get(setting.key) else { continue };
        let value = item.integer().filter(|value| setting.check(&Value::Integer(*value)));
        limits.insert(setting.key, value.ok_or_else(|| item.invalid(&setting.expected()))?);
    }
    Ok(limits)
}

fn read_default(
    table: &Table<'_>,
    variants: &BTreeMap<String, VariantConfig>,
) -> Result<Option<String>, ConfigError> {
    let Some(item) = table.get("default_variant") else { return Ok(None) };
    let name = item.text()?;
    if variants.contains_key(&name) {
        return Ok(Some(name));
    }
    let known: Vec<&str> = variants.keys().map(String::as_str).collect();
    Err(item.invalid(&match known.as_slice() {
        [] => "left out, for there are no variants".to_owned(),
        known => format!("one of its variants: {}", known.join(", ")),
    }))
}
