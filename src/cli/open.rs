//! `provost open`: a link to the page, which logs one browser in; with `--editor`, an attempt's worktree
//! in a person's editor.

use std::process::Stdio;

use super::path::PathArgs;
use super::prelude::*;
use super::worktree;

#[derive(clap::Args, Debug)]
pub struct OpenArgs {
    /// The attempt to show: its id, or 8 or more characters of its start or end [default: the inbox]
    attempt: Option<String>,
    /// With --editor and several repositories, the name of one
    #[arg(value_name = "REPOSITORY", requires = "editor")]
    repository: Option<String>,
    /// Open the attempt's worktree in your editor: $VISUAL, $EDITOR or the desktop's
    #[arg(short, long, requires = "attempt")]
    editor: bool,
    /// Print the link, and start no browser
    #[arg(short, long, conflicts_with = "editor")]
    print: bool,
}

/// `provost open`. An unknown attempt is refused before a link is made.
pub async fn open(context: &mut Context, args: OpenArgs) -> Result<Exit, Failure> {
    let OpenArgs { attempt, repository, editor, print } = args;
    match attempt {
        Some(attempt) if editor => worktree::edit(context, &PathArgs { attempt, repository }).await,
        Some(attempt) => {
            let attempt = context.attempt(&attempt).await?;
            // `Context::attempt` does not check a whole id, so the status does.
            context.call::<AttemptStatus>(json!({"attempt_id": attempt})).await?;
            page(context, Some(attempt), print).await
        }
        None => page(context, None, print).await,
    }
}

/// Prints a link to the inbox or to an attempt, and opens it in the desktop's browser unless `print` is
/// set or there is no desktop. The link has a code that works once.
pub async fn page(
    context: &mut Context,
    attempt: Option<AttemptId>,
    print: bool,
) -> Result<Exit, Failure> {
    let login = context.call::<Login>(json!({})).await?;
    let Login { url, code, seconds } = &login.output;
    let to = attempt.map(|id| format!("&to=/attempts/{id}")).unwrap_or_default();
    let link = format!("{url}/login?code={code}{to}");
    if !context.out.as_json(&json!({"url": link, "seconds": seconds}))? {
        context.out.raw(&format!("{link}\n"))?;
        anstream::eprintln!("The link works once, within {} minutes.", seconds / 60);
    }
    context.out.flush()?;
    if let Some(browser) = worktree::desktop_opener().filter(|_| !print) {
        start(&browser, &link);
    }
    Ok(Exit::Done)
}

/// Starts a browser, which outlives this process. A failure is only reported, because the link is
/// already printed.
#[expect(clippy::disallowed_methods, reason = "a person's own browser")]
fn start(browser: &str, link: &str) {
    let mut command = std::process::Command::new(browser);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        anstream::eprintln!("{browser} can't be started: {error}");
    }
}
