//! `provost preview`: starts or ends an attempt's dev server, and prints its URL.

use super::prelude::*;

#[derive(clap::Args, Debug)]
pub struct PreviewArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// With several dev servers, the repository of the one that is meant
    #[arg(value_name = "REPOSITORY")]
    repository: Option<String>,
    /// End it, with all that it started
    #[arg(long)]
    stop: bool,
}

/// `provost preview`: exit code 1 if the dev server has failed.
pub async fn preview(context: &mut Context, args: &PreviewArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let params = json!({"attempt_id": attempt, "repo": args.repository, "stop": args.stop});
    let found = context.call::<PreviewedAttempt>(params).await?;
    context.show(&found, |out, PreviewedAttempt { preview, .. }| {
        let Some(preview) = preview else { return out.line("it has no dev server") };
        let state = word(&preview.state);
        let url = preview.url.as_deref().filter(|_| preview.state.is_alive());
        let reason = preview.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        match url {
            Some(url) => out.line(&format!("{url} {state}")),
            None => out.line(&format!("{state}{reason}")),
        }
    })?;
    let state = found.preview.as_ref().map(|preview| preview.state);
    let has_failed = state == Some(PreviewState::Failed) && !args.stop;
    Ok(if has_failed { Exit::Refused } else { Exit::Done })
}
