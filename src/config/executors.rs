//! The `[executors.NAME]` tables: which program speaks which protocol, and its variants. The well-known
//! CLIs are built in (`builtin.toml`, in the same form); a table of the same name overrides the keys that
//! it names. Plain data: nothing here looks whether a program is installed.

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
    /// These override the executor's options.
    pub options: BTreeMap<String, String>,
    /// Its own level of the sandbox; `None`: the executor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Level>,
    /// Its sandbox opens the working folder only for reading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sandbox_read_only: bool,
    /// More hosts that it may reach in a `strict` sandbox.
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
    /// It can continue in a copy of one of its sessions, also in another worktree.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Labels that a host must have to run it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// MiB of memory that each attempt asks of its host; 0: its memory is not counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_mb: u64,
    /// Most attempts that run at the same time on all hosts of the board; 0: no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_running: u64,
    /// What happens to its processes while the lease of their host is late.
    #[serde(skip_serializing_if = "OnLeaseLate::is_default")]
    pub on_lease_late: OnLeaseLate,
    /// The level of the sandbox around its processes.
    pub sandbox: Level,
    /// Paths that the sandbox lets them read in addition to the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_read: Vec<String>,
    /// Paths that the sandbox lets them write in addition to their own state, such as caches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_write: Vec<String>,
    /// Where its program keeps its own state. Each sandboxed attempt has a copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StatePlace>,
    /// Arguments after the first word of `command` with which a person continues a session in a terminal;
    /// `{session}` is its id. Empty: the program has no such interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<String>,
    /// More arguments for the later turns of a `plain` program, which then continues its own session.
    /// `None`: its turns know nothing of those before, and get a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_args: Option<Vec<String>>,
    /// The hosts that a `strict` sandbox lets them reach: those of their model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// True if it has no sandbox and its table does not ask for that: `list_executors` then says so.
    #[serde(skip)]
    pub is_box_unsaid: bool,
    /// Hosts that are refused without asking a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refuse_hosts: Vec<String>,
    /// The entries of `sandbox_read`, `sandbox_write` and `allow_hosts` that come with Provost.
    #[serde(skip)]
    pub shipped: Shipped,
    /// The role of a client inside its attempts.
    pub role: Role,
    /// How to install the program, in a line.
    pub install: Option<String>,
    /// Arguments with which the program exits with 0 if it is logged in, else with 1. Empty: it can't be
    /// asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub login_status: Vec<String>,
    /// Its own values of `[limits]`.
    pub limits: BTreeMap<&'static str, u64>,
    pub variants: BTreeMap<String, VariantConfig>,
    /// What a user should know before choosing it or one of its variants, in a sentence.
    #[serde(skip)]
    pub note: Option<String>,
    /// The place in `config.toml` where its table begins; `None` if it is built in.
    #[serde(skip)]
    pub origin: Option<String>,
}

/// The built-in executors. A test reads all of them.
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

/// The built-in executors, by name.
fn builtin() -> Result<BTreeMap<String, ExecutorConfig>> {
    let source = Source { file: Path::new("builtin.toml"), text: BUILTIN };
    let document = source.parse()?;
    let tables = Table::root(source, &document);
    let one = |(name, item): (&str, Item<'_>)| {
        Ok((name.to_owned(), read_one(&item, name, &BTreeMap::new())?))
    };
    tables.items().map(one).collect()
}

/// Reads one table. It starts from the built-in executor of its name, or of its protocol's name, if that
/// speaks the same protocol. The table replaces single values, and adds to tables and to the lists
/// `env_pass`, `sandbox_read`, `sandbox_write`, `allow_hosts` and `refuse_hosts`. With another name and a
/// `command` of its own, it has no sandbox unless it asks for one.
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
        // Another program: what it needs in a sandbox is unknown.
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
    // Without built-in executors to start from, this reads the built-in ones themselves.
    if builtin.is_empty() {
        executor.shipped = Shipped {
            read: executor.sandbox_read.clone(),
            write: executor.sandbox_write.clone(),
            hosts: executor.allow_hosts.clone(),
        };
    }
    // The role `all` is left out: it is for clients outside of attempts.
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

/// Codex makes a sandbox of its own unless it has full access, and can't make it inside another one. So a
/// variant without full access that asks for no sandbox of Provost's has none.
fn leave_to_codex(executor: &mut ExecutorConfig) {
    let ExecutorConfig { options, variants, .. } = executor;
    for variant in variants.values_mut().filter(|variant| variant.sandbox.is_none()) {
        let own = variant.options.get("sandbox").or_else(|| options.get("sandbox"));
        if own.is_none_or(|own| own != "danger-full-access") {
            variant.sandbox = Some(Level::None);
        }
    }
}

/// A variant that may only read needs a sandbox that enforces it: without one of Provost's, Codex gets
/// its own sandbox `read-only`. Returns the name of a variant of another protocol, which has none.
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
    /// True if its agents may start attempts of their own.
    pub fn orchestrates(&self) -> bool {
        self.role == Role::Orchestrator
    }

    /// An executor with a protocol, and defaults for everything else.
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, ..Self::default() }
    }
}

/// Reads the name of a protocol. `builtin` has the built-in executors: users often write the name of one
/// of these in place of a protocol, and the error then says what to write.
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

/// What is wrong with a table that names no protocol. Its command may be missing too, so one error names
/// both.
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

/// Options by name. A protocol that knows its options refuses others.
fn read_options(item: &Item<'_>, protocol: Protocol) -> Result<BTreeMap<String, String>> {
    let table = item.table()?;
    if let Some(known) = protocol.options() {
        table.only(known)?;
    }
    table.items().map(|(name, item)| Ok((name.to_owned(), item.text()?))).collect()
}

/// The limits of one executor, with the bounds of the section `[limits]`.
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

/// The default variant, which must be one of `variants`.
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
