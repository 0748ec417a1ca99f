//! The executors that can be named: those built in and those configured. An
//! adapter is a folder: `mod.rs` tells how to launch it, `normalize.rs` reads
//! what it says and does no I/O.

mod acp;
mod adapter;
mod claude;
mod codex;
mod configured;
mod effect;
mod events;
pub mod fake;
mod json;
mod plain;
mod program;
mod streamed;
#[cfg(test)]
mod transcripts;
mod version;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use provost_actors::executor::{Executor, Executors, Normalizer};
use provost_actors::limits::Limits;
use serde_json::Value;

use crate::config::{self, Config, ExecutorConfig, Protocol};
use adapter::Adapter;
use configured::Configured;

/// All executors, by name. Built once, when the daemon starts.
pub struct Registry {
    executors: BTreeMap<String, Arc<Configured>>,
    limits: BTreeMap<String, Limits>,
    orchestrators: BTreeSet<String>,
}

impl Registry {
    /// `environment` is the daemon's own: programs are looked up by its `PATH`,
    /// and `env_pass` takes from it.
    pub fn new(config: &Config, environment: &BTreeMap<String, String>) -> Self {
        let mut executors = BTreeMap::new();
        let fake = (fake::NAME.to_owned(), ExecutorConfig::new(Protocol::Fake));
        let configured = config.executors.clone();
        let mut orchestrators = BTreeSet::new();
        for (name, configured) in std::iter::once(fake).chain(configured) {
            if configured.orchestrates() {
                orchestrators.insert(name.clone());
            }
            let adapter = adapter(configured.protocol);
            let executor = Configured::new(name.clone(), configured, adapter, environment);
            executors.insert(name, Arc::new(executor));
        }
        let limits = executors.keys().map(|name| (name.clone(), limits(&config.limits(name))));
        Self { limits: limits.collect(), executors, orchestrators }
    }

    /// The reader of a process that an executor of this name was launched for, with
    /// this dialogue. `Err` says why there is none: the configuration has changed since.
    pub fn reader(&self, name: &str, dialogue: &Value) -> Result<Box<dyn Normalizer>, String> {
        let executor = self.executors.get(name);
        let executor =
            executor.ok_or_else(|| format!("executor {name} is not configured any more"))?;
        executor.reader(dialogue)
    }
}

impl Executors for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        self.executors.get(name).map(|executor| Arc::clone(executor) as Arc<dyn Executor>)
    }

    fn limits(&self, name: &str) -> Limits {
        self.limits.get(name).copied().unwrap_or_default()
    }

    fn orchestrates(&self, name: &str) -> bool {
        self.orchestrators.contains(name)
    }

    fn all(&self) -> Vec<Arc<dyn Executor>> {
        self.executors.values().map(|executor| Arc::clone(executor) as Arc<dyn Executor>).collect()
    }
}

fn adapter(protocol: Protocol) -> &'static dyn Adapter {
    match protocol {
        Protocol::Plain => &plain::Plain,
        Protocol::Fake => &fake::Fake,
        Protocol::Acp => &acp::Acp,
        Protocol::Claude => &claude::Claude,
        Protocol::Codex => &codex::Codex,
        Protocol::Events => &events::Events,
    }
}

fn limits(limits: &config::Limits) -> Limits {
    let config::Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice } =
        *limits;
    Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice }
}

#[cfg(test)]
pub mod tests {
    use provost_actors::executor::{McpServer, Stdin, Turn};
    use serde_json::json;

    use super::adapter::Call;
    use super::*;

    /// A first turn with this prompt.
    pub fn turn(prompt: &str) -> Turn {
        let mcp = McpServer {
            name: "provost",
            command: "/usr/bin/provost".into(),
            args: vec!["mcp".into(), "--role".into(), "worker".into()],
            env: BTreeMap::from([("PROVOST_ATTEMPT_ID".into(), "0190".into())]),
        };
        let (cwd, scratch) = ("/w".into(), "/s".into());
        Turn { prompt: prompt.to_owned(), cwd, scratch, mcp, ..Turn::nowhere() }
    }

    /// How a protocol launches its program with these options: a first turn, and
    /// one that goes on with the conversation `c1`.
    pub fn launches(protocol: Protocol, options: &[(&str, &str)]) -> [Value; 2] {
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let call = Call {
            program: "/bin/agent".into(),
            args: vec!["--own".to_owned()],
            env: BTreeMap::new(),
            options: options.collect(),
            prompt: config::PromptVia::Stdin,
            supports_mcp: true,
        };
        let first = turn("do it");
        let next = Turn { executor_session_id: Some("c1".into()), ..turn("go on") };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        [first, next].map(|turn| {
            let launch = adapter(protocol).launch(&turn, call.clone()).unwrap();
            let stdin = match &launch.stdin {
                Stdin::Bytes(bytes) => text(bytes),
                other => format!("{other:?}"),
            };
            let files = launch.files.iter().map(|(name, bytes)| (name.clone(), text(bytes)));
            json!({
                "args": launch.args, "env": launch.env, "stdin": stdin,
                "files": files.collect::<BTreeMap<_, _>>(), "dialogue": launch.dialogue,
            })
        })
    }
}
