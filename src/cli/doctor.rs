//! `provost doctor`: prints what the doctor found, a line a check.

use anstyle::{AnsiColor, Style};

use super::exit::{Exit, Failure};
use super::output::{Output, harmless};
use crate::doctor::{Check, Status, examine};
use crate::home::Home;

#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Repair what is safe to repair; run `provost shutdown` first
    #[arg(long)]
    fix: bool,
}

/// Needs no daemon and starts none; the home may be broken or missing.
pub async fn doctor(out: &mut Output, args: &DoctorArgs) -> Result<Exit, Failure> {
    let checks = examine(&Home::unopened()?, args.fix).await;
    if out.is_json() {
        out.json(&checks)?;
    } else {
        print(out, &checks)?;
    }
    out.flush()?;
    let failed = checks.iter().any(|check| check.status == Status::Fail);
    Ok(if failed { Exit::Refused } else { Exit::Done })
}

fn print(out: &mut Output, checks: &[Check]) -> Result<(), Failure> {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or_default();
    for check in checks {
        let word = if check.fixed { "fixed" } else { check.status.as_str() };
        let word = out.paint(style(check.status), &format!("{word:<5}"));
        let (name, message) = (harmless(&check.name), harmless(&check.message));
        out.line(&format!("{word} {name:<width$}  {message}"))?;
        if let Some(hint) = &check.hint {
            out.line(&format!("{:6}{:width$}  {}", "", "", harmless(hint)))?;
        }
    }
    Ok(())
}

fn style(status: Status) -> Style {
    let colour = match status {
        Status::Ok => AnsiColor::Green,
        Status::Note => AnsiColor::Blue,
        Status::Warn => AnsiColor::Yellow,
        Status::Fail => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into()))
}
