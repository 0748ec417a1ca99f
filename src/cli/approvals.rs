//! `provost approvals`, `approve` and `deny`: what agents ask for, answered.

use serde_json::{Value, json};

use super::context::{Context, check_piece, is_whole, only, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline, short};

/// The longest piece of a request that is shown, in characters.
const REQUEST: usize = 200;

#[derive(clap::Args, Debug)]
pub struct ApprovalsArgs {
    /// Only this attempt's: its id, or 8 or more characters of its start or end
    attempt: Option<String>,
    /// Also those that were answered or have expired
    #[arg(long)]
    all: bool,
}

#[derive(clap::Args, Debug)]
pub struct ApproveArgs {
    /// The approval's id, or 8 or more characters of its start or end
    approval: String,
}

#[derive(clap::Args, Debug)]
pub struct DenyArgs {
    /// The approval's id, or 8 or more characters of its start or end
    approval: String,
    /// Reason, passed to the agent if its protocol allows
    #[arg(long)]
    reason: Option<String>,
}

pub async fn approvals(context: &mut Context, args: &ApprovalsArgs) -> Result<Exit, Failure> {
    let attempt = match &args.attempt {
        Some(attempt) => Some(context.attempt(attempt).await?),
        None => None,
    };
    let status = if args.all { "all" } else { "pending" };
    let arguments = json!({"attempt_id": attempt, "status": status, "limit": 100});
    if context.out.is_json() {
        let listed = context.tool("list_approvals", arguments).await?;
        context.out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let approvals = context.all_with("list_approvals", "approvals", &arguments).await?;
    let rows: Vec<Vec<String>> = approvals.iter().map(row).collect();
    let none = if args.all { "there are no approvals" } else { "no approvals are waiting" };
    context.out.list(&["ID", "ATTEMPT", "STATUS", "ASKS FOR"], &rows, none)?;
    for approval in approvals.iter().filter(|approval| approval["status"] == "pending") {
        context.out.line("")?;
        show(context, approval)?;
    }
    Ok(Exit::Done)
}

/// What would be done, in full.
fn show(context: &mut Context, approval: &Value) -> Result<(), Failure> {
    let id = short(text(approval, "approval_id"));
    context.out.line(&format!("{id} {}", harmless(text(approval, "tool_name"))))?;
    for line in effect(&approval["action"]) {
        context.out.line(&line)?;
    }
    Ok(())
}

/// An action's details, each line of theirs harmless and indented.
fn effect(action: &Value) -> Vec<String> {
    let details = action.as_object().into_iter().flatten();
    let details = details.filter(|(name, _)| !matches!(name.as_str(), "type" | "truncated"));
    let mut lines = Vec::new();
    for (name, value) in details {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value.trim_end_matches('\n') {
            one if !one.contains('\n') => lines.push(format!("  {name}: {}", harmless(one))),
            many => {
                lines.push(format!("  {name}:"));
                lines.extend(many.split('\n').map(|line| format!("    {}", harmless(line))));
            }
        }
    }
    if action["truncated"] == true {
        lines.push("  (cut: the log has all of it)".to_owned());
    }
    lines
}

fn row(approval: &Value) -> Vec<String> {
    vec![
        short(text(approval, "approval_id")).to_owned(),
        short(text(approval, "attempt_id")).to_owned(),
        text(approval, "status").to_owned(),
        // One line, cut where it is seen to be cut.
        headline(&text(approval, "text").replace('\n', " ⏎ "), REQUEST),
    ]
}

pub async fn approve(context: &mut Context, args: &ApproveArgs) -> Result<Exit, Failure> {
    respond(context, &args.approval, json!({"decision": "approve"})).await
}

pub async fn deny(context: &mut Context, args: &DenyArgs) -> Result<Exit, Failure> {
    respond(context, &args.approval, json!({"decision": "deny", "reason": args.reason})).await
}

async fn respond(
    context: &mut Context,
    approval: &str,
    mut arguments: Value,
) -> Result<Exit, Failure> {
    let (id, asked) = whole(context, approval).await?;
    if let Some(asked) = asked.filter(|_| !context.out.is_json()) {
        show(context, &asked)?;
    }
    arguments["approval_id"] = json!(id);
    let done = context.tool("respond_approval", arguments).await?;
    if context.out.is_json() {
        context.out.json(&done)?;
    } else {
        let (id, status) = (short(text(&done, "approval_id")), text(&done, "status"));
        context.out.line(&format!("{id} {status}"))?;
    }
    Ok(Exit::Done)
}

/// The whole id of one that is pending, or of any that is given whole; and what it
/// asks for, while it is pending.
async fn whole(context: &mut Context, piece: &str) -> Result<(String, Option<Value>), Failure> {
    let piece = check_piece(piece)?;
    let pending = context.all("list_approvals", "approvals").await?;
    let of =
        |id: &str| pending.iter().find(|approval| text(approval, "approval_id") == id).cloned();
    if is_whole(&piece) {
        let asked = of(&piece);
        return Ok((piece, asked));
    }
    let ids = pending.iter().map(|approval| text(approval, "approval_id"));
    let ids: Vec<&str> = ids.filter(|id| id.starts_with(&piece) || id.ends_with(&piece)).collect();
    let id = only(&ids, &piece, "pending approval")?;
    Ok((id.to_owned(), of(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_done_is_shown_line_by_line_and_can_not_steer_a_terminal() {
        let action = json!({"type": "file_edit", "path": "/w/\u{1b}[2Ja", "diff": "-1\n+\u{202e}2\n",
            "input": {"to": "x"}, "truncated": true});
        let lines = effect(&action);
        let expected = [
            "  path: /w/\\u{1b}[2Ja",
            "  diff:",
            "    -1",
            "    +\\u{202e}2",
            "  input: {\"to\":\"x\"}",
            "  (cut: the log has all of it)",
        ];
        assert_eq!(lines, expected);
    }
}
