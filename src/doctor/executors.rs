//! The configuration, and whether its executors can be run.

use std::collections::BTreeMap;

use provost_actors::executor::{Executor, Executors, Turn};

use super::check::Check;
use crate::config::Config;
use crate::executors::{Registry, fake};
use crate::home::Home;

pub async fn checks(home: &Home) -> Vec<Check> {
    let config = match Config::load(&home.config_file(), &[]) {
        Ok(config) => config,
        Err(error) => {
            let check = Check::fail("configuration", error.to_string())
                .hint("Mend it there; a daemon that runs goes on with what it has read.");
            return vec![check];
        }
    };
    let file = home.config_file();
    let message = if file.exists() {
        format!("{} can be read", file.display())
    } else {
        "there is no config.toml: all is as by default".to_owned()
    };
    let mut checks = vec![Check::ok("configuration", message)];
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let executors = Registry::new(&config, &environment).all();
    let asked = executors.iter().map(|executor| of_executor(&**executor, &config));
    checks.extend(futures_util::future::join_all(asked).await);
    checks
}

async fn of_executor(executor: &dyn Executor, config: &Config) -> Check {
    let told = executor.describe();
    let name = format!("executor {}", told.name);
    let variants = match told.variants.len() {
        0 => String::new(),
        _ => format!("; variants {}", told.variants.join(", ")),
    };
    if let Some(reason) = told.unavailable_reason {
        let way = told
            .install
            .map_or_else(|| "Install it".to_owned(), |way| format!("Install it: `{way}`"));
        // Nobody has to have all those that are built in.
        let is_wanted = config.executors.get(&told.name).is_some_and(|own| own.line.is_some());
        let check = if is_wanted { Check::warn } else { Check::note };
        return check(&name, format!("{reason}{variants}"))
            .hint(format!("{way}, or mend its `command` in config.toml."));
    }
    if told.name == fake::NAME {
        return Check::ok(&name, "built in");
    }
    let launch = match executor.launch(&Turn::nowhere()) {
        Ok(launch) => launch,
        Err(reason) => return Check::warn(&name, reason).hint("Mend it in config.toml."),
    };
    let program = launch.program.display().to_string();
    match executor.version().await {
        Some(version) => Check::ok(&name, format!("{program}: {version}{variants}")),
        None => Check::ok(&name, format!("{program}; version unknown{variants}")),
    }
}
