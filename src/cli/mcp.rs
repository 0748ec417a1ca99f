//! `provost mcp`: relays standard input and output to the daemon.

use super::prelude::*;
use crate::bridge;
use crate::client::{Hello, Peer, Starter};
use crate::home::surrounding_attempt;
use crate::role::{Access, Role};

#[derive(clap::Args, Debug)]
pub struct McpArgs {
    /// Which tools to offer [default: worker inside an attempt, else orchestrator]
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// What calls may do [default: write for a worker, else admin]
    #[arg(long, value_enum)]
    access: Option<Access>,
}

/// `provost mcp`: serves MCP until its client closes standard input. Inside an attempt the role is
/// that of a worker unless it is given; the daemon decides what the role may do.
pub async fn mcp(context: &mut Context, args: McpArgs) -> Result<Exit, Failure> {
    let McpArgs { role, access } = args;
    let role = role.or_else(|| surrounding_attempt().map(|_| Role::Worker));
    let mut hello = Hello::of_process(Peer::Bridge, role);
    hello.access = access;
    bridge::run(Starter::new(context.home()?.clone()), hello).await?;
    Ok(Exit::Done)
}
