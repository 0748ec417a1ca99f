//! The ports of an attempt: a block of its own from the configured range. The block is recorded before it
//! is used, so no two attempts get the same one, and nothing listens there when it is handed out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::RepoProvision;
use crate::failpoint;
use crate::ids::AttemptId;
use crate::journal::PORTS_IN_BLOCK;
use crate::process::sockets;
use crate::refusal::Refusal;
use crate::repo_settings::port_names;
use crate::retry::while_store_fails;
use crate::world::World;

/// How many blocks may be in use by other programs before the search ends.
const TRIES: usize = 64;

/// A port for each name that the repositories use. The same attempt gets the same block again. `Err` is a
/// sentence.
pub(super) async fn take(
    world: &World,
    attempt: AttemptId,
    repos: &BTreeMap<String, RepoProvision>,
) -> Result<BTreeMap<String, u16>, String> {
    let names = named(repos)?;
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let range = &world.settings.worktrees.ports;
    let blocks = blocks(range, &world.settings.folders.attempts);
    let mut busy = Vec::new();
    while busy.len() < TRIES {
        let what = format!("attempt {attempt}: taking ports");
        let taken = while_store_fails(what, || world.journal.take_ports(attempt, &blocks, &busy));
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

/// The names of all repositories' ports. `Err` is a sentence: they do not fit into a block.
fn named(repos: &BTreeMap<String, RepoProvision>) -> Result<BTreeSet<String>, String> {
    let names = port_names(repos.values().map(|it| &it.settings));
    if names.len() <= usize::from(PORTS_IN_BLOCK) {
        return Ok(names);
    }
    let places = repos.iter().filter_map(|(repo, it)| {
        let origin = &it.settings.ports.names.as_ref()?.origin;
        Some(format!("ports.names of {repo} ({origin})"))
    });
    Err(format!(
        "setup: an attempt has {PORTS_IN_BLOCK} ports, and {} have {} names: name fewer",
        places.collect::<Vec<_>>().join(" and "),
        names.len()
    ))
}

/// The blocks of a range. They begin elsewhere for each home, so that the daemons of several homes,
/// which know nothing of each other, rarely give out the same ones.
fn blocks(range: &RangeInclusive<u16>, home: &Path) -> Vec<u16> {
    let last = range.end().saturating_sub(PORTS_IN_BLOCK - 1);
    let mut blocks: Vec<u16> =
        (*range.start()..=last).step_by(usize::from(PORTS_IN_BLOCK)).collect();
    let hash = Sha256::digest(home.as_os_str().as_bytes());
    let hash = usize::from(u16::from_be_bytes([hash[0], hash[1]]));
    let first = hash.checked_rem(blocks.len()).unwrap_or_default();
    blocks.rotate_left(first);
    blocks
}

/// Whether nothing listens at any port of a block. Blocking.
fn is_free(first: u16) -> bool {
    !(first..first.saturating_add(PORTS_IN_BLOCK)).any(is_taken)
}

/// Whether a port can't be bound at all addresses, over IPv4 or IPv6, because it is in use.
fn is_taken(port: u16) -> bool {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    // A machine without IPv6 has none of these addresses.
    let is_in_use = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    any.into_iter().any(|all| TcpListener::bind((all, port)).is_err_and(is_in_use))
}

/// `Err` is a sentence that says which process uses the port. Blocking.
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
    use crate::repo_settings::{PortSettings, RepoSettings, Sourced};

    #[test]
    fn more_names_than_a_block_has_ports_are_refused_and_shared_ones_count_once() {
        let repo = |origin: &str, names: std::ops::Range<u8>| {
            let value = names.map(|n| format!("P{n}_PORT")).collect();
            let names = Some(Sourced { value, origin: origin.to_owned(), is_repos: true });
            let settings =
                RepoSettings { ports: PortSettings { names }, ..RepoSettings::default() };
            RepoProvision { settings, ..RepoProvision::default() }
        };
        let both = |from| {
            BTreeMap::from([
                ("app".to_owned(), repo("provost.toml:2", 0..6)),
                ("web".to_owned(), repo("config.toml:9", from..from + 6)),
            ])
        };
        assert_eq!(named(&both(4)).unwrap().len(), 10);
        let refused = named(&both(5)).unwrap_err();
        for part in ["11 names", "app (provost.toml:2)", "web (config.toml:9)"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn every_home_tries_all_blocks_and_begins_at_its_own() {
        let of = |home: &str| blocks(&(24_000..=24_999), Path::new(home));
        let firsts: BTreeSet<u16> = (0..20).map(|n| of(&format!("/home/{n}"))[0]).collect();
        assert!(firsts.len() > 10, "{firsts:?}");
        let mut all = of("/home/a");
        assert_eq!(all, of("/home/a"));
        all.sort_unstable();
        assert_eq!((all.len(), all[0], all[99]), (100, 24_000, 24_990));
        assert_eq!(blocks(&(24_000..=24_008), Path::new("/")), [0; 0]);
    }

    #[test]
    fn a_block_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port.saturating_sub(3)));
        let refused = refuse_taken(port).unwrap_err();
        assert!(refused.contains(&format!("process {} (", std::process::id())), "{refused}");
    }
}
