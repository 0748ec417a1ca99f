//! Connections: attaching again, standard input, life after the leader.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use provost_actors::event::Stream;
use provost_actors::process::Adopted;
use provost_actors::process::identity::Process;
use provost_actors::process::wire::{ShimMessage, ShimRequest, first_frame};
use provost_actors::process::{ControlError, Shim, ShimEvent, Target};
use tokio::time::timeout;

use crate::support::{Bench, TIMEOUT, covered, ended, event, exited, held, lines, until};

async fn adopt(bench: &Bench, dir: &Path) -> Shim {
    match bench.shims.adopt(dir).await.unwrap() {
        Adopted::Live(shim) => shim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_executor_outlives_the_connection_and_serves_the_next() {
    let bench = Bench::new();
    let (dir, shim) = bench.run("while read line; do echo got $line; done; exit 5").await;
    assert_eq!(shim.control.write_stdin(b"one\n".to_vec()).await, Ok(1));
    lines(&dir, 1).await;
    drop(shim);

    let mut shim = adopt(&bench, &dir).await;
    assert_eq!(shim.control.stdin_sequence(), 1);
    assert_eq!(shim.control.write_stdin(b"two\n".to_vec()).await, Ok(2));
    shim.control.close_stdin().await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(5));
    assert_eq!(held(&dir, Stream::Stdout), b"got one\ngot two\n");
    assert!(
        matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::Ended(r) if r.exit_code == Some(5))
    );
    assert_eq!(shim.control.ping().await, Err(ControlError::Closed));
}

#[tokio::test]
async fn two_connections_and_a_deaf_one_do_not_hinder_each_other() {
    let bench = Bench::new();
    let (dir, first) = bench.run("yes").await;
    let _deaf = RawClient::connect(&dir);
    let mut second = adopt(&bench, &dir).await;
    for _ in 0..20 {
        timeout(TIMEOUT, second.lengths.changed()).await.unwrap().unwrap();
    }
    first.control.ping().await.unwrap();
    second.control.kill_tree().await.unwrap();
    let record = ended(&dir, &mut second).await;
    assert_eq!(record.exit_signal, Some(9));
    assert_eq!(covered(&dir, Stream::Stdout), held(&dir, Stream::Stdout).len() as u64);
}

#[tokio::test]
async fn the_leaders_end_is_reported_while_its_leftovers_go_on() {
    let bench = Bench::new();
    let script = "setsid sh -c 'trap \"echo late; exit\" TERM; echo up; touch up; \
                  while :; do sleep 0.01; done' & \
                  while [ ! -e up ]; do sleep 0.01; done; echo leader; exit 3";
    let (dir, mut shim) = bench.run(script).await;
    let record = exited(&mut shim).await;
    assert_eq!(record.exit_code, Some(3));
    let early = held(&dir, Stream::Stdout);
    assert_eq!(record.stdout_bytes, early.len() as u64);
    drop(shim);

    // A connection made after the end is told of it.
    let mut shim = adopt(&bench, &dir).await;
    assert_eq!(event(&mut shim).await, ShimEvent::Exited(record));
    let signal = nix::sys::signal::Signal::SIGTERM;
    assert_eq!(shim.control.signal(Target::Leader, signal).await.unwrap(), 0);
    shim.control.signal(Target::Tree, signal).await.unwrap();
    assert_eq!(event(&mut shim).await, ShimEvent::Closed);
    assert!(held(&dir, Stream::Stdout).ends_with(b"late\n"));
}

#[tokio::test]
async fn closed_pipes_are_no_end_of_the_process() {
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("exec >&- 2>&-; read line; exit 7").await;
    shim.control.ping().await.unwrap();
    assert!(shim.events.try_recv().is_err());
    shim.control.write_stdin(b"go\n".to_vec()).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(7));
}

