//! `provost retry`: the same task again, in a new attempt or in the session of the old one.

use super::follow_up;
use super::prelude::*;
use super::run;

#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag by itself")]
pub struct RetryArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Start another attempt as this one was started [default]
    #[arg(long, conflicts_with = "session")]
    fresh: bool,
    /// Send the last prompt again, in the same session and worktree
    #[arg(long, conflicts_with_all = ["follow", "ignore_dependencies"])]
    session: bool,
    /// Start even if tasks that it depends on are not done
    #[arg(long)]
    ignore_dependencies: bool,
    /// Print the log until the attempt has settled; exit code 7 if it failed
    #[arg(long)]
    follow: bool,
}

/// `provost retry`: a new attempt starts with the arguments of the old one, also on top of another
/// attempt's work if the old one did.
pub async fn retry(context: &mut Context, args: &RetryArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let started = context.call::<StartedAs>(json!({"attempt_id": attempt})).await?;
    if args.session {
        return follow_up::again(context, attempt, &started.last_prompt).await;
    }
    let start = json!({
        "task_id": started.task_id, "executor": started.executor, "variant": started.variant,
        "repos": started.repos, "prompt": started.prompt,
        "ignore_dependencies": args.ignore_dependencies,
        "from_attempt_id": started.from_attempt_id, "from_turn": started.from_turn,
    });
    run::start_as(context, start, run::Then::following(args.follow)).await
}
