//! `provost approvals`, `approve` and `deny`: the permissions that agents ask for, and their answers.

use std::io;

use provost_actors::event::Action;
use provost_actors::ids::ApprovalId;

use super::prelude::*;

/// The longest piece of a request in the table, in characters.
const REQUEST: usize = 200;

#[derive(clap::Args, Debug)]
pub struct ApprovalsArgs {
    /// Only this attempt's: its id, or 8 or more characters of its start or end
    attempt: Option<String>,
    /// Include answered and expired ones
    #[arg(long)]
    all: bool,
}

/// `provost approvals`: a table, and below it each pending request in full, because a table cuts what a
/// person has to judge.
pub async fn approvals(context: &mut Context, args: &ApprovalsArgs) -> Result<Exit, Failure> {
    let mut arguments = json!({"status": if args.all { "all" } else { "open" }});
    if let Some(attempt) = &args.attempt {
        arguments["attempt_id"] = json!(context.attempt(attempt).await?);
    }
    let approvals = context.all::<ApprovalSummary>(arguments).await?;
    let listed = json!({"approvals": approvals, "next_cursor": null, "has_more": false});
    if context.out.as_json(&listed)? {
        return Ok(Exit::Done);
    }
    let none = if args.all { "there are no approvals" } else { "no approvals are pending" };
    let rows = approvals.iter().map(|it| {
        let request = headline(&one_line(&it.text), REQUEST);
        vec![it.approval_id.short(), it.attempt_id.short(), word(&it.status), request]
    });
    context.out.list(&["ID", "ATTEMPT", "STATUS", "ASKS FOR"], rows, none)?;
    for approval in approvals.iter().filter(|it| it.status == ApprovalStatus::Pending) {
        context.out.line("")?;
        show(&mut context.out, approval)?;
    }
    Ok(Exit::Done)
}

/// Prints a request in full; of an agent's question, its answers and how to answer.
fn show(out: &mut Output, approval: &ApprovalSummary) -> io::Result<()> {
    out.line(&format!("{} {}", approval.approval_id.short(), approval.tool_name))?;
    effect(&approval.action).iter().try_for_each(|line| out.line(line))?;
    let Some(question) = &approval.question else { return Ok(()) };
    out.line(&format!("  question: {}", one_line(&approval.text)))?;
    if !question.options.is_empty() {
        out.line(&format!("  answers: {}", one_line(&question.options.join(", "))))?;
    }
    out.line(&format!("  answer it: provost answer {} TEXT", approval.approval_id.short()))
}

/// The pending question of an agent whose id begins or ends so. `None`: there is none, or `id` can't be
/// a piece of an id; then `provost answer` takes it for a worker's question.
pub async fn question(context: &mut Context, id: &str) -> Result<Option<ApprovalId>, Failure> {
    let Ok(piece) = check_piece(id) else { return Ok(None) };
    let pending = context.all::<ApprovalSummary>(json!({})).await?;
    let is_meant = |id: &ApprovalId| {
        let id = id.to_string();
        id.starts_with(&piece) || id.ends_with(&piece)
    };
    let questions = pending.iter().filter(|it| it.question.is_some()).map(|it| it.approval_id);
    let meant: Vec<ApprovalId> = questions.filter(is_meant).collect();
    match meant.as_slice() {
        [] => Ok(None),
        _ => only(meant.iter().copied(), &piece, "pending question").map(Some),
    }
}

/// An action's details as indented lines.
fn effect(action: &Action) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in action.detail.iter().filter(|(name, _)| *name != "truncated") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value.trim_end_matches('\n') {
            one if !one.contains('\n') => lines.push(format!("  {name}: {one}")),
            many => {
                lines.push(format!("  {name}:"));
                lines.extend(many.split('\n').map(|line| format!("    {line}")));
            }
        }
    }
    if action.detail.get("truncated") == Some(&Value::Bool(true)) {
        lines.push("  (shortened; the log has all of it)".to_owned());
    }
    lines
}

/// Shows the request if it is pending, and answers it. Pieces of ids are looked up among the pending
/// ones. A whole id is sent as it is, so that the daemon says why it can't be answered.
pub async fn respond(
    context: &mut Context,
    id: &str,
    decision: &str,
    reason: Option<&str>,
) -> Result<Exit, Failure> {
    let piece = check_piece(id)?;
    let pending = context.all::<ApprovalSummary>(json!({})).await?;
    let id: ApprovalId = match whole(&piece) {
        Some(id) => id,
        None => only(pending.iter().map(|it| it.approval_id), &piece, "pending approval")?,
    };
    if let Some(asked) = pending.iter().find(|it| it.approval_id == id)
        && !context.out.json
    {
        show(&mut context.out, asked)?;
    }
    let answer = json!({"approval_id": id, "decision": decision, "reason": reason});
    let done = context.call::<RespondApprovalOutput>(answer).await?;
    context.show(&done, |out, it| out.line(&format!("{} {}", id.short(), word(&it.status))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_shown_line_by_line() {
        let action = json!({"type": "file_edit", "path": "/w/a", "diff": "-1\n+2\n",
            "input": {"to": "x"}, "truncated": true});
        let lines = effect(&serde_json::from_value(action).unwrap());
        let expected = [
            "  path: /w/a",
            "  diff:",
            "    -1",
            "    +2",
            "  input: {\"to\":\"x\"}",
            "  (shortened; the log has all of it)",
        ];
        assert_eq!(lines, expected);
    }
}
