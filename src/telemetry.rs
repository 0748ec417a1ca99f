//! Logging. Lines go to stderr, never to stdout, which belongs to protocols and results. `PROVOST_LOG`
//! filters them in the syntax of tracing's filters (`info,provost::bridge=debug`). From `debug` on, the
//! MCP library logs whole messages with the contents of files and patches, so it stays quiet unless the
//! filter names it (`debug,rmcp=debug`).

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

const VARIABLE: &str = "PROVOST_LOG";

/// `PROVOST_LOG` is no filter.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE}=`{given}` is no filter ({source}); try `info` or `warn,provost=debug`")]
pub struct TelemetryError {
    given: String,
    source: ParseError,
}

/// The filter of commands when `PROVOST_LOG` is not set.
pub const CLIENT_DEFAULT: &str = "warn";
/// The filter of the daemon. The MCP library would log every connection and refused request at `info`.
pub const DAEMON_DEFAULT: &str = "info,rmcp=error";

/// Starts logging with the filter of `PROVOST_LOG`, else with `default`. Called once in a process; later
/// calls change nothing.
pub fn start(default: &'static str) -> Result<(), TelemetryError> {
    let given = std::env::var(VARIABLE).ok().filter(|given| !given.trim().is_empty());
    let filter = filter(given.as_deref().unwrap_or(default))?;
    let ansi = io::stderr().is_terminal()
        && anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    // It fails only if a subscriber exists already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(ansi)
        // A report of such an error would go to stderr, which has just failed, and panic.
        .log_internal_errors(false)
        .try_init();
    Ok(())
}

/// Parses a filter. If it lets debug lines through and does not name the MCP library, that library is
/// limited to warnings.
fn filter(given: &str) -> Result<EnvFilter, TelemetryError> {
    let parse = |given: &str| EnvFilter::builder().parse(given);
    let logs_messages = |filter: &EnvFilter| filter.max_level_hint() > Some(LevelFilter::INFO);
    let filter = parse(given);
    let filter = match &filter {
        // tracing applies the most specific directive, wherever it is in the list.
        Ok(all) if logs_messages(all) && !given.contains("rmcp") => {
            parse(&format!("{given},rmcp=warn"))
        }
        _ => filter,
    };
    filter.map_err(|source| TelemetryError { given: given.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_filters() {
        for given in [CLIENT_DEFAULT, DAEMON_DEFAULT, "debug", "warn,provost::bridge=trace", "off"]
        {
            assert!(filter(given).is_ok(), "{given}");
        }
    }

    #[test]
    fn the_mcp_library_tells_messages_only_where_it_is_named() {
        let shown = |given| filter(given).unwrap().to_string();
        for quiet in ["trace", "debug", "info,provost=trace"] {
            assert!(shown(quiet).contains("rmcp=warn"), "{quiet}: {}", shown(quiet));
        }
        for as_given in ["info,rmcp=trace", "info", "off"] {
            assert!(!shown(as_given).contains("rmcp=warn"), "{as_given}: {}", shown(as_given));
        }
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = filter("provost=loud").unwrap_err().to_string();
        assert!(error.starts_with("PROVOST_LOG=`provost=loud` is no filter"), "{error}");
    }
}
