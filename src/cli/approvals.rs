//! `provost approvals`, `approve` and `deny`: what agents ask for, answered.

use serde_json::{Value, json};

use super::context::{Context, check_piece, is_whole, only, text};
use super::exit::{Exit, Failure};
use super::output::{headline, short};

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
    let listed = context.tool("list_approvals", arguments).await?;
    if context.out.is_json() {
        context.out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let approvals = listed["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = approvals.iter().map(row).collect();
    let none = if args.all { "there are no approvals" } else { "no approvals are waiting" };
    context.out.list(&["ID", "ATTEMPT", "STATUS", "ASKS FOR"], &rows, none)?;
    Ok(Exit::Done)
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
    arguments["approval_id"] = json!(whole(context, approval).await?);
    let done = context.tool("respond_approval", arguments).await?;
    if context.out.is_json() {
        context.out.json(&done)?;
    } else {
        let (id, status) = (short(text(&done, "approval_id")), text(&done, "status"));
        context.out.line(&format!("{id} {status}"))?;
    }
    Ok(Exit::Done)
}

/// The whole id of one that is pending, or of any that is given whole.
async fn whole(context: &mut Context, piece: &str) -> Result<String, Failure> {
    let piece = check_piece(piece)?;
    if is_whole(&piece) {
        return Ok(piece);
    }
    let pending = context.all("list_approvals", "approvals").await?;
    let ids = pending.iter().map(|approval| text(approval, "approval_id"));
    let ids: Vec<&str> = ids.filter(|id| id.starts_with(&piece) || id.ends_with(&piece)).collect();
    only(&ids, &piece, "pending approval").map(str::to_owned)
}
