//! `provost send` and `provost queue`: further prompts for an attempt's session.

use super::prelude::*;

/// The longest piece of a queued prompt that is shown, in characters.
const PROMPT: usize = 80;

#[derive(clap::Args, Debug)]
pub struct SendArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// What the agent is asked to do next
    prompt: String,
    /// A variant of the executor [default: that of the previous turn]
    #[arg(long)]
    variant: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct QueueArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// What the agent is asked to do when the earlier turns have ended
    #[arg(required_unless_present = "cancel")]
    prompt: Option<String>,
    /// A variant of the executor [default: that of the previous turn]
    #[arg(long)]
    variant: Option<String>,
    /// Drop all queued prompts; the running turn continues
    #[arg(long, conflicts_with_all = ["prompt", "variant"])]
    cancel: bool,
}

/// `provost send`: refused while a turn runs.
pub async fn send(context: &mut Context, args: &SendArgs) -> Result<Exit, Failure> {
    let arguments = json!({"action": "send", "prompt": args.prompt, "variant": args.variant});
    call(context, &args.attempt, arguments).await
}

/// `provost queue`: the prompt runs after the earlier ones, or at once if no turn runs.
pub async fn queue(context: &mut Context, args: &QueueArgs) -> Result<Exit, Failure> {
    let arguments = if args.cancel {
        json!({"action": "cancel"})
    } else {
        json!({"action": "queue", "prompt": args.prompt, "variant": args.variant})
    };
    call(context, &args.attempt, arguments).await
}

/// Sends a prompt for `provost retry --session`.
pub async fn again(
    context: &mut Context,
    attempt: AttemptId,
    prompt: &str,
) -> Result<Exit, Failure> {
    call(context, &attempt.to_string(), json!({"action": "send", "prompt": prompt})).await
}

async fn call(context: &mut Context, attempt: &str, mut arguments: Value) -> Result<Exit, Failure> {
    arguments["attempt_id"] = json!(context.attempt(attempt).await?);
    let prompt = arguments["prompt"].as_str().unwrap_or_default().to_owned();
    let done = context.call::<FollowUpOutput>(arguments).await?;
    context.show(&done, |out, done| lines(&prompt, done).iter().try_for_each(|it| out.line(it)))
}

fn lines(prompt: &str, done: &FollowUpOutput) -> Vec<String> {
    let queue = &done.queue;
    let prompt = headline(prompt, PROMPT);
    let what = match (done.action, queue.status) {
        (_, QueueStatus::Started) => format!("turn started: {prompt}"),
        (FollowUpMode::Cancel, _) => "queue emptied".to_owned(),
        _ => format!("queued: {prompt}"),
    };
    let mut lines = vec![format!("{} {what}", done.attempt_id.short())];
    if !queue.messages.is_empty() {
        lines.push("queued behind the running turn:".to_owned());
    }
    let numbered = queue.messages.iter().zip(1..);
    lines.extend(
        numbered.map(|(it, place)| format!("{place:>3}. {}", headline(&it.prompt, PROMPT))),
    );
    let more = (queue.length as usize).saturating_sub(queue.messages.len());
    if more > 0 {
        lines.push(format!("     and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    fn done(action: &str, status: &str, length: u32, prompts: &[&str]) -> FollowUpOutput {
        let message =
            |it| json!({"queue_id": ID, "prompt": it, "queued_at": "2026-01-01T00:00:00Z"});
        let messages: Vec<Value> = prompts.iter().map(message).collect();
        let done = json!({"action": action, "attempt_id": ID, "worktree": "/w", "session_id": ID,
            "queue": {"status": status, "length": length, "held": false, "messages": messages}});
        serde_json::from_value(done).unwrap()
    }

    #[test]
    fn the_new_prompt_and_the_queue_are_shown_apart() {
        let queued = done("queue", "queued", 3, &["first\nmore", "second"]);
        insta::assert_snapshot!(lines("second", &queued).join("\n"), @"
        456789ab queued: second
        queued behind the running turn:
          1. first
          2. second
             and 1 more
        ");
        let sent = done("send", "started", 0, &[]);
        assert_eq!(lines("now", &sent), ["456789ab turn started: now"]);
    }
}
