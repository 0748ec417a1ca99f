//! The `[executors.NAME]` tables: which program speaks which protocol, and its variants.
//! The well-known CLIs are built in (`builtin.toml`, in the same form), and a table of the
//! same name overrides the keys it names. Plain data: nothing here asks whether a program
//! is there.

use std::collections::BTreeMap;
use std::path::Path;

use provost_actors::executor::OnQuota;
use provost_actors::limits::OnLeaseLate::{self, Freeze, Kill, RunOn};
use provost_actors::nearest::nearest;
use provost_actors::sandbox::{Level, Shipped, StatePlace};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Result;
use super::protocol::{PromptVia, Protocol};
use super::reader::{Item, Source, Table};
use super::settings::{MANY, MEMORY_MB_MAX, TABLE};
use super::state::read_state;
use super::values::{
    COMMAND, read_command, read_env_pass, read_hosts, read_level, read_paths, read_whole,
};
use crate::role::Role;

/// What a variant adds to its executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VariantConfig {
    /// Arguments after the executor's own command.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Override the executor's own.
    pub options: BTreeMap<String, String>,
    /// Its own box; `None`: the executor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Level>,
    /// Its box opens the working folder only for reading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sandbox_read_only: bool,
    /// Hosts that it reaches besides in the box `strict`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
}

/// One configured executor. `config show` has its fields in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExecutorConfig {
    pub protocol: Protocol,
    /// The program and its arguments; empty only for `fake`.
    pub command: Vec<String>,
    pub prompt: PromptVia,
    pub supports_mcp: bool,
    /// Variables of the executor.
    pub env: BTreeMap<String, String>,
    /// Variables passed on from the daemon's environment: `NAME` or `PREFIX_*`.
    pub env_pass: Vec<String>,
    /// One of `variants`.
    pub default_variant: Option<String>,
    /// What the protocol needs beyond the command line: `model`, `mode`, ….
    pub options: BTreeMap<String, String>,
    pub on_quota: OnQuota,
    /// It can go on in a copy of a session of its own, from another worktree too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// What a host has to have for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// MiB of its host's memory that each attempt asks for; 0: it is not counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_mb: u64,
    /// Attempts that run at once on all hosts of the board; 0: no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_running: u64,
    /// What becomes of its processes while the lease of their host is late.
    #[serde(skip_serializing_if = "OnLeaseLate::is_default")]
    pub on_lease_late: OnLeaseLate,
    /// The box around its processes.
    pub sandbox: Level,
    /// What the box lets them read beside the usual.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_read: Vec<String>,
    /// What the box lets them write beside their own state: caches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_write: Vec<String>,
    /// Where its program keeps its own state, of which each attempt has a copy in its box.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StatePlace>,
    /// Arguments of its program, after the first word of `command`, with which a person goes on with
    /// a session in a terminal; `{session}` is its id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<String>,
    /// Arguments that a `plain` program's later turns have besides; `None`: they know nothing of those
    /// before, and get a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_args: Option<Vec<String>>,
    /// The hosts that the box `strict` lets them reach: their model's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// It has no box, and its table does not say that it has none.
    #[serde(skip)]
    pub is_box_unsaid: bool,
    /// Hosts that it refuses without a question to a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refuse_hosts: Vec<String>,
    /// Those of the three lists that come with Provost.
    #[serde(skip)]
    pub shipped: Shipped,
    /// The role of a client inside its attempts.
    pub role: Role,
    /// How to install the program, in a line.
    pub install: Option<String>,
    /// Arguments with which the program exits with 0 if it is logged in, and else with 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub login_status: Vec<String>,
    /// Its own values of `[limits]`.
    pub limits: BTreeMap<&'static str, u64>,
    pub variants: BTreeMap<String, VariantConfig>,
    /// What to know before choosing it or one of its variants, in a sentence.
    #[serde(skip)]
    pub note: Option<String>,
    /// The place in `config.toml` where its table begins; `None` if it is built in.
    #[serde(skip)]
    pub origin: Option<String>,
}

