//! `provost doctor`: prints the results of the doctor's checks, one line each.

use anstyle::AnsiColor;
use unicode_width::UnicodeWidthStr;

use super::prelude::*;
use crate::doctor::{Check, CheckStatus, examine};
use crate::home::Home;

/// `provost doctor`. It needs no daemon and starts none; the home may be damaged or missing. Exit code
/// 1 if a check fails.
pub async fn doctor(out: &mut Output, fixes: bool) -> Result<Exit, Failure> {
    let checks = examine(&Home::unopened()?, fixes).await;
    if !out.as_json(&checks)? {
        print(out, &checks)?;
    }
    out.flush()?;
    let failed = checks.iter().any(|check| check.status == CheckStatus::Fail);
    Ok(if failed { Exit::Refused } else { Exit::Done })
}

fn print(out: &mut Output, checks: &[Check]) -> std::io::Result<()> {
    let names: Vec<String> = checks.iter().map(|check| harmless(&check.name)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or_default();
    for (check, name) in checks.iter().zip(&names) {
        let label = if check.fixed { "fixed".to_owned() } else { word(&check.status) };
        let colour = match check.status {
            CheckStatus::Ok => AnsiColor::Green,
            CheckStatus::Note => AnsiColor::Blue,
            CheckStatus::Warn => AnsiColor::Yellow,
            CheckStatus::Fail => AnsiColor::Red,
        };
        let label = out.paint(colour.on_default(), &format!("{label:<5}"));
        let gap = width - name.width() + 2;
        out.painted(&format!("{label} {name}{:gap$}{}", "", harmless(&check.message)))?;
        if let Some(hint) = &check.hint {
            out.painted(&format!("{:1$}{2}", "", width + 8, harmless(hint)))?;
        }
    }
    Ok(())
}
