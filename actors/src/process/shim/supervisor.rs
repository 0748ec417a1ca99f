//! The shim's loop: one `poll`, then a bounded piece of work for each source that is ready.
//!
//! ```text
//!  advance: what time or state makes due (end of the leader, record, limits, adopted tree)
//!    └▶ record on disk, tree gone, rest spooled? ──▶ remove socket, release lock, end
//!  announce_stall, tick
//!  wait: poll ─▶ deaths, new client, lease, requests, leader's handle, stdin, output (CHUNKS at most)
//!  answer the requests that waited for room, drop clients that are gone
//! ```
//!
//! Requests come before output, so that a flood of output does not delay a kill. The order at an end is
//! fixed: the leader's death, its pipes emptied, the stages released, the spool synced, `exit.json`; only
//! then the clients hear of it, and the leader is reaped.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use rustix::io::ioctl_fionread;

use super::client::Client;
use super::fence::{Fence, Step};
use super::guard::Guard;
use super::leader::{Kinship, Leader, LeaderEnd, LeaderState};
use super::stage::Stage;
use super::stdin::Stdin;
use crate::event::Stream;
use crate::failpoint;
use crate::log::spool::format::STREAMS;
use crate::log::spool::write::{SpoolWriter, Taken};
use crate::process::attach::SOCKET;
use crate::process::identity::{Reaped, ending, reap, reap_others};
use crate::process::kill::{KillReport, kill_tree, signal_tree};
use crate::process::records::{self, ExitRecord, Manifest, StopKind};
use crate::process::tree::{Tree, is_in_another_attempt};
use crate::process::watch::Measure;
use crate::process::wire::{Hello, ShimMessage, ShimRequest, Target};

/// The pause before the next try to write to a spool that is stalled.
const RETRY: Duration = Duration::from_millis(250);
/// How often a rescue shim searches for the tree after the leader's end: no SIGCHLD reports the death of
/// processes that are not its children.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// How many reads of one pipe in a row, each of `write::CHUNK` bytes at most, before other sources get a
/// turn.
const CHUNKS: usize = 4;
/// The most connections at once. When another comes, the oldest is dropped: a daemon that died may not have
/// closed it.
const CLIENTS_MAX: usize = 4;

/// A process's folder, ready to be supervised.
pub struct ProcessFolder {
    pub manifest: Manifest,
    pub spool: SpoolWriter,
    pub listener: UnixListener,
    /// A signalfd(2) for SIGCHLD.
    pub signals: SignalFd,
    /// The lock of the folder: it is held while the file is open.
    pub lock: fs::File,
}

/// The shim's state. The working folder is the process's folder.
pub struct Supervisor {
    pub folder: ProcessFolder,
    pub leader: Leader,
    pub guard: Guard,
    /// `None`: the host has no lease.
    pub fence: Option<Fence>,
    /// The reading ends of stdout and stderr; `None` after their end.
    pub pipes: [Option<OwnedFd>; 2],
    /// The stages through which output passes; `None`: there are no secrets.
    pub stages: Option<[Stage; 2]>,
    pub stdin: Stdin,
    pub clients: Vec<Client>,
    /// Why the spool or the record can't be written, and when to try again. The pipes are not read meanwhile.
    pub stalled: Option<(String, Instant)>,
    /// The stall that the clients were told last.
    pub announced_stall: Option<String>,
    /// The strongest stop that was requested while the leader ran.
    pub stopped: Option<StopKind>,
    /// No process of the tree is left. A parent learns it from wait(2), a rescue shim by searching.
    pub is_tree_gone: bool,
    /// When a rescue shim searches for its tree next.
    pub look_at: Instant,
}

/// A source of the poll that is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Signals,
    Lease,
    Listener,
    Client(usize),
    Leader,
    Stdin,
    Output(Stream),
}

impl Supervisor {
    /// Runs until the leader's end is on disk and nothing of its tree is left.
    pub fn run(mut self) {
        loop {
            self.advance();
            if self.leader.record().is_some() && self.is_tree_gone && self.take_the_rest() {
                break;
            }
            self.announce_stall();
            let tick_due = self.tick();
            for source in self.wait(tick_due) {
                match source {
                    Ready::Signals => self.reap(),
                    Ready::Lease => self.look_at_lease(),
                    Ready::Listener => self.accept(),
                    Ready::Client(client) => self.serve(client),
                    Ready::Leader => self.leader.died(Instant::now()),
                    Ready::Stdin => self.feed_stdin(),
                    Ready::Output(stream) => self.take(stream),
                }
            }
            for number in 0..self.clients.len() {
                self.answer_all(number);
            }
            self.clients.retain(|client| !client.is_gone);
        }
        self.folder.spool.trim();
        if let Some(cgroup) = &self.guard.cgroup {
            cgroup.remove();
        }
        failpoint::hit("tree", "gone");
        // The socket goes before the lock: whoever can't connect then finds the exit record.
        let _ = fs::remove_file(SOCKET);
        drop(self.folder.lock);
    }

