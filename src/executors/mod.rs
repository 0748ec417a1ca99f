//! The executors that a call can name: the scripted one and the configured ones. Each protocol has a
//! module, which launches a CLI and reads its output, and does no I/O itself.
//!
//! ```text
//!  launch   Configured ▸ Call (program, arguments, options) ▸ the protocol's `launch` ▸ Launch
//!                                                      with a `dialogue`: what the client has to say
//!  read     raw entries ▸ Json (whole lines) ▸ the protocol's Dialect ▸ Observed: entries, messages to
//!           send, requests, the end of the turn
//!  answer   Request, Verdict ▸ the protocol's `answer` ▸ Message
//! ```
//!
//! A dialect's whole state is serialized with the process, so the next daemon continues to read where
//! this one stopped.

pub mod acp;
mod action;
pub mod ask;
mod call;
pub mod claude;
pub mod codex;
mod configured;
pub mod fake;
mod json;
mod lines;
mod prelude;
mod program;
mod streamed;
mod version;
mod vocabulary;

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_actors::attempt::Machine;
use provost_actors::executor::{Executor, Executors, Normalizer};
use provost_actors::limits::Limits;
use serde_json::Value;

use crate::config::{self, Config, ExecutorConfig, Protocol};
use configured::Configured;

/// All executors, by name. Built once, when the daemon starts; a changed configuration needs a restart.
pub struct Registry {
    executors: BTreeMap<String, Arc<Configured>>,
    machine: Arc<Machine>,
}

impl Registry {
    /// The environment of `machine` is the daemon's own: programs are looked up on its `PATH`, and
    /// `env_pass` takes variables from it. The folders that executors may write are added to `machine`,
    /// because no agent may write where another executor's program is.
    pub fn new(config: &Config, machine: Machine) -> Self {
        let writes = config.executors.iter().filter(|(_, it)| !it.sandbox_write.is_empty());
        let writes = writes.map(|(name, it)| (name.clone(), it.sandbox_write.clone())).collect();
        let machine = Arc::new(Machine { writes, ..machine });
        let mut executors = BTreeMap::new();
        let fake = (fake::NAME.to_owned(), ExecutorConfig::new(Protocol::Fake));
        let configured = config.executors.clone();
        for (name, mut configured) in std::iter::once(fake).chain(configured) {
            configured.allow_hosts.extend(config.settings.sandbox.allow_hosts.iter().cloned());
            let limits = limits(&config.limits(&name));
            let executor = Configured::new(name.clone(), configured, limits, Arc::clone(&machine));
            executors.insert(name, Arc::new(executor));
        }
        Self { executors, machine }
    }

    /// What the sandboxes of all executors have in common.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The reader of a process that was launched for this executor with this dialogue. `Err` says why there
    /// is none: the configuration has changed since.
    pub fn reader(&self, name: &str, dialogue: &Value) -> Result<Box<dyn Normalizer>, String> {
        let gone = || format!("executor {name} is not configured any more");
        self.executors.get(name).ok_or_else(gone)?.reader(dialogue)
    }
}

impl Executors for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        self.executors.get(name).map(|executor| Arc::clone(executor) as Arc<dyn Executor>)
    }

    fn limits(&self, name: &str) -> Limits {
        self.executors.get(name).map(|executor| executor.limits).unwrap_or_default()
    }

    fn orchestrates(&self, name: &str) -> bool {
        self.executors.get(name).is_some_and(|executor| executor.config.orchestrates())
    }

    fn all(&self) -> Vec<Arc<dyn Executor>> {
        self.executors.values().map(|executor| Arc::clone(executor) as Arc<dyn Executor>).collect()
    }
}

fn limits(limits: &config::Limits) -> Limits {
    let config::Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice } =
        *limits;
    Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice }
}

#[cfg(test)]
pub mod tests;
