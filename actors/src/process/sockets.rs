//! Which processes listen at a TCP port of this machine, or are connected from one, as `/proc/net/tcp`
//! (proc_net_tcp(5)) and `/proc/PID/fd` show it. Only sockets of this network namespace are seen.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::proc;

/// `TCP_LISTEN`, the state of a socket that listens, as the table shows it.
const LISTEN: &str = "0A";
/// The inode that the table shows for a socket that no process has open any more.
const CLOSED: &str = "0";

/// How often [`connected`] reads the tables until it finds the socket. The kernel gives a table out page by
/// page: if other sockets open and close meanwhile, one reading may leave some out.
const TRIES: u32 = 5;

/// The processes that have a socket open which listens at the port. Empty: none listens, or only processes of
/// other users do, whose descriptors are not readable.
pub fn listeners(port: u16) -> Vec<i32> {
    holders(|socket| socket.state == LISTEN && socket.local == Some(port)).unwrap_or_default()
}

/// The processes that have the client's end open of a connection from one port to another of this machine.
/// `None`: no process has it open. Empty: only processes of other users have it open.
pub fn connected(from: u16, to: u16) -> Option<Vec<i32>> {
    let is_it = |socket: &Socket<'_>| {
        socket.inode != CLOSED && (socket.local, socket.remote) == (Some(from), Some(to))
    };
    (0..TRIES).find_map(|_| holders(is_it))
}

/// A line of `/proc/net/tcp` or `/proc/net/tcp6`. A port is `None` if its field can't be read.
struct Socket<'a> {
    local: Option<u16>,
    remote: Option<u16>,
    state: &'a str,
    inode: &'a str,
}

impl<'a> Socket<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let port = |field: &str| u16::from_str_radix(field.rsplit_once(':')?.1, 16).ok();
        let (local, remote) = (port(fields.get(1)?), port(fields.get(2)?));
        Some(Self { local, remote, state: fields.get(3)?, inode: fields.get(9)? })
    }
}

/// The processes that have a matching socket open. `None`: the tables have no such socket.
fn holders(is_it: impl Fn(&Socket) -> bool) -> Option<Vec<i32>> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| {
        let text = fs::read_to_string(table).unwrap_or_default();
        let sockets = text.lines().filter_map(Socket::read).filter(&is_it);
        sockets.map(|socket| format!("socket:[{}]", socket.inode)).collect::<BTreeSet<_>>()
    });
    let sockets: BTreeSet<String> = tables.into_iter().flatten().collect();
    if sockets.is_empty() {
        return None;
    }
    Some(proc::all().into_iter().filter(|pid| has_one_of(*pid, &sockets)).collect())
}

/// The first of the processes in words, for a message.
pub fn described(pids: &[i32]) -> String {
    match pids {
        [] => "a process that can't be seen".to_owned(),
        [pid, ..] => format!("process {pid} ({})", proc::command_name(*pid)),
    }
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
    use std::net::{IpAddr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_process_that_listens_is_found_and_only_while_it_does() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(listeners(port).contains(&std::process::id().cast_signed()));
            let client = TcpStream::connect(("127.0.0.1".parse::<IpAddr>().unwrap(), port));
            let client = client.or_else(|_| TcpStream::connect(("::1", port))).unwrap();
            let from = client.local_addr().unwrap().port();
            assert_eq!(connected(from, port), Some(vec![std::process::id().cast_signed()]));
            assert_eq!(connected(port, from + 1), None);
            drop(client);
            assert_eq!(connected(from, port), None);
            drop(listener);
            assert!(!listeners(port).contains(&std::process::id().cast_signed()));
        }
    }
}