/// The built-in executors. Tests find one that is broken.
const BUILTIN: &str = include_str!("builtin.toml");

/// The keys of a table; `docs/configuration.md` has them in this order.
pub(super) const KEYS: &str = "protocol command prompt supports_mcp env env_pass default_variant \
    variants options on_quota fork labels memory_mb max_running on_lease_late sandbox sandbox_read sandbox_write state resume resume_args allow_hosts refuse_hosts role limits install \
    login_status note";

/// The built-in executors, overridden by the table `[executors]`.
pub fn read(executors: Option<&Item<'_>>) -> Result<BTreeMap<String, ExecutorConfig>> {
    let mut all = builtin()?;
    let Some(executors) = executors else { return Ok(all) };
    for (name, item) in executors.table()?.items() {
        item.is_named_well(name)?;
        let executor = read_one(&item, name, &all)?;
        all.insert(name.to_owned(), ExecutorConfig { origin: Some(item.origin()), ..executor });
    }
    Ok(all)
}

fn builtin() -> Result<BTreeMap<String, ExecutorConfig>> {
    let source = Source { file: Path::new("builtin.toml"), text: BUILTIN };
    let document = source.parse()?;
    let tables = Table::root(source, &document);
    let one = |(name, item): (&str, Item<'_>)| {
        Ok((name.to_owned(), read_one(&item, name, &BTreeMap::new())?))
    };
    tables.items().map(one).collect()
}

