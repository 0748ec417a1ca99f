//! `provost send` and `queue`: further prompts for an attempt's session.

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline, short};

/// The longest piece of a waiting prompt that is shown, in characters.
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

pub async fn send(context: &mut Context, args: &SendArgs) -> Result<Exit, Failure> {
    let arguments = json!({"action": "send", "prompt": args.prompt, "variant": args.variant});
    call(context, &args.attempt, arguments).await
}

pub async fn queue(context: &mut Context, args: &QueueArgs) -> Result<Exit, Failure> {
    let arguments = if args.cancel {
        json!({"action": "cancel"})
    } else {
        json!({"action": "queue", "prompt": args.prompt, "variant": args.variant})
    };
    call(context, &args.attempt, arguments).await
}

async fn call(context: &mut Context, attempt: &str, mut arguments: Value) -> Result<Exit, Failure> {
    let attempt = context.attempt(attempt).await?;
    arguments["attempt_id"] = json!(attempt);
    let prompt = text(&arguments, "prompt").to_owned();
    let done = context.tool("follow_up", arguments).await?;
    if context.out.is_json() {
        context.out.json(&done)?;
        return Ok(Exit::Done);
    }
    for line in lines(&attempt, &prompt, &done) {
        context.out.line(&harmless(&line))?;
    }
    Ok(Exit::Done)
}

fn lines(attempt: &str, prompt: &str, done: &Value) -> Vec<String> {
    let queue = &done["queue"];
    let prompt = headline(prompt, PROMPT);
    let what = match (text(done, "action"), text(queue, "status")) {
        (_, "started") => format!("turn started: {prompt}"),
        ("cancel", _) => "queue emptied".to_owned(),
        _ => format!("queued: {prompt}"),
    };
    let mut lines = vec![format!("{} {what}", short(attempt))];
    let waiting = queue["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !waiting.is_empty() {
        lines.push("waiting for the turns before them to end:".to_owned());
    }
    let told = waiting.iter().zip(1..);
    lines.extend(
        told.map(|(one, place)| format!("{place:>3}. {}", headline(text(one, "prompt"), PROMPT))),
    );
    let more = queue["length"].as_u64().unwrap_or_default().saturating_sub(waiting.len() as u64);
    if more > 0 {
        lines.push(format!("     and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_and_what_waits_are_told_apart() {
        let done = json!({"action": "queue", "queue": {"status": "queued", "length": 3, "messages": [
            {"prompt": "first\nmore"}, {"prompt": "second"}]}});
        insta::assert_snapshot!(
            lines("0192f0c1-2345-7abc-8def-0123456789ab", "second", &done).join("\n"),
            @"
        456789ab queued: second
        waiting for the turns before them to end:
          1. first
          2. second
             and 1 more
        "
        );
        let sent = json!({"action": "send", "queue": {"status": "started", "length": 0,
            "messages": []}});
        let sent = lines("0192f0c1-2345-7abc-8def-0123456789ab", "now", &sent);
        assert_eq!(sent, ["456789ab turn started: now"]);
    }
}
