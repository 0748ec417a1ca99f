//! An executor of the configuration: its program, protocol and variants, as the trait `Executor` wants
//! them. What depends on the protocol is passed on to the protocol's module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use provost_actors::attempt::Machine;
use provost_actors::environment::{Given, inherited};
use provost_actors::executor::{
    Description, Executor, Launch, Message, Normalizer, OnQuota, Request, Stdin, Turn, Unavailable,
    Verdict,
};
use provost_actors::limits::{Limits, OnLeaseLate};
use provost_actors::sandbox::{self, Level, StatePlace, Wanted};
use serde_json::Value;
use tokio::sync::Mutex;

use super::ask::Asked;
use super::call::Call;
use super::version::Version;
use super::{acp, ask, claude, codex, fake, lines, program};
use crate::config::{ExecutorConfig, Protocol, VariantConfig};

/// The placeholder for the attempt's id in the arguments of a `plain` program.
const ATTEMPT: &str = "{attempt}";

/// A table `[executors.NAME]` with what it needs of the machine.
pub struct Configured {
    name: String,
    pub config: ExecutorConfig,
    pub limits: Limits,
    /// The variables that `env_pass` takes from the daemon's environment.
    passed: BTreeMap<String, String>,
    /// The variables that every executor gets.
    base: BTreeMap<String, String>,
    machine: Arc<Machine>,
    /// The version that was found last; see [`Version::find`].
    version: Mutex<Option<Version>>,
}

impl Configured {
    /// Takes the variables of `env_pass` from the daemon's environment now, once.
    pub fn new(
        name: String,
        config: ExecutorConfig,
        limits: Limits,
        machine: Arc<Machine>,
    ) -> Self {
        let environment = &machine.environment;
        let passed = Given { pass: config.env_pass.clone(), ..Given::default() }.of(environment);
        let base = inherited(environment);
        Self { name, config, limits, passed, base, machine, version: Mutex::default() }
    }

    /// The reader of a process that was launched with this dialogue. `Err`: the dialogue is that of another
    /// protocol, because the configuration has changed since.
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

    /// Whether the protocol is two-way: the client can interrupt the program while a turn runs, and the
    /// program can ask for permission and names its sessions.
    fn is_two_way(&self) -> bool {
        matches!(self.config.protocol, Protocol::Claude | Protocol::Codex | Protocol::Acp)
    }

    /// The named variant, else the default one; `None` if there is no default. `Err`: unknown name.
    fn variant(&self, name: Option<&String>) -> Result<Option<&VariantConfig>, String> {
        let Some(name) = name.or(self.config.default_variant.as_ref()) else { return Ok(None) };
        let known = self.config.variants.get(name);
        known.map(Some).ok_or_else(|| format!("executor {} has no variant {name}", self.name))
    }

    /// The files and folders of the program's own state (logins, sessions). Where a place has a variable that
    /// moves it, the value decides that the program will get: the variant's, the table's, the passed one.
    fn state(&self, variant: Option<&VariantConfig>) -> Vec<StatePlace> {
        let moved = |place: &StatePlace| {
            let name = place.variable.as_ref()?;
            let of_variant = variant.and_then(|variant| variant.env.get(name));
            let set = of_variant.or_else(|| self.config.env.get(name));
            set.or_else(|| self.passed.get(name)).or_else(|| self.base.get(name)).cloned()
        };
        let place = |place: &StatePlace| StatePlace {
            from: moved(place).unwrap_or_else(|| place.from.clone()),
            ..place.clone()
        };
        self.config.state.iter().map(place).collect()
    }

