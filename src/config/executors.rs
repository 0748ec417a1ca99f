//! The `[executors.NAME]` tables: which program speaks which protocol, and its
//! variants. Those of the well-known CLIs are built in (`builtin.toml`, in the
//! same form), and a table of the same name changes what it names. Plain data;
//! whether a program is there is not asked here.

use std::collections::BTreeMap;
use std::path::Path;

use provost_actors::executor::OnQuota;
use provost_actors::nearest::nearest;

use super::ConfigError;
use super::reader::{Item, Source, Table};
use super::settings::{TABLE, Value};
use crate::role::Role;

/// What an executor says on its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Lines of text.
    Plain,
    /// Lines of normalized entries as JSON.
    Events,
    /// The built-in executor that its prompt scripts.
    Fake,
    /// Claude Code's two-way stream-json.
    Claude,
    /// `codex app-server`.
    Codex,
    /// The Agent Client Protocol.
    Acp,
}

impl Protocol {
    const ALL: [(&str, Self); 6] = [
        ("plain", Self::Plain),
        ("events", Self::Events),
        ("fake", Self::Fake),
        ("claude", Self::Claude),
        ("codex", Self::Codex),
        ("acp", Self::Acp),
    ];

    /// The spelling in `config.toml`.
    pub fn as_str(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, protocol)| *protocol == self);
        named.map_or("", |(name, _)| name)
    }

    /// The options that it knows; `None`: any, each of which is the agent's own.
    fn options(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Plain | Self::Events | Self::Fake => Some(&[]),
            Self::Claude => Some(&["model", "effort", "permission_mode", "approvals"]),
            Self::Codex => Some(&["model", "effort", "sandbox", "approval_policy"]),
            Self::Acp => None,
        }
    }

    /// `builtin`: the built-in executors, one of whose names may stand where the name
    /// of a protocol belongs.
    fn read(
        item: &Item<'_>,
        builtin: &BTreeMap<String, ExecutorConfig>,
    ) -> Result<Self, ConfigError> {
        let text = item.text()?;
        if let Some((_, protocol)) = Self::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(*protocol);
        }
        let hint = match (builtin.get(&text), nearest(&text, Self::ALL.map(|(name, _)| name))) {
            (Some(named), _) => format!(
                ": use the built-in executor `{text}`, or write `protocol = \"{}\"` and `command = {:?}`",
                named.protocol.as_str(),
                named.command
            ),
            (None, Some(near)) => format!(" (did you mean {near:?}?)"),
            (None, None) => String::new(),
        };
        Err(item.invalid(&format!("{}, not {text:?}{hint}", Self::one_of())))
    }

    fn one_of() -> String {
        format!("one of {}", Self::ALL.map(|(name, _)| name).join(", "))
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
    /// Over the executor's own.
    pub options: BTreeMap<String, String>,
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
    /// What the protocol is told beyond the command line: `model`, `mode`, ….
    pub options: BTreeMap<String, String>,
    pub on_quota: OnQuota,
    /// What a client inside its attempts is.
    pub role: Role,
    /// Those of `[limits]` that are its own.
    pub limits: BTreeMap<&'static str, u64>,
    /// How to install the program, in a line.
    pub install: Option<String>,
    /// What to know before it or a variant of it is chosen, in a sentence.
    pub note: Option<String>,
    /// The line in `config.toml` where its table begins, from 1; `None` for one
    /// that is built in.
    pub line: Option<usize>,
}

/// The built-in ones. The same for all, so one that is broken is a test's to find.
const BUILTIN: &str = include_str!("builtin.toml");

const KEYS: &[&str] = &[
    "protocol",
    "command",
    "prompt",
    "supports_mcp",
    "env",
    "env_pass",
    "default_variant",
    "variants",
    "options",
    "on_quota",
    "role",
    "limits",
    "install",
    "note",
];

/// The built-in executors with the table `[executors]` over them.
pub fn read(executors: Option<&Item<'_>>) -> Result<BTreeMap<String, ExecutorConfig>, ConfigError> {
    let mut all = builtin()?;
    let Some(executors) = executors else { return Ok(all) };
    for (name, item) in executors.table()?.items() {
        item.is_named_well(name)?;
        let executor = read_one(&item, name, &all)?;
        all.insert(name.to_owned(), ExecutorConfig { line: Some(item.line()), ..executor });
    }
    Ok(all)
}

fn builtin() -> Result<BTreeMap<String, ExecutorConfig>, ConfigError> {
    let source = Source { file: Path::new("builtin.toml"), text: BUILTIN };
    let document = source.parse()?;
    let tables = Table::root(source, &document);
    let one = |(name, item): (&str, Item<'_>)| {
        Ok((name.to_owned(), read_one(&item, name, &BTreeMap::new())?))
    };
    tables.items().map(one).collect()
}