/// A table starts from the built-in executor of its name, or of its protocol's name, if
/// that speaks the same protocol. The table replaces its values, and adds to its tables, to
/// `env_pass`, `sandbox_read`, `sandbox_write`, `allow_hosts` and `refuse_hosts`. With another name and a
/// `command`, it has no box unless it asks for one.
fn read_one(
    item: &Item<'_>,
    name: &str,
    builtin: &BTreeMap<String, ExecutorConfig>,
) -> Result<ExecutorConfig> {
    let table = item.table()?;
    table.only(&KEYS.split(' ').collect::<Vec<_>>())?;
    let protocol = table.get("protocol").map(|item| read_protocol(&item, builtin)).transpose()?;
    let alike = protocol.and_then(|protocol| builtin.get(protocol.as_str()));
    let speaks_it =
        |base: &&ExecutorConfig| protocol.is_none_or(|protocol| protocol == base.protocol);
    let base = builtin.get(name).filter(speaks_it).or(alike.filter(speaks_it));
    let protocol = protocol
        .or(base.map(|base| base.protocol))
        .ok_or_else(|| item.invalid(&without_protocol(&table)))?;
    let mut executor = base.cloned().unwrap_or_else(|| ExecutorConfig::new(protocol));
    table.read("command", &mut executor.command, read_command)?;
    if base.is_some() && !builtin.contains_key(name) && table.get("command").is_some() {
        // What another program needs is not known here.
        executor.sandbox = Level::None;
    }
    if executor.command.is_empty() && protocol != Protocol::Fake {
        return Err(item.invalid(&format!("a table with `command`: {COMMAND}")));
    }
    let prompts = [("stdin", PromptVia::Stdin), ("arg", PromptVia::Arg)];
    table.read("prompt", &mut executor.prompt, |item| item.one_of(&prompts))?;
    table.read("supports_mcp", &mut executor.supports_mcp, Item::boolean)?;
    let on_quota = [("auto", OnQuota::Auto), ("ask", OnQuota::Ask), ("never", OnQuota::Never)];
    table.read("on_quota", &mut executor.on_quota, |item| item.one_of(&on_quota))?;
    table.read("fork", &mut executor.fork, Item::boolean)?;
    table.read("labels", &mut executor.labels, Item::labels)?;
    table.read("memory_mb", &mut executor.memory_mb, |item| read_whole(item, MEMORY_MB_MAX))?;
    table.read("max_running", &mut executor.max_running, |item| read_whole(item, MANY))?;
    let on_lease_late = [("freeze", Freeze), ("kill", Kill), ("run_on", RunOn)];
    table.read("on_lease_late", &mut executor.on_lease_late, |item| item.one_of(&on_lease_late))?;
    table.read("sandbox", &mut executor.sandbox, read_level)?;
    executor.sandbox_read.extend(table.value("sandbox_read", read_paths)?);
    executor.sandbox_write.extend(table.value("sandbox_write", read_paths)?);
    executor.allow_hosts.extend(table.value("allow_hosts", read_hosts)?);
    executor.refuse_hosts.extend(table.value("refuse_hosts", read_hosts)?);
    table.read("state", &mut executor.state, read_state)?;
    table.read("resume", &mut executor.resume, Item::texts)?;
    if let Some(item) = table.get("resume_args") {
        if protocol != Protocol::Plain {
            return Err(item.invalid("left out: only `plain` programs have no other way to resume"));
        }
        executor.resume_args = Some(item.texts()?);
    }
    // What is read now is one of the built-in ones.
    if builtin.is_empty() {
        executor.shipped = Shipped {
            read: executor.sandbox_read.clone(),
            write: executor.sandbox_write.clone(),
            hosts: executor.allow_hosts.clone(),
        };
    }
    // The role `all` is for clients outside of attempts.
    let roles = [("worker", Role::Worker), ("orchestrator", Role::Orchestrator)];
    table.read("role", &mut executor.role, |item| item.one_of(&roles))?;
    table.read("install", &mut executor.install, |item| item.text().map(Some))?;
    table.read("login_status", &mut executor.login_status, Item::texts)?;
    table.read("note", &mut executor.note, |item| item.text().map(Some))?;
    executor.env.extend(table.value("env", Item::environment)?);
    executor.env_pass.extend(table.value("env_pass", read_env_pass)?);
    executor.options.extend(table.value("options", |item| read_options(item, protocol))?);
    executor.limits.extend(table.value("limits", read_limits)?);
    executor.variants.extend(table.value("variants", |item| read_variants(item, protocol))?);
    executor.is_box_unsaid = table.get("sandbox").is_none()
        && executor.sandbox == Level::None
        && !matches!(protocol, Protocol::Fake | Protocol::Codex);
    if protocol == Protocol::Codex && table.get("sandbox").is_none() {
        leave_to_codex(&mut executor);
    }
    if let Some(name) = hold_readers(&mut executor) {
        return Err(item.invalid(&format!(
            "a table whose variant {name} has a sandbox, for it has `sandbox_read_only`"
        )));
    }
    let ExecutorConfig { variants, default_variant, .. } = &mut executor;
    table.read("default_variant", default_variant, |item| read_default(item, variants))?;
    Ok(executor)
}

/// Codex makes a sandbox of its own unless it is to have full access, and can't make it in another
/// one: what has that, and asks for no box, has none.
fn leave_to_codex(executor: &mut ExecutorConfig) {
    let ExecutorConfig { options, variants, .. } = executor;
    for variant in variants.values_mut().filter(|variant| variant.sandbox.is_none()) {
        let own = variant.options.get("sandbox").or_else(|| options.get("sandbox"));
        if own.is_none_or(|own| own != "danger-full-access") {
            variant.sandbox = Some(Level::None);
        }
    }
}

/// What may only read, and has no box that holds it to that, has Codex's own sandbox. The name of
/// a variant of another protocol, which has none.
fn hold_readers(executor: &mut ExecutorConfig) -> Option<&str> {
    let ExecutorConfig { protocol, sandbox, variants, .. } = executor;
    for (name, variant) in variants {
        let level = variant.sandbox.unwrap_or(*sandbox);
        if !variant.sandbox_read_only || level != Level::None {
            continue;
        }
        if *protocol != Protocol::Codex {
            return Some(name);
        }
        variant.options.insert("sandbox".to_owned(), "read-only".to_owned());
    }
    None
}

