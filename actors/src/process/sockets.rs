//! Which processes listen at a TCP port of this machine, as `/proc` shows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::proc;

/// The state of a socket that listens (`TCP_LISTEN`).
const LISTEN: &str = "0A";

/// The processes that have a socket open that listens at a port. One of another user is not seen.
pub fn listeners(port: u16) -> Vec<i32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| {
        let text = fs::read_to_string(table).unwrap_or_default();
        text.lines().filter_map(|line| listening(line, port)).collect::<BTreeSet<_>>()
    });
    let sockets: BTreeSet<String> = tables.into_iter().flatten().collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    proc::all().into_iter().filter(|pid| has_one_of(*pid, &sockets)).collect()
}

/// In words.
pub fn described(pids: &[i32]) -> String {
    match pids {
        [] => "a process that can't be seen".to_owned(),
        [pid, ..] => format!("process {pid} ({})", proc::command_name(*pid)),
    }
}

/// The link of a socket that listens at the port, from a line of a table.
fn listening(line: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (_, at) = local.rsplit_once(':')?;
    let is_it = *state == LISTEN && u16::from_str_radix(at, 16) == Ok(port);
    is_it.then(|| format!("socket:[{inode}]"))
}

fn has_one_of(pid: i32, sockets: &BTreeSet<String>) -> bool {
    let open = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    open.into_iter().flatten().flatten().any(|entry| {
        let link = fs::read_link(entry.path());
        link.is_ok_and(|link| link.to_str().is_some_and(|link| sockets.contains(link)))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_found_and_only_while_it_does() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(listeners(port).contains(&std::process::id().cast_signed()));
            drop(listener);
            assert!(!listeners(port).contains(&std::process::id().cast_signed()));
        }
    }
}