    /// Polls all sources until one is ready or something is due. Pipes are not polled while the spool is
    /// stalled, nor clients that have nothing to read or to write.
    fn wait(&mut self, tick_due: Option<Instant>) -> Vec<Ready> {
        let mut sources = vec![Ready::Signals, Ready::Listener];
        let mut fds = vec![
            PollFd::new(self.folder.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.folder.listener.as_fd(), PollFlags::POLLIN),
        ];
        if let Some(fence) = &self.fence {
            sources.push(Ready::Lease);
            fds.push(PollFd::new(fence.timer(), PollFlags::POLLIN));
        }
        for (number, client) in self.clients.iter().enumerate() {
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, !client.is_parked);
            events.set(PollFlags::POLLOUT, !client.outbox.is_empty());
            if !events.is_empty() {
                sources.push(Ready::Client(number));
                fds.push(PollFd::new(client.stream.as_fd(), events));
            }
        }
        if let Some(handle) = self.leader.watched() {
            sources.push(Ready::Leader);
            fds.push(PollFd::new(handle.0.as_fd(), PollFlags::POLLIN));
        }
        if let Some(pipe) = self.stdin.waiting() {
            sources.push(Ready::Stdin);
            fds.push(PollFd::new(pipe, PollFlags::POLLOUT));
        }
        if self.stalled.is_none() {
            for (stream, pipe) in STREAMS.into_iter().zip(&self.pipes) {
                if let Some(pipe) = pipe {
                    sources.push(Ready::Output(stream));
                    fds.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
                }
            }
        }

        // The next moment at which something is due without an event.
        let retry = self.stalled.as_ref().map(|(_, at)| *at);
        let look = self.is_watching().then_some(self.look_at);
        let next =
            [tick_due, retry, look, self.guard.due(self.is_frozen())].into_iter().flatten().min();
        let timeout = next.map_or(PollTimeout::NONE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up: a timeout in whole milliseconds that is too short would make the loop spin.
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        if poll(&mut fds, timeout).is_err() {
            // Only EINTR is possible: every descriptor here is open and ours.
            return Vec::new();
        }
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        sources.into_iter().zip(&fds).filter(|(_, fd)| is_ready(fd)).map(|(s, _)| s).collect()
    }

    /// Whether a rescue shim has to ask again and again for the status of its dead leader and for the end
    /// of its tree: nothing reports either.
    fn is_watching(&self) -> bool {
        matches!(self.leader.kinship, Kinship::Adopted { .. })
            && !matches!(self.leader.life, LeaderState::Running)
    }

    /// Does what is due by time or by the state, in the order in which an end proceeds.
    fn advance(&mut self) {
        let now = Instant::now();
        if self.stalled.as_ref().is_some_and(|(_, at)| *at <= now) {
            self.stalled = None;
            self.take_all();
        }
        if let Some(ending) = self.leader.ending(now) {
            self.leader_ended(ending);
        }
        // The leader of a tree that exceeded a limit has ended: the rest gets no further grace.
        if !matches!(self.leader.life, LeaderState::Running) && self.guard.hurry() {
            self.kill();
        }
        if self.stalled.is_none()
            && self.leader.is_drained()
            && self.release()
            && let Some(mut record) = self.leader.record_due(self.lengths())
        {
            record.limit.clone_from(&self.guard.reason);
            record.stopped = self.stopped;
            self.write_down(record);
        }
        self.keep_to_limits(now);
        if self.is_watching() && self.look_at <= now {
            self.look_at = now + LOOK_AROUND;
            self.is_tree_gone = self.tree().is_gone();
        }
    }

    /// Asks the guard if a sample or a kill is due, and ends the tree as it says.
    fn keep_to_limits(&mut self, now: Instant) {
        let is_frozen = self.is_frozen();
        if self.guard.due(is_frozen).is_none_or(|at| at > now) {
            return;
        }
        let (tree, bytes) = (self.tree(), self.lengths().iter().sum());
        match self.guard.look(now, bytes, self.stalled.is_some(), &tree) {
            Some(Measure::Terminate) => {
                signal_tree(&tree, libc::SIGTERM, is_frozen);
                self.stdin.close();
                self.feed_stdin();
            }
            Some(Measure::Kill) => drop(self.kill()),
            None => {}
        }
    }

