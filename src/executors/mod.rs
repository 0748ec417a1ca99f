//! The executors that can be named: those built in and those configured. An
//! adapter is a folder: `mod.rs` tells how to launch it, `normalize.rs` reads
//! what it says and does no I/O.

mod configured;
mod events;
pub mod fake;
mod plain;
mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_actors::executor::{Executor, Executors};
use provost_actors::limits::Limits;

use crate::config::{self, Config};
use configured::Configured;
use fake::Fake;

/// All executors, by name. Built once, when the daemon starts.
pub struct Registry {
    executors: BTreeMap<String, Arc<dyn Executor>>,
    limits: BTreeMap<String, Limits>,
}

impl Registry {
    /// `environment` is the daemon's own: programs are looked up by its `PATH`,
    /// and `env_pass` takes from it.
    pub fn new(config: &Config, environment: &BTreeMap<String, String>) -> Self {
        let mut executors: BTreeMap<String, Arc<dyn Executor>> = BTreeMap::new();
        executors.insert(fake::NAME.to_owned(), Arc::new(Fake));
        for (name, configured) in &config.executors {
            let executor = Configured::new(name.clone(), configured.clone(), environment);
            executors.insert(name.clone(), Arc::new(executor));
        }
        let limits = executors.keys().map(|name| (name.clone(), limits(&config.limits(name))));
        Self { limits: limits.collect(), executors }
    }
}

impl Executors for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        self.executors.get(name).cloned()
    }

    fn limits(&self, name: &str) -> Limits {
        self.limits.get(name).copied().unwrap_or_default()
    }

    fn all(&self) -> Vec<Arc<dyn Executor>> {
        self.executors.values().cloned().collect()
    }
}

fn limits(limits: &config::Limits) -> Limits {
    let config::Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice } =
        *limits;
    Limits { wall_secs, idle_secs, memory_bytes, processes, open_files, nice }
}
