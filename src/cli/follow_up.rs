//! `provost send` and `queue`: further prompts for an attempt's session.

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{headline, short};

/// The longest piece of a waiting prompt that is shown, in characters.
const PROMPT: usize = 80;

#[derive(clap::Args, Debug)]
pub struct SendArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// What the agent is asked to do next
    prompt: String,
    /// A variant of the executor [default: that of the turn before]
    #[arg(long)]
    variant: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct QueueArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// What the agent is asked to do when the turns before have ended
    #[arg(required_unless_present = "cancel")]
    prompt: Option<String>,
    /// A variant of the executor [default: that of the turn before]
    #[arg(long)]
    variant: Option<String>,
    /// Drop everything that waits; the running turn goes on
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
    let done = context.tool("follow_up", arguments).await?;
    if context.out.is_json() {
        context.out.json(&done)?;
        return Ok(Exit::Done);
    }
    for line in lines(&attempt, &done) {
        context.out.line(&line)?;
    }
    Ok(Exit::Done)
}

fn lines(attempt: &str, done: &Value) -> Vec<String> {
    let queue = &done["queue"];
    let what = match (text(done, "action"), text(queue, "status")) {
        (_, "started") => "a turn begins",
        ("cancel", _) => "nothing waits any more",
        _ => "queued",
    };
    let mut lines = vec![format!("{} {what}", short(attempt))];
    let waiting = queue["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
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
    fn what_waits_is_told_in_its_order() {
        let done = json!({"action": "queue", "queue": {"status": "queued", "length": 3, "messages": [
            {"prompt": "first\nmore"}, {"prompt": "second"}]}});
        assert_eq!(
            lines("0192f0c1-2345-7abc-8def-0123456789ab", &done).join("\n"),
            "456789ab queued\n  1. first\n  2. second\n     and 1 more"
        );
    }
}
