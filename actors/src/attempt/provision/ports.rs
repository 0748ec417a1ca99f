//! The ports of an attempt: a block of its own from the configured range, recorded before it is
//! used, so no two attempts get the same one; and free when it is handed out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::PORTS_IN_BLOCK;
use crate::process::sockets;
use crate::refusal::Refusal;
use crate::retry::while_store_fails;
use crate::world::World;

/// Blocks that may be in use by other programs before no further one is tried.
const TRIES: usize = 64;

/// A port for each name. The same attempt gets the same block. `Err` is a sentence.
pub(super) async fn take(
    world: &World,
    attempt: AttemptId,
    names: BTreeSet<String>,
) -> Result<BTreeMap<String, u16>, String> {
    let range = &world.settings.ports;
    let mut busy = Vec::new();
    while busy.len() < TRIES {
        let what = format!("attempt {attempt}: taking ports");
        let taken = while_store_fails(what, || {
            world.journal.take_ports(attempt, (*range.start(), *range.end()), &busy)
        });
        let taken = taken.await.map_err(|refusal: Refusal| refusal.message)?;
        failpoint::hit("ports", "taken");
        let Some(first) = taken else { break };
        let free = tokio::task::spawn_blocking(move || is_free(first)).await;
        if free.unwrap_or(false) {
            return Ok(names.into_iter().zip(first..).collect());
        }
        busy.push(first);
    }
    Err(format!(
        "setup: no block of {PORTS_IN_BLOCK} free ports is left from {} to {} (worktrees.ports): \
         collect worktrees with `provost gc`, or widen the range",
        range.start(),
        range.end()
    ))
}

/// Whether nothing uses any port of a block. Blocking.
fn is_free(first: u16) -> bool {
    !(first..first.saturating_add(PORTS_IN_BLOCK)).any(is_taken)
}

fn is_taken(port: u16) -> bool {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    // A machine without IPv6 has none of these addresses.
    let is_in_use = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    any.into_iter().any(|all| TcpListener::bind((all, port)).is_err_and(is_in_use))
}

/// `Err` says who uses the port. Blocking.
pub(super) fn refuse_taken(port: u16) -> Result<(), String> {
    if !is_taken(port) {
        return Ok(());
    }
    let who = sockets::described(&sockets::listeners(port));
    Err(format!("port {port} is in use by {who}: end that, then start the dev server again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port.saturating_sub(3)));
        let refused = refuse_taken(port).unwrap_err();
        assert!(refused.contains(&format!("process {} (", std::process::id())), "{refused}");
    }
}