    fn is_frozen(&self) -> bool {
        self.fence.as_ref().is_some_and(Fence::is_frozen)
    }

    /// Carries out what the fence decides, and tells the clients when the tree was frozen or thawed.
    fn look_at_lease(&mut self) {
        let was_frozen = self.is_frozen();
        let step = self.fence.as_ref().map_or(Step::Leave, Fence::look);
        if step == Step::Leave {
            return;
        }
        let tree = self.tree();
        match (step, self.fence.as_mut()) {
            (Step::Freeze, Some(fence)) => fence.freeze(&tree),
            (Step::Thaw, Some(fence)) => self.guard.stood_still(fence.thaw(&tree)),
            _ => {}
        }
        if let Step::Kill(reason) = step {
            self.guard.reason.get_or_insert_with(|| reason.to_owned());
            drop(self.kill());
        }
        let is_frozen = self.is_frozen();
        if was_frozen != is_frozen {
            self.announce(&ShimMessage::Frozen(is_frozen));
        }
    }

    /// Writes the exit record, after the spool is synced: whoever reads the record finds all the output
    /// that it counts. If the disk is full, the loop tries again.
    fn write_down(&mut self, record: ExitRecord) {
        failpoint::hit("exit", "next");
        let written = self
            .folder
            .spool
            .sync()
            .and_then(|()| records::write_durably(Path::new("."), ExitRecord::FILE, &record));
        match written {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.stall(&error),
            // The record is written; or the folder was deleted, and no later try can write it.
            _ => {
                failpoint::hit("exit", "recorded");
                self.announce(&ShimMessage::Exited(record.clone()));
                self.leader.life = LeaderState::Recorded(record);
                self.reap();
            }
        }
    }

    /// Reaps dead children. The leader stays a zombie until its record is on disk: if this shim is killed
    /// before that, the daemon becomes the zombie's parent and still gets the status.
    fn reap(&mut self) {
        while let Ok(Some(_)) = self.folder.signals.read_signal() {}
        if let Some(leader) = self.unrecorded_child() {
            reap_others(leader);
            if matches!(self.leader.life, LeaderState::Running)
                && let Some(status) = ending(leader)
            {
                self.leader_ended(Some(status));
            }
            return;
        }
        loop {
            match reap(None) {
                Reaped::Child(..) => {}
                Reaped::NoneDead => return,
                // Every descendant of a subreaper is below one of its children, so without children the tree
                // is gone. That proves nothing for a tree that is not ours.
                Reaped::NoChild => {
                    self.is_tree_gone = matches!(self.leader.kinship, Kinship::Own);
                    return;
                }
            }
        }
    }

    /// The leader's pid, if it is our child and its end is not on disk.
    fn unrecorded_child(&self) -> Option<i32> {
        let is_child = matches!(self.leader.kinship, Kinship::Own);
        (is_child && self.leader.record().is_none()).then_some(self.leader.process.pid)
    }

    /// The leader has ended. Counts what its pipes hold now: all that the leader wrote is in the spool once
    /// that many bytes are, although other processes may go on writing.
    pub fn leader_ended(&mut self, ending: LeaderEnd) {
        let left = self.pipes.each_ref().map(|pipe| pipe.as_ref().map_or(0, bytes_in));
        self.leader.ended(ending, left);
        self.guard.leader_ended();
    }

    /// Accepts a connection, unless its peer may be an agent: the peer must be certainly outside of this
    /// tree, and of all other attempts.
    fn accept(&mut self) {
        match self.folder.listener.accept() {
            Ok((stream, _)) => {
                let Ok(mut client) = Client::new(stream) else { return };
                // A supervised process, of this or another attempt, must not get the pipes, and must not push
                // the daemon's connection out.
                if !self.tree().is_outside(client.pid) || is_in_another_attempt(client.pid) {
                    return;
                }
                client.send(&ShimMessage::Hello(Hello {
                    pid: self.leader.process.pid,
                    stdin_sequence: self.stdin.last,
                    stdin_written: Some(self.stdin.written()),
                }));
                self.clients.push(client);
                // The daemon writes a fence to the file and connects. So the fence is seen now, and not at
                // the next look.
                self.look_at_lease();
            }
            // No descriptor is left (EMFILE). The oldest connection is the one that is most likely stale.
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => self.drop_oldest_client(),
            Err(_) => {}
        }
        if self.clients.len() > CLIENTS_MAX {
            self.drop_oldest_client();
        }
    }