/// One that speaks the protocol of the built-in one of its name, or one that has
/// its protocol's name, begins as that: its command is replaced, its tables and
/// lists of names are added to.
fn read_one(
    item: &Item<'_>,
    name: &str,
    builtin: &BTreeMap<String, ExecutorConfig>,
) -> Result<ExecutorConfig, ConfigError> {
    let table = item.table()?;
    table.only(KEYS)?;
    let protocol = table.get("protocol").map(|item| Protocol::read(&item, builtin)).transpose()?;
    let alike = protocol.and_then(|protocol| builtin.get(protocol.as_str()));
    let speaks_it =
        |base: &&ExecutorConfig| protocol.is_none_or(|protocol| protocol == base.protocol);
    let base = builtin.get(name).filter(speaks_it).or(alike.filter(speaks_it));
    let protocol = protocol
        .or(base.map(|base| base.protocol))
        .ok_or_else(|| item.invalid(&without_protocol(&table)))?;
    let mut executor = base.cloned().unwrap_or_else(|| ExecutorConfig::new(protocol));
    executor.command = read_command(item, &table, executor.command, protocol)?;
    if let Some(item) = table.get("prompt") {
        executor.prompt = read_prompt(&item)?;
    }
    if let Some(item) = table.get("supports_mcp") {
        executor.supports_mcp = item.boolean()?;
    }
    if let Some(item) = table.get("env") {
        executor.env.extend(item.environment()?);
    }
    executor.env_pass.extend(read_env_pass(&table)?);
    if let Some(item) = table.get("options") {
        executor.options.extend(read_options(&item, protocol)?);
    }
    if let Some(item) = table.get("on_quota") {
        executor.on_quota = read_on_quota(&item)?;
    }
    if let Some(item) = table.get("role") {
        executor.role = read_role(&item)?;
    }
    if let Some(item) = table.get("variants") {
        executor.variants.extend(read_variants(&item, protocol)?);
    }
    if let Some(item) = table.get("limits") {
        executor.limits.extend(read_limits(&item)?);
    }
    if let Some(item) = table.get("install") {
        executor.install = Some(item.text()?);
    }
    if let Some(item) = table.get("note") {
        executor.note = Some(item.text()?);
    }
    if let Some(name) = read_default(&table, &executor.variants)? {
        executor.default_variant = Some(name);
    }
    Ok(executor)
}

impl ExecutorConfig {
    /// Whether its agents are meant to start attempts of their own.
    pub fn orchestrates(&self) -> bool {
        self.role == Role::Orchestrator
    }

    /// One with nothing of its own.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            command: Vec::new(),
            prompt: PromptVia::default(),
            supports_mcp: false,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            default_variant: None,
            variants: BTreeMap::new(),
            options: BTreeMap::new(),
            on_quota: OnQuota::default(),
            role: Role::Worker,
            limits: BTreeMap::new(),
            install: None,
            note: None,
            line: None,
        }
    }
}

/// What is wrong with a table that names no protocol: its command may be wrong too.
fn without_protocol(table: &Table<'_>) -> String {
    let protocol = format!("a table with `protocol`, {}", Protocol::one_of());
    let command = table.get("command").is_none_or(|item| command_of(&item).is_none());
    if command { format!("{protocol}, and with `command`: {COMMAND}") } else { protocol }
}

const COMMAND: &str = "the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]";

/// A program and its arguments; `None` for anything else.
fn command_of(item: &Item<'_>) -> Option<Vec<String>> {
    let command = item.texts().ok()?;
    command.first().is_some_and(|program| !program.is_empty()).then_some(command)
}

fn read_command(
    executor: &Item<'_>,
    table: &Table<'_>,
    base: Vec<String>,
    protocol: Protocol,
) -> Result<Vec<String>, ConfigError> {
    match table.get("command") {
        Some(item) => command_of(&item).ok_or_else(|| item.invalid(COMMAND)),
        None if base.is_empty() && protocol != Protocol::Fake => {
            Err(executor.invalid(&format!("a table with `command`: {COMMAND}")))
        }
        None => Ok(base),
    }
}

fn read_prompt(item: &Item<'_>) -> Result<PromptVia, ConfigError> {
    match item.text()?.as_str() {
        "stdin" => Ok(PromptVia::Stdin),
        "arg" => Ok(PromptVia::Arg),
        _ => Err(item.invalid("\"stdin\" or \"arg\"")),
    }
}

fn read_on_quota(item: &Item<'_>) -> Result<OnQuota, ConfigError> {
    match item.text()?.as_str() {
        "auto" => Ok(OnQuota::Auto),
        "ask" => Ok(OnQuota::Ask),
        "never" => Ok(OnQuota::Never),
        _ => Err(item.invalid("one of auto, ask, never")),
    }
}

/// `all` is for nobody inside an attempt.
fn read_role(item: &Item<'_>) -> Result<Role, ConfigError> {
    match item.text()?.as_str() {
        "worker" => Ok(Role::Worker),
        "orchestrator" => Ok(Role::Orchestrator),
        _ => Err(item.invalid("\"worker\" or \"orchestrator\"")),
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

fn read_variants(
    item: &Item<'_>,
    protocol: Protocol,
) -> Result<BTreeMap<String, VariantConfig>, ConfigError> {
    let one = |(name, item): (&str, Item<'_>)| {
        item.is_named_well(name)?;
        let table = item.table()?;
        table.only(&["args", "env", "options"])?;
        let options = table.get("options").map(|item| read_options(&item, protocol));
        let variant = VariantConfig {
            args: table.get("args").map_or(Ok(Vec::new()), |item| item.texts())?,
            env: table.get("env").map_or(Ok(BTreeMap::new()), |item| item.environment())?,
            options: options.unwrap_or_else(|| Ok(BTreeMap::new()))?,
        };
        Ok((name.to_owned(), variant))
    };
    item.table()?.items().map(one).collect()
}

fn read_options(
    item: &Item<'_>,
    protocol: Protocol,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let table = item.table()?;
    if let Some(known) = protocol.options() {
        table.only(known)?;
    }
    table.items().map(|(name, item)| Ok((name.to_owned(), item.text()?))).collect()
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
