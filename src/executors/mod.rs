//! The executors that a call can name: the built-in ones and the configured ones. Each
//! protocol has a module that launches a CLI, reads what it writes, and does no I/O.

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

/// All executors, by name. Built once, when the daemon starts.
pub struct Registry {
    executors: BTreeMap<String, Arc<Configured>>,
    machine: Arc<Machine>,
}

impl Registry {
    /// The environment of `machine` is the daemon's own: programs are looked up by its `PATH`,
    /// and `env_pass` takes from it. What executors write is added here.
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

    /// What the boxes of all of them have in common.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The reader of a process that an executor of this name was launched for, with
    /// this dialogue. `Err` says why there is none: the configuration has changed since.
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