#[tokio::test]
async fn an_executor_that_does_not_read_holds_up_its_input_alone() {
    let bench = Bench::new();
    let (_, shim) = bench.run("sleep 600").await;
    let control = shim.control.clone();
    let write = tokio::spawn(async move { control.write_stdin(vec![b'x'; 8 << 20]).await });
    let control = shim.control.clone();
    let next = tokio::spawn(async move { control.write_stdin(vec![b'y'; 8 << 20]).await });
    for _ in 0..10 {
        shim.control.ping().await.unwrap();
    }
    assert!(!write.is_finished() && !next.is_finished());
    shim.control.kill_tree().await.unwrap();
    for result in [write.await.unwrap(), next.await.unwrap()] {
        assert!(matches!(result, Err(ControlError::StdinClosed | ControlError::Closed)));
    }
    let too_long = shim.control.write_stdin(vec![0; (16 << 20) + 1]).await;
    assert_eq!(too_long, Err(ControlError::TooLong((16 << 20) + 1)));
}

#[tokio::test]
async fn a_large_message_arrives_whole() {
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("cat").await;
    let message: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    shim.control.write_stdin(message.clone()).await.unwrap();
    shim.control.close_stdin().await.unwrap();
    ended(&dir, &mut shim).await;
    assert!(held(&dir, Stream::Stdout) == message);
}

#[tokio::test]
async fn a_message_cut_short_is_not_written_and_one_sent_again_not_twice() {
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("cat").await;
    let stdin = |sequence, text: &str| {
        ShimRequest::Stdin { sequence, bytes: text.as_bytes().to_vec() }.encode()
    };
    let mut dying = RawClient::connect(&dir);
    dying.stream.write_all(&stdin(1, "whole\n")).unwrap();
    let half = stdin(2, "torn\n");
    dying.stream.write_all(&half[..half.len() - 3]).unwrap();
    drop(dying);

    let mut next = RawClient::connect(&dir);
    next.stream.write_all(&ShimRequest::Subscribe.encode()).unwrap();
    for (sequence, text) in [(1, "whole\n"), (2, "second\n"), (2, "second\n")] {
        next.stream.write_all(&stdin(sequence, text)).unwrap();
        next.wait_for(&ShimMessage::StdinWritten { sequence });
    }
    next.stream.write_all(&ShimRequest::CloseStdin.encode()).unwrap();
    next.wait_for(&ShimMessage::StdinClosed);
    // The other connection holds a copy of the pipe until it hears of that.
    ended(&dir, &mut shim).await;
    assert_eq!(held(&dir, Stream::Stdout), b"whole\nsecond\n");
}

#[tokio::test]
async fn a_shim_ends_by_itself_with_no_daemon_attached() {
    let bench = Bench::new();
    let (dir, shim) = bench.run("read line; sleep 0.1; echo $line; exit 6").await;
    shim.control.write_stdin(b"alone\n".to_vec()).await.unwrap();
    let leader = shim.started.process();
    drop(shim);
    until("the socket is gone", || !dir.join("sock").exists()).await;
    assert!(!leader.is_alive());
    let Adopted::Ended(record) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
    assert_eq!(record.exit_code, Some(6));
    assert_eq!(held(&dir, Stream::Stdout), b"alone\n");
}

#[tokio::test]
async fn a_shim_that_was_stopped_is_let_go_on() {
    let bench = Bench::new();
    let (dir, shim) = bench.run("cat").await;
    let shim_process =
        Process::of(provost_actors::process::proc::Stat::of(shim.started.pid).unwrap().ppid)
            .unwrap();
    shim_process.signal(nix::libc::SIGSTOP);
    let control = adopt(&bench, &dir).await.control;
    shim_process.signal(nix::libc::SIGSTOP);
    control.kill_tree().await.unwrap();
}

/// A client that speaks the protocol by hand.
struct RawClient {
    stream: UnixStream,
    inbox: Vec<u8>,
}

impl RawClient {
    fn connect(dir: &Path) -> Self {
        let folder = std::fs::File::open(dir).unwrap();
        let path = format!("/proc/self/fd/{}/sock", folder.as_raw_fd());
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, inbox: Vec::new() }
    }

    fn wait_for(&mut self, wanted: &ShimMessage) {
        loop {
            if let Some((frame, used)) = first_frame(&self.inbox).unwrap() {
                let notice = ShimMessage::decode(frame).unwrap();
                self.inbox.drain(..used);
                if notice == *wanted {
                    return;
                }
                continue;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the shim hung up");
            self.inbox.extend_from_slice(&bytes[..count]);
        }
    }
}
