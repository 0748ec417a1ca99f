//! A way to the board that takes its time: what arrives is passed on after a delay, in each direction.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::{Result, pause};

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// Relays each connection to this address; never returns.
pub fn run(to: Ipv4Addr, delay: Duration) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    for client in listener.incoming() {
        let client = client?;
        let Ok(server) = TcpStream::connect((to, PORT)) else { continue };
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        let (other_client, other_server) = (client.try_clone()?, server.try_clone()?);
        pass(client, server, delay);
        pass(other_server, other_client, delay);
    }
    Ok(())
}

/// Passes on what one end says, in its order, each piece this long after it came.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, pieces) = channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (due, bytes) in pieces {
            pause(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
}