    fn drop_oldest_client(&mut self) {
        if let Some(oldest) = self.clients.first_mut() {
            oldest.is_gone = true;
        }
    }

    /// A client's socket is ready: writes, reads, and answers.
    fn serve(&mut self, number: usize) {
        self.clients[number].flush();
        if !self.clients[number].is_parked {
            self.clients[number].receive();
        }
        self.answer_all(number);
    }

    /// Answers the requests in the client's inbox, up to a message for standard input that has no room.
    fn answer_all(&mut self, number: usize) {
        while let Some(request) = self.clients[number].next_request(self.stdin.has_room()) {
            self.answer(number, request);
        }
    }

    /// Carries a request out. Requests without an answer (`None`) have their effect only.
    fn answer(&mut self, number: usize, request: ShimRequest) {
        let answer = match request {
            ShimRequest::Subscribe => return self.subscribe(number),
            ShimRequest::TickSeen => {
                self.clients[number].tick.is_unseen = false;
                None
            }
            ShimRequest::Stdin { sequence, bytes } => {
                let answer = self.stdin.push(sequence, bytes);
                self.feed_stdin();
                answer
            }
            ShimRequest::CloseStdin => {
                self.stdin.close();
                self.feed_stdin();
                None
            }
            ShimRequest::Signal { ticket, target, signal } => {
                Some(ShimMessage::Signalled { ticket, count: self.signal(target, signal) })
            }
            ShimRequest::Stopping(kind) => {
                if matches!(self.leader.life, LeaderState::Running) {
                    self.stopped = self.stopped.max(Some(kind));
                }
                None
            }
            ShimRequest::KillTree { ticket } => {
                Some(ShimMessage::Killed { ticket, report: self.kill() })
            }
            ShimRequest::Pipes => return self.send_pipes(number),
            ShimRequest::Ping { ticket } => Some(ShimMessage::Pong { ticket }),
            ShimRequest::LeaderEnded { status } => {
                if matches!(self.leader.kinship, Kinship::Adopted { .. }) {
                    self.leader_ended(Some(ExitStatus::from_raw(status)));
                }
                None
            }
        };
        if let Some(answer) = answer {
            self.clients[number].send(&answer);
        }
    }

    /// Sends the client every event from now on. Repeats those of earlier events that still hold: the last
    /// message that was written, a stall, a freeze, the record.
    fn subscribe(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.is_subscribed = true;
        client.send(&ShimMessage::Subscribed);
        client.send(&ShimMessage::StdinWritten { sequence: self.stdin.written() });
        if let Some(reason) = &self.announced_stall {
            client.send(&ShimMessage::Stalled(reason.clone()));
        }
        if self.fence.as_ref().is_some_and(Fence::is_frozen) {
            client.send(&ShimMessage::Frozen(true));
        }
        if let Some(record) = self.leader.record() {
            client.send(&ShimMessage::Exited(record.clone()));
        }
    }

    /// Sends duplicates of the open pipes' ends and of the stages.
    fn send_pipes(&mut self, number: usize) {
        let [stdout, stderr] = self.pipes.each_ref().map(|pipe| pipe.as_ref().map(AsFd::as_fd));
        let stage = |at: usize| self.stages.as_ref().map(|stages| stages[at].file.as_fd());
        let ends = [stdout, stderr, self.stdin.open_pipe(), stage(0), stage(1)];
        self.clients[number].send_pipes(ends);
    }

    /// Returns how many processes got the signal; for the leader's group 1, or 0.
    fn signal(&mut self, target: Target, signal: i32) -> u32 {
        match target {
            // Until the leader is reaped, no other group can get the number.
            Target::Leader if self.leader.process.holds_its_pid() => {
                let group = Pid::from_raw(self.leader.process.pid);
                let sent = Signal::try_from(signal).is_ok_and(|it| killpg(group, it).is_ok());
                if !self.is_frozen() && !matches!(signal, libc::SIGSTOP | libc::SIGKILL) {
                    // A stopped process gets to handle the signal.
                    let _ = killpg(group, Signal::SIGCONT);
                }
                u32::from(sent)
            }
            Target::Leader => 0,
            Target::Tree => {
                let signalled = signal_tree(&self.tree(), signal, self.is_frozen());
                u32::try_from(signalled).unwrap_or(u32::MAX)
            }
        }
    }

    /// Kills the tree and reaps. Blocks the loop for about [`kill::BUDGET`](crate::process::kill::BUDGET)
    /// at most.
    fn kill(&mut self) -> KillReport {
        // `self.reap` below counts what the pipes hold as the leader's last output. So the other processes
        // that write to the pipes must be dead before it.
        let leader = self.unrecorded_child().unwrap_or_default();
        let report = kill_tree(&self.tree(), &mut || reap_others(leader));
        failpoint::hit("tree", "killed");
        self.reap();
        self.look_at = Instant::now();
        report
    }

