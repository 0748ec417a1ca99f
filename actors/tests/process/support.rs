//! A place to run execution processes in, and what a test asks of them. Leaves
//! no process and no file behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use provost_actors::event::Stream;
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::limits::{Limits, OnLeaseLate};
use provost_actors::log::spool::format::{
    FixedRecord, INDEX, RECORD_LEN, Record, segment_path, segments,
};
use provost_actors::process::Shims;
use provost_actors::process::identity::Process;
use provost_actors::process::proc;
use provost_actors::process::records::{ExitRecord, Manifest, StdinSource};
use provost_actors::process::tree::Marker;
use provost_actors::process::{Shim, ShimEvent, SpawnError};
use provost_actors::secret::Secrets;
use tempfile::TempDir;
use tokio::time::timeout;

/// How long anything may take before a test gives up on it.
pub const TIMEOUT: Duration = Duration::from_mins(1);

pub struct Bench {
    pub root: TempDir,
    pub shims: Shims,
    pub attempt: AttemptId,
}

impl Bench {
    pub fn new() -> Self {
        Self::with_shim(PathBuf::from(env!("CARGO_BIN_EXE_provost-test-shim")))
    }

    pub fn with_shim(program: PathBuf) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root, shims: Shims::new(program), attempt: AttemptId::new() }
    }

    /// What runs a shell script, and its folder.
    pub fn script(&self, script: &str) -> (PathBuf, Manifest) {
        let process_id = ProcessId::new();
        let manifest = Manifest {
            v: 1,
            attempt_id: self.attempt,
            process_id,
            epoch: 1,
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::from([
                ("PATH".into(), std::env::var("PATH").unwrap()),
                (Marker::ATTEMPT.into(), self.attempt.to_string()),
                (Marker::PROCESS.into(), process_id.to_string()),
            ]),
            secrets: Vec::new(),
            cwd: self.root.path().into(),
            stdin: StdinSource::Pipe,
            spool_max_bytes: 1 << 30,
            limits: Limits::default(),
            cgroup: None,
            grace_ms: 0,
            soft_limits: provost_actors::limits::SoftLimits::default(),
            cwd_beneath: None,
            sandbox: None,
            lease: None,
            on_lease_late: OnLeaseLate::Freeze,
        };
        (self.root.path().join(process_id.to_string()), manifest)
    }

    /// Starts an execution process without secrets.
    pub async fn spawn(
        &self,
        dir: &Path,
        manifest: &Manifest,
        stdin: Option<&[u8]>,
    ) -> Result<Shim, SpawnError> {
        self.shims.spawn(dir, manifest, stdin, &Secrets::default()).await
    }

    /// Starts a shell script.
    pub async fn run(&self, script: &str) -> (PathBuf, Shim) {
        let (dir, manifest) = self.script(script);
        let shim = self.spawn(&dir, &manifest, None).await.unwrap();
        (dir, shim)
    }

    /// The processes at work below our folder or for our attempt.
    fn leftovers(&self) -> Vec<i32> {
        let marker = format!("{}={}\0", Marker::ATTEMPT, self.attempt).into_bytes();
        let is_ours = |pid: &i32| {
            fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|cwd| cwd.starts_with(self.root.path()))
                || proc::environ(*pid).windows(marker.len()).any(|part| part == marker)
        };
        proc::all().into_iter().filter(is_ours).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let leftovers = self.leftovers();
            if leftovers.is_empty() {
                break;
            }
            for process in leftovers.into_iter().filter_map(Process::of) {
                process.signal(nix::libc::SIGKILL);
            }
        }
        // A task that still looks for a shim may take a lock in it meanwhile.
        let is_in_use = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
        while fs::remove_dir_all(self.root.path()).is_err_and(|error| is_in_use(&error))
            && Instant::now() < deadline
        {}
    }
}

/// The next event, whatever it is.
pub async fn event(shim: &mut Shim) -> ShimEvent {
    timeout(TIMEOUT, shim.events.recv()).await.expect("an event in time").expect("an event")
}

/// The record of the leader's end.
pub async fn exited(shim: &mut Shim) -> ExitRecord {
    loop {
        match event(shim).await {
            ShimEvent::Exited(record) => return record,
            ShimEvent::Stalled(_) | ShimEvent::Resumed | ShimEvent::Frozen(_) => {}
            ShimEvent::Closed => panic!("the connection closed first"),
        }
    }
}

/// Everything up to the shim's own end, in good order: only that removes the socket.
pub async fn ended(dir: &Path, shim: &mut Shim) -> ExitRecord {
    let record = exited(shim).await;
    assert_eq!(event(shim).await, ShimEvent::Closed);
    assert!(!dir.join("sock").exists());
    record
}

/// A stream's bytes as held, from the first segment's start.
pub fn held(dir: &Path, stream: Stream) -> Vec<u8> {
    let starts = segments(dir, stream).unwrap();
    starts.iter().flat_map(|&start| fs::read(segment_path(dir, stream, start)).unwrap()).collect()
}

/// Where a stream ends, by its segments.
pub fn spooled(dir: &Path, stream: Stream) -> u64 {
    let last = segments(dir, stream).unwrap().last().copied();
    last.map_or(0, |start| start + fs::metadata(segment_path(dir, stream, start)).unwrap().len())
}

pub fn records(dir: &Path) -> Vec<Record> {
    let bytes = fs::read(dir.join(INDEX)).unwrap();
    bytes.chunks_exact(RECORD_LEN).map(|b| Record::decode(b).unwrap()).collect()
}

/// Where a stream's records end; they cover it from 0 without gap or overlap.
pub fn covered(dir: &Path, stream: Stream) -> u64 {
    records(dir).iter().filter(|record| record.stream == stream).fold(0, |end, record| {
        assert_eq!(record.offset, end);
        record.end()
    })
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until standard output holds so many lines; returns them.
pub async fn lines(dir: &Path, count: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = String::from_utf8(held(dir, Stream::Stdout)).unwrap();
        text.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')).map(Into::into).collect()
    };
    until("enough lines", || read().len() >= count).await;
    read()
}
