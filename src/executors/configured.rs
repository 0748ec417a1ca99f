//! An executor of the configuration: its program, protocol and variants.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use provost_actors::environment::inherited;
use provost_actors::executor::{
    Description, Executor, Launch, Message, Normalizer, OnQuota, Request, Turn, Verdict,
};
use provost_actors::limits::{Limits, OnLeaseLate};
use provost_actors::sandbox::Wanted;
use serde_json::Value;
use tokio::sync::Mutex;

use super::call::Call;
use super::version::Version;
use super::{acp, ask, claude, codex, fake, lines, program};
use crate::config::{ExecutorConfig, Protocol, VariantConfig};

pub struct Configured {
    name: String,
    pub config: ExecutorConfig,
    pub limits: Limits,
    search: String,
    /// The variables that `env_pass` takes from the daemon's environment.
    passed: BTreeMap<String, String>,
    /// The variables that every executor gets.
    base: BTreeMap<String, String>,
    version: Mutex<Option<Version>>,
}

impl Configured {
    pub fn new(
        name: String,
        config: ExecutorConfig,
        limits: Limits,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let search = environment.get("PATH").cloned().unwrap_or_default();
        let passed = environment
            .iter()
            .filter(|(name, _)| config.env_pass.iter().any(|pattern| matches(pattern, name)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let base = inherited(environment);
        Self { name, config, limits, search, passed, base, version: Mutex::default() }
    }

    /// A reader for one process that was launched with this dialogue.
    pub fn reader(&self, dialogue: &Value) -> Result<Box<dyn Normalizer>, String> {
        let is_own = match self.config.protocol {
            Protocol::Claude => dialogue["prompt"].is_string(),
            Protocol::Codex => dialogue["config"].is_object(),
            Protocol::Acp => dialogue["quirks"].is_object(),
            Protocol::Plain | Protocol::Events | Protocol::Fake => dialogue.is_null(),
        };
        if is_own {
            return Ok(self.normalizer(dialogue));
        }
        let (name, protocol) = (&self.name, self.config.protocol.as_str());
        Err(format!("executor {name} did not speak {protocol} when this was recorded"))
    }

    /// Whether the client talks to the program while a turn runs: it can then be interrupted
    /// and ask for permission, and it keeps its sessions under ids.
    fn is_two_way(&self) -> bool {
        matches!(self.config.protocol, Protocol::Claude | Protocol::Codex | Protocol::Acp)
    }

    fn variant(&self, name: Option<&String>) -> Result<Option<&VariantConfig>, String> {
        let Some(name) = name.or(self.config.default_variant.as_ref()) else { return Ok(None) };
        let known = self.config.variants.get(name);
        known.map(Some).ok_or_else(|| format!("executor {} has no variant {name}", self.name))
    }

    /// The program and its environment, to ask it about itself.
    fn asked(&self) -> Option<(PathBuf, BTreeMap<String, String>)> {
        let call = self.call(self.variant(None).ok()?).ok()?;
        let mut env = self.base.clone();
        env.extend(call.env);
        Some((call.program, env))
    }

    fn call(&self, variant: Option<&VariantConfig>) -> Result<Call, String> {
        let (program, args) = match self.config.command.split_first() {
            Some((name, fixed)) => (program::find(name, &self.search)?, fixed.to_vec()),
            None if self.config.protocol == Protocol::Fake => Default::default(),
            None => return Err("it has no command".to_owned()),
        };
        let mut call = Call {
            program,
            args,
            env: self.passed.clone(),
            options: self.config.options.clone(),
            prompt: self.config.prompt,
            supports_mcp: self.config.supports_mcp,
        };
        call.env.extend(self.config.env.clone());
        if let Some(variant) = variant {
            call.args.extend(variant.args.clone());
            call.env.extend(variant.env.clone());
            call.options.extend(variant.options.clone());
        }
        Ok(call)
    }
}

#[async_trait]
impl Executor for Configured {
    fn describe(&self) -> Description {
        let is_two_way = self.is_two_way();
        Description {
            name: self.name.clone(),
            protocol: self.config.protocol.as_str(),
            variants: self.config.variants.keys().cloned().collect(),
            default_variant: self.config.default_variant.clone(),
            supports_mcp: self.config.supports_mcp,
            supports_resume: self.config.protocol != Protocol::Plain,
            supports_interrupt: is_two_way,
            supports_approvals: is_two_way,
            stand_in: self.config.protocol == Protocol::Fake,
            unavailable_reason: self.call(None).err(),
            install: self.config.install.clone(),
            note: self.config.note.clone(),
        }
    }

    async fn version(&self) -> Option<String> {
        if self.config.protocol == Protocol::Fake {
            return Some(env!("CARGO_PKG_VERSION").to_owned());
        }
        let (program, env) = self.asked()?;
        let mut version = self.version.lock().await;
        let known = version.take();
        *version = Version::find(program, env, known).await;
        version.as_ref()?.version.clone()
    }

    async fn is_logged_in(&self) -> Option<bool> {
        let args = &self.config.login_status;
        if args.is_empty() {
            return None;
        }
        let (program, env) = self.asked()?;
        match ask::run(&program, args, &env).await?.code {
            Some(0) => Some(true),
            Some(1) => Some(false),
            _ => None,
        }
    }

    fn launch(&self, turn: &Turn) -> Result<Launch, String> {
        let variant = self.variant(turn.variant.as_ref())?;
        let call = self.call(variant)?;
        match self.config.protocol {
            Protocol::Plain | Protocol::Events => call.with_prompt(&turn.prompt),
            Protocol::Fake => Ok(fake::launch(turn, call)),
            Protocol::Claude => Ok(claude::launch(turn, call)),
            Protocol::Codex => codex::launch(turn, call),
            Protocol::Acp => acp::launch(turn, call),
        }
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        match self.config.protocol {
            Protocol::Plain => Box::new(lines::PlainLines),
            Protocol::Events | Protocol::Fake => lines::normalizer(),
            Protocol::Claude => claude::normalizer(dialogue),
            Protocol::Codex => codex::normalizer(dialogue),
            Protocol::Acp => acp::normalizer(dialogue),
        }
    }

    fn answer(&self, request: &Request, verdict: &Verdict) -> Option<Message> {
        match self.config.protocol {
            Protocol::Claude => Some(claude::answer(request, verdict)),
            Protocol::Codex => Some(codex::answer(request, verdict)),
            Protocol::Acp => acp::answer(request, verdict),
            Protocol::Plain | Protocol::Events | Protocol::Fake => None,
        }
    }

    fn keeps_sessions(&self) -> bool {
        self.is_two_way()
    }

    fn forks_sessions(&self) -> bool {
        self.config.fork
    }

    fn sandbox(&self, variant: Option<&str>) -> Wanted {
        let name = variant.or(self.config.default_variant.as_deref());
        let variant = name.and_then(|name| self.config.variants.get(name));
        let own = variant.and_then(|variant| variant.sandbox);
        let hosts = self.config.allow_hosts.iter();
        let hosts = hosts.chain(variant.into_iter().flat_map(|variant| &variant.allow_hosts));
        Wanted {
            level: own.unwrap_or(self.config.sandbox),
            read: self.config.sandbox_read.clone(),
            write: self.config.sandbox_write.clone(),
            hosts: hosts.cloned().collect(),
            shipped: self.config.shipped.clone(),
        }
    }

    fn on_lease_late(&self) -> OnLeaseLate {
        self.config.on_lease_late
    }

    fn labels(&self) -> Vec<String> {
        self.config.labels.clone()
    }

    fn memory(&self) -> u64 {
        self.config.memory_mb << 20
    }

    fn max_running(&self) -> Option<u64> {
        Some(self.config.max_running).filter(|most| *most > 0)
    }

    fn on_quota(&self) -> OnQuota {
        self.config.on_quota
    }

    fn answers_in_lines(&self) -> bool {
        self.config.protocol == Protocol::Plain
    }
}

/// `NAME`, or `PREFIX_*` for all names that begin so.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use provost_actors::executor::Stdin;

    use super::*;
    use crate::config::PromptVia;

    fn configured(prompt: PromptVia) -> Configured {
        let fast = VariantConfig {
            args: vec!["--fast".into()],
            env: BTreeMap::from([("SPEED".into(), "1".into())]),
            options: BTreeMap::new(),
            sandbox: None,
            allow_hosts: vec![],
        };
        let config = ExecutorConfig {
            command: vec!["sh".into(), "-s".into()],
            prompt,
            env: BTreeMap::from([("OWN".into(), "yes".into()), ("SPEED".into(), "0".into())]),
            env_pass: vec!["KEY_*".into()],
            variants: BTreeMap::from([("fast".into(), fast)]),
            ..ExecutorConfig::new(Protocol::Plain)
        };
        let environment = BTreeMap::from([
            ("PATH".into(), "/bin:/usr/bin".into()),
            ("KEY_A".into(), "a".into()),
            ("SECRET".into(), "s".into()),
        ]);
        Configured::new("echo".into(), config, Limits::default(), &environment)
    }

    fn turn(variant: Option<&str>) -> Turn {
        Turn { variant: variant.map(Into::into), ..crate::executors::tests::turn("do it") }
    }

    #[test]
    fn a_variant_adds_its_arguments_and_its_environment_wins() {
        let launch = configured(PromptVia::Arg).launch(&turn(Some("fast"))).unwrap();
        assert_eq!(launch.args, ["-s", "--fast", "do it"]);
        assert_eq!(launch.stdin, Stdin::Empty);
        let env: Vec<(&str, &str)> =
            launch.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(env, [("KEY_A", "a"), ("OWN", "yes"), ("SPEED", "1")]);
    }

    #[test]
    fn the_prompt_goes_in_by_stdin_unless_told_otherwise() {
        let launch = configured(PromptVia::Stdin).launch(&turn(None)).unwrap();
        assert_eq!(launch.args, ["-s"]);
        assert_eq!(launch.stdin, Stdin::Bytes(b"do it".to_vec()));
        assert!(configured(PromptVia::Stdin).launch(&turn(Some("slow"))).is_err());
    }

    #[test]
    fn what_can_not_run_says_why() {
        let mut absent = configured(PromptVia::Stdin);
        assert_eq!(absent.describe().unavailable_reason, None);
        absent.config.command = vec!["no-such-agent".into()];
        let reason = absent.describe().unavailable_reason.unwrap();
        assert_eq!(reason, "no-such-agent is not on the daemon's PATH");
    }
}