    /// Where to search for the tree now. Clients that are certainly outside of it are spared.
    fn tree(&self) -> Tree {
        let mut tree = self.leader.tree(self.folder.manifest.marker(), self.guard.cgroup.clone());
        let clients = self.clients.iter().map(|client| client.pid);
        let spared: Vec<i32> = clients.filter(|client| tree.is_outside(*client)).collect();
        tree.spared.extend(spared);
        tree
    }

    fn feed_stdin(&mut self) {
        for message in self.stdin.feed() {
            self.announce(&message);
        }
    }

    /// Moves some bytes from each pipe to the spool. Also makes the stages use up what they hold.
    pub fn take_all(&mut self) {
        for stream in STREAMS {
            self.take(stream);
        }
    }

    /// Moves [`CHUNKS`] reads of one pipe at most, and counts them for the leader's end. An error stalls.
    fn take(&mut self, stream: Stream) {
        for _ in 0..CHUNKS {
            match self.take_once(stream) {
                Ok(Taken::Bytes(count)) => self.leader.drained(stream as usize, Some(count)),
                Ok(Taken::Nothing) => return self.leader.drained(stream as usize, None),
                Ok(Taken::End) => {
                    self.leader.drained(stream as usize, None);
                    self.pipes[stream as usize] = None;
                }
                Err(error) => return self.stall(&error),
            }
        }
    }

    fn take_once(&mut self, stream: Stream) -> io::Result<Taken> {
        let Some(pipe) = &self.pipes[stream as usize] else { return Ok(Taken::Nothing) };
        match &mut self.stages {
            Some(stages) => stages[stream as usize].take(&mut self.folder.spool, pipe.as_fd()),
            None => self.folder.spool.take(stream, pipe.as_fd()),
        }
    }

    /// Spools the bytes that the stages hold back. `false`: the spool can't take them now, and is stalled.
    fn release(&mut self) -> bool {
        let mut stages = self.stages.iter_mut().flatten();
        let released = stages.try_for_each(|stage| stage.release(&mut self.folder.spool));
        released.map_err(|error| self.stall(&error)).is_ok()
    }

    /// Moves the last bytes in the pipes to the spool, after the whole tree has ended. Takes no more than
    /// the pipes hold now: a process outside of the tree may have inherited a pipe. `false`: the spool is
    /// stalled.
    fn take_the_rest(&mut self) -> bool {
        if self.stalled.is_some() {
            return false;
        }
        for stream in STREAMS {
            let mut left = self.pipes[stream as usize].as_ref().map_or(0, bytes_in);
            while left > 0 {
                match self.take_once(stream) {
                    Ok(Taken::Bytes(count)) => left = left.saturating_sub(count as u64),
                    Ok(Taken::Nothing | Taken::End) => break,
                    Err(error) => {
                        self.stall(&error);
                        return false;
                    }
                }
            }
        }
        self.release() && self.folder.spool.sync().map_err(|error| self.stall(&error)).is_ok()
    }

    /// Stops reading the pipes for [`RETRY`]. The executor waits when its pipe is full; nothing is lost.
    fn stall(&mut self, error: &io::Error) {
        self.stalled = Some((error.to_string(), Instant::now() + RETRY));
    }

    /// Tells the clients about a stall that has begun, changed or ended.
    fn announce_stall(&mut self) {
        let reason = self.stalled.as_ref().map(|(reason, _)| reason.clone());
        if reason != self.announced_stall {
            self.announce(&reason.clone().map_or(ShimMessage::Resumed, ShimMessage::Stalled));
            self.announced_stall = reason;
        }
    }

    fn announce(&mut self, message: &ShimMessage) {
        for client in self.clients.iter_mut().filter(|client| client.is_subscribed) {
            client.send(message);
        }
    }

    /// Sends the spool's lengths to the clients to which a tick is due. Returns when the next one is due.
    fn tick(&mut self) -> Option<Instant> {
        let (lengths, now) = (self.lengths(), Instant::now());
        self.clients.iter_mut().filter_map(|client| client.offer_tick(lengths, now)).min()
    }

    fn lengths(&self) -> [u64; 2] {
        STREAMS.map(|stream| self.folder.spool.len(stream))
    }
}

/// Bytes that wait in a pipe (FIONREAD).
fn bytes_in(pipe: &OwnedFd) -> u64 {
    ioctl_fionread(pipe).unwrap_or(0)
}