    /// How to ask the program about itself; `None`: it is not available. Its sandbox has the level
    /// `workspace`, whatever that of its turns is.
    fn asked(&self) -> Option<Asked<'_>> {
        let call = self.call(self.variant(None).ok()?).ok()?;
        let mut env = self.base.clone();
        env.extend(call.env);
        let wanted = Wanted { level: Level::Workspace, ..self.sandbox(None) };
        let held = self.has_box().then_some((&*self.machine, wanted));
        Some(Asked { program: call.program, env, held })
    }

    /// Whether any turn of it runs in a sandbox, with the default or a variant. Its agents may then have
    /// written what the program reads.
    fn has_box(&self) -> bool {
        let mut variants = self.config.variants.values();
        self.config.sandbox != Level::None
            || variants.any(|it| it.sandbox.is_some_and(|level| level != Level::None))
    }

    /// The program of this name, unless an agent could have replaced it: it must not run outside of a
    /// sandbox then.
    fn program(&self, name: &str) -> Result<PathBuf, Unavailable> {
        let search = self.machine.environment.get("PATH").map_or("", String::as_str);
        let program = program::find(name, search)?;
        let replaceable = self.machine.replaceable(&program);
        replaceable.map_or(Ok(program), |why| Err(Unavailable::Replaceable(why)))
    }

    /// The launch of a variant; `Err` says why the program can't run.
    fn call(&self, variant: Option<&VariantConfig>) -> Result<Call, Unavailable> {
        let (program, args) = match self.config.command.split_first() {
            Some((name, fixed)) => (self.program(name)?, fixed.to_vec()),
            None if self.config.protocol == Protocol::Fake => Default::default(),
            None => return Err(Unavailable::NoCommand),
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
            supports_resume: self.config.protocol != Protocol::Plain || self.remembers_turns(),
            supports_interrupt: is_two_way,
            supports_approvals: is_two_way,
            stand_in: self.config.protocol == Protocol::Fake,
            unavailable: self.call(None).err(),
            install: self.config.install.clone(),
            note: joined([
                self.config.note.clone(),
                self.unboxed_reason().map(str::to_owned),
                self.unasked_reason(),
            ]),
        }
    }

    fn unasked_reason(&self) -> Option<String> {
        let obstacle = sandbox::obstacle().filter(|_| self.has_box())?;
        Some(format!(
            "its version and login are not known: it would have to run outside of its sandbox to \
             say them, for none can be had: {obstacle}"
        ))
    }

    async fn version(&self) -> Option<String> {
        if self.config.protocol == Protocol::Fake {
            return Some(env!("CARGO_PKG_VERSION").to_owned());
        }
        let asked = self.asked()?;
        let mut version = self.version.lock().await;
        let known = version.take();
        *version = Version::find(asked, known).await;
        version.as_ref()?.version.clone()
    }

    async fn is_logged_in(&self) -> Option<bool> {
        let args = &self.config.login_status;
        if args.is_empty() {
            return None;
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match ask::run(self.asked()?, &args).await?.code {
            Some(0) => Some(true),
            Some(1) => Some(false),
            _ => None,
        }
    }

    fn launch(&self, turn: &Turn) -> Result<Launch, String> {
        let variant = self.variant(turn.variant.as_ref())?;
        let mut call = self.call(variant).map_err(|why| why.to_string())?;
        match self.config.protocol {
            Protocol::Plain => {
                let more = self.config.resume_args.iter().flatten();
                call.args.extend(more.filter(|_| turn.number > 1).cloned());
                for word in &mut call.args {
                    *word = word.replace(ATTEMPT, &turn.attempt);
                }
                call.with_prompt(&turn.prompt)
            }
            Protocol::Events => call.with_prompt(&turn.prompt),
            Protocol::Fake => Ok(fake::launch(turn, call)),
            Protocol::Claude => Ok(claude::launch(turn, call)),
            Protocol::Codex => codex::launch(turn, call),
            Protocol::Acp => acp::launch(turn, call),
        }
    }

    fn resume(&self, variant: Option<&str>, session: &str) -> Result<Option<Launch>, String> {
        if self.config.resume.is_empty() {
            return Ok(None);
        }
        let variant = self.variant(variant.map(str::to_owned).as_ref())?;
        let own = self.config.resume.iter().map(|word| word.replace("{session}", session));
        let call = self.call(variant).map_err(|why| why.to_string())?;
        let call = Call { args: own.collect(), ..call };
        Ok(Some(call.launch(Stdin::Empty)))
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

    fn takes_recaps(&self) -> bool {
        self.config.protocol != Protocol::Fake
    }

    fn remembers_turns(&self) -> bool {
        self.config.resume_args.is_some()
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
            reads_only: variant.is_some_and(|variant| variant.sandbox_read_only),
            read: self.config.sandbox_read.clone(),
            write: self.config.sandbox_write.clone(),
            hosts: hosts.cloned().collect(),
            refused: self.config.refuse_hosts.clone(),
            state: self.state(variant),
            shipped: self.config.shipped.clone(),
        }
    }

    fn unboxed_reason(&self) -> Option<&'static str> {
        self.config.is_box_unsaid.then_some(
            "its turns run without a sandbox, as its table has no `sandbox` (\"workspace\", \"strict\" or \"none\")",
        )
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

/// Joins the notes about an executor; `None`: there are none.
fn joined(all: [Option<String>; 3]) -> Option<String> {
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PromptVia;

    fn configured(prompt: PromptVia) -> Configured {
        let fast = VariantConfig {
            args: vec!["--fast".into()],
            env: BTreeMap::from([("SPEED".into(), "1".into())]),
            options: BTreeMap::new(),
            sandbox: None,
            sandbox_read_only: false,
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
        let machine = Machine { environment, ..Machine::default() };
        Configured::new("echo".into(), config, Limits::default(), Arc::new(machine))
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
    fn the_prompt_goes_in_by_stdin_unless_configured_otherwise() {
        let launch = configured(PromptVia::Stdin).launch(&turn(None)).unwrap();
        assert_eq!(launch.args, ["-s"]);
        assert_eq!(launch.stdin, Stdin::Bytes(b"do it".to_vec()));
        assert!(configured(PromptVia::Stdin).launch(&turn(Some("slow"))).is_err());
    }

    #[test]
    fn what_can_not_run_says_why() {
        let mut absent = configured(PromptVia::Stdin);
        assert_eq!(absent.describe().unavailable, None);
        absent.config.command = vec!["no-such-agent".into()];
        let reason = absent.describe().unavailable.unwrap();
        assert_eq!(reason.to_string(), "no-such-agent is not on the daemon's PATH");
    }
}
