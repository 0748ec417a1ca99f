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

use crate::config::ExecutorConfig;
use configured::Configured;
use fake::Fake;

/// All executors, by name. Built once, when the daemon starts.
pub struct Registry {
    executors: BTreeMap<String, Arc<dyn Executor>>,
}

impl Registry {
    /// `environment` is the daemon's own: programs are looked up by its `PATH`,
    /// and `env_pass` takes from it.
    pub fn new(
        configured: &BTreeMap<String, ExecutorConfig>,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let mut executors: BTreeMap<String, Arc<dyn Executor>> = BTreeMap::new();
        executors.insert(fake::NAME.to_owned(), Arc::new(Fake));
        for (name, config) in configured {
            let executor = Configured::new(name.clone(), config.clone(), environment);
            executors.insert(name.clone(), Arc::new(executor));
        }
        Self { executors }
    }
}

impl Executors for Registry {
    fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        self.executors.get(name).cloned()
    }

    fn all(&self) -> Vec<Arc<dyn Executor>> {
        self.executors.values().cloned().collect()
    }
}