impl ExecutorConfig {
    /// Whether its agents may start attempts of their own.
    pub fn orchestrates(&self) -> bool {
        self.role == Role::Orchestrator
    }

    /// One with nothing but a protocol.
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, ..Self::default() }
    }
}

/// What is wrong with a table that names no protocol: its command may be wrong too.
/// `builtin`: the built-in executors, one of whose names may stand where the name
/// of a protocol belongs.
fn read_protocol(item: &Item<'_>, builtin: &BTreeMap<String, ExecutorConfig>) -> Result<Protocol> {
    let text = item.text()?;
    if let Ok(protocol) = Protocol::deserialize(json!(text)) {
        return Ok(protocol);
    }
    let hint = match (builtin.get(&text), nearest(&text, Protocol::NAMES)) {
        (Some(named), _) => format!(
            ": use the built-in executor `{text}`, or write `protocol = \"{}\"` and `command = {:?}`",
            named.protocol.as_str(),
            named.command
        ),
        (None, Some(near)) => format!(" (did you mean {near:?}?)"),
        (None, None) => String::new(),
    };
    Err(item.invalid(&format!("{}, not {text:?}{hint}", Protocol::one_of())))
}

fn without_protocol(table: &Table<'_>) -> String {
    let protocol = format!("a table with `protocol`, {}", Protocol::one_of());
    let has_command = table.get("command").is_some_and(|item| read_command(&item).is_ok());
    if has_command { protocol } else { format!("{protocol}, and with `command`: {COMMAND}") }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "shaped for serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn read_variants(item: &Item<'_>, protocol: Protocol) -> Result<BTreeMap<String, VariantConfig>> {
    let one = |(name, item): (&str, Item<'_>)| {
        item.is_named_well(name)?;
        let table = item.table()?;
        table.only(&["args", "env", "options", "sandbox", "sandbox_read_only", "allow_hosts"])?;
        let variant = VariantConfig {
            args: table.value("args", Item::texts)?,
            env: table.value("env", Item::environment)?,
            options: table.value("options", |item| read_options(item, protocol))?,
            sandbox: table.value("sandbox", |item| read_level(item).map(Some))?,
            sandbox_read_only: table.value("sandbox_read_only", Item::boolean)?,
            allow_hosts: table.value("allow_hosts", read_hosts)?,
        };
        Ok((name.to_owned(), variant))
    };
    item.table()?.items().map(one).collect()
}

fn read_options(item: &Item<'_>, protocol: Protocol) -> Result<BTreeMap<String, String>> {
    let table = item.table()?;
    if let Some(known) = protocol.options() {
        table.only(known)?;
    }
    table.items().map(|(name, item)| Ok((name.to_owned(), item.text()?))).collect()
}

fn read_limits(item: &Item<'_>) -> Result<BTreeMap<&'static str, u64>> {
    let table = item.table()?;
    let known = || TABLE.iter().filter(|setting| setting.section == "limits");
    table.only(&known().map(|setting| setting.key).collect::<Vec<_>>())?;
    let given = known().filter_map(|setting| Some((setting, table.get(setting.key)?)));
    given
        .map(|(setting, item)| {
            let value = item.integer().filter(|value| setting.check(&json!(value)));
            Ok((setting.key, value.ok_or_else(|| item.invalid(&setting.expected()))?))
        })
        .collect()
}

fn read_default(
    item: &Item<'_>,
    variants: &BTreeMap<String, VariantConfig>,
) -> Result<Option<String>> {
    let name = item.text()?;
    if variants.contains_key(&name) {
        return Ok(Some(name));
    }
    let known: Vec<&str> = variants.keys().map(String::as_str).collect();
    Err(item.invalid(&match known.as_slice() {
        [] => "left out, because the executor has no variants".to_owned(),
        known => format!("one of its variants: {}", known.join(", ")),
    }))
}
