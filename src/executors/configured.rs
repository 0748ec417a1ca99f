//! An executor from the configuration: its program, protocol and variants.

use std::collections::BTreeMap;

use provost_actors::executor::{Description, Executor, Launch, Normalizer, Stdin, Turn};

use super::{events, fake, plain, program};
use crate::config::{ExecutorConfig, PromptVia, Protocol, VariantConfig};

/// Configured under a name.
pub struct Configured {
    name: String,
    config: ExecutorConfig,
    search: String,
    /// What `env_pass` takes from the daemon's environment.
    passed: BTreeMap<String, String>,
}

impl Configured {
    pub fn new(
        name: String,
        config: ExecutorConfig,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let search = environment.get("PATH").cloned().unwrap_or_default();
        let passed = environment
            .iter()
            .filter(|(name, _)| config.env_pass.iter().any(|pattern| matches(pattern, name)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Self { name, config, search, passed }
    }

    fn variant(&self, name: Option<&String>) -> Result<Option<&VariantConfig>, String> {
        let Some(name) = name.or(self.config.default_variant.as_ref()) else { return Ok(None) };
        let known = self.config.variants.get(name);
        known.map(Some).ok_or_else(|| format!("executor {} has no variant {name}", self.name))
    }

    fn command(&self, turn: &Turn, variant: Option<&VariantConfig>) -> Result<Launch, String> {
        if self.config.protocol == Protocol::Fake {
            return fake::Fake.launch(turn);
        }
        let (name, fixed) = self.config.command.split_first().ok_or("it has no command")?;
        let program = program::find(name, &self.search)?;
        let mut args = fixed.to_vec();
        args.extend(variant.into_iter().flat_map(|variant| variant.args.clone()));
        let stdin = match self.config.prompt {
            PromptVia::Stdin => Stdin::Bytes(turn.prompt.clone().into_bytes()),
            PromptVia::Arg if turn.prompt.contains('\0') => {
                return Err("the prompt holds a NUL, which no argument can".to_owned());
            }
            PromptVia::Arg => {
                args.push(turn.prompt.clone());
                Stdin::Empty
            }
        };
        Ok(Launch { program, args, env: BTreeMap::new(), stdin })
    }
}

impl Executor for Configured {
    fn describe(&self) -> Description {
        let protocol = self.config.protocol;
        let unavailable_reason = if !protocol.is_supported() {
            Some(format!(
                "the protocol \"{}\" is not supported by this version; plain and events are",
                protocol.as_str()
            ))
        } else if protocol == Protocol::Fake {
            None
        } else {
            let name = self.config.command.first().map_or("", String::as_str);
            program::find(name, &self.search).err()
        };
        Description {
            name: self.name.clone(),
            variants: self.config.variants.keys().cloned().collect(),
            default_variant: self.config.default_variant.clone(),
            supports_mcp: self.config.supports_mcp,
            // They are told the id of their earlier conversation and may use it.
            supports_resume: matches!(protocol, Protocol::Events | Protocol::Fake),
            supports_interrupt: false,
            unavailable_reason,
        }
    }

    fn launch(&self, turn: &Turn) -> Result<Launch, String> {
        let variant = self.variant(turn.variant.as_ref())?;
        let mut launch = self.command(turn, variant)?;
        launch.env.extend(self.passed.clone());
        launch.env.extend(self.config.env.clone());
        launch.env.extend(variant.into_iter().flat_map(|variant| variant.env.clone()));
        Ok(launch)
    }

    fn normalizer(&self) -> Box<dyn Normalizer> {
        match self.config.protocol {
            Protocol::Plain => plain::normalizer(),
            _ => events::normalizer(),
        }
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
    use super::*;

    fn configured(prompt: PromptVia) -> Configured {
        let fast = VariantConfig {
            args: vec!["--fast".into()],
            env: BTreeMap::from([("SPEED".into(), "1".into())]),
        };
        let config = ExecutorConfig {
            protocol: Protocol::Plain,
            command: vec!["sh".into(), "-s".into()],
            prompt,
            supports_mcp: false,
            env: BTreeMap::from([("OWN".into(), "yes".into()), ("SPEED".into(), "0".into())]),
            env_pass: vec!["KEY_*".into()],
            default_variant: None,
            variants: BTreeMap::from([("fast".into(), fast)]),
            limits: BTreeMap::new(),
            line: 1,
        };
        let environment = BTreeMap::from([
            ("PATH".into(), "/bin:/usr/bin".into()),
            ("KEY_A".into(), "a".into()),
            ("SECRET".into(), "s".into()),
        ]);
        Configured::new("echo".into(), config, &environment)
    }

    fn turn(variant: Option<&str>) -> Turn {
        Turn { prompt: "do it".into(), variant: variant.map(Into::into), executor_session_id: None }
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
        assert_eq!(reason, "no-such-agent is not on PATH");
    }
}
