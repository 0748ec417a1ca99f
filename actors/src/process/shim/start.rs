//! Makes a supervisor with a leader of a bare process in an execution process's folder. [`start`] starts the
//! leader, [`take_over`] gets it from a dead shim by way of the daemon.
//!
//! ```text
//!  start: the shim                       its child, after the fork
//!    become a shim (signals, session)      check the working folder for links
//!    lock; refuse a folder that was used   new session, default signals, OOM score
//!    manifest, spool, socket               limits; started.json (durable)
//!    secrets from stdin, stages            network namespace, its sockets to the proxy
//!    open the box's paths; proxy           the lease must be good
//!    fork ───────────────────────────────▶ limit of open files
//!    wait for the exec                     enter the box, exec
//! ```
//!
//! If a step of the child fails, only an errno reaches the shim, which writes exit.json with the reason.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signal::{sigaction, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getppid, setsid};
use rustix::io::ioctl_fionbio;
use serde::de::DeserializeOwned;

use super::fence::{Fence, stood_still};
use super::guard::{Bounds, Guard, raise_own_priority};
use super::leader::{Kinship, Leader, LeaderState};
use super::stage::Stage;
use super::stdin::Stdin;
use super::supervisor::{ProcessFolder, Supervisor};
use crate::blocking::if_there;
use crate::event::{Stream, Timestamp};
use crate::failpoint;
use crate::log::spool::write::SpoolWriter;
use crate::process::attach::{SOCKET, receive_takeover};
use crate::process::forbid_core_dumps;
use crate::process::identity::Process;
use crate::process::lease::{self, LeaseState, StartedUnder};
use crate::process::network::{ProxyChannel, passed};
use crate::process::proc;
use crate::process::records::{
    self, ExitRecord, Manifest, STDIN_FILE, Started, StdinSource, VERSION, lock_soon,
};
use crate::sandbox::{Level, Ready, Receipt, Sandbox};
use crate::secret::Secrets;

/// The wanted size of an output pipe, in bytes. The kernel refuses it beyond the user's total (pipe(7)).
const PIPE_BYTES: i32 = 256 * 1024;
/// The executor and all that it starts get this score, so that the kernel kills them for lack of memory
/// before the shim and the daemon (proc_pid_oom_score_adj(5)).
const OOM_SCORE_ADJ: i32 = 300;
/// The shim's working folder is the process's folder.
const HERE: &str = ".";
/// Sent by the child when it could not enter its box. exec(2) does not fail with this errno, nor with those
/// of the next two constants.
const NO_BOX: Errno = Errno::ENOTRECOVERABLE;
/// The child could not enter a network of its own.
const NO_NETWORK: Errno = Errno::ENONET;
/// The lease of the host was late.
const NO_LEASE: Errno = Errno::ETIME;

/// Starts the manifest's program. Returns once its exec has succeeded. The error is a sentence without its
/// full stop; the daemon gets it as [`SpawnError::Refused`](crate::process::SpawnError::Refused).
pub fn start() -> Result<Supervisor, String> {
    let signals = set_up_process().map_err(with_context("can't become a shim"))?;
    // Checked before the lock too, so that a second shim does not wait while the first one holds the lock.
    refuse_a_second_start()?;
    // This waits, because the daemon may hold the lock for a moment (`adopt`).
    let lock = lock_soon(HERE.as_ref()).map_err(with_context("can't lock"))?;
    let lock = lock.ok_or("another process holds the lock")?;
    refuse_a_second_start()?;
    let mut folder = ProcessFolder::open(signals, lock)?;
    let manifest = &mut folder.manifest;
    let secrets = receive_secrets().map_err(with_context("can't receive secrets"))?;
    if secrets.names() != manifest.secrets {
        return Err("the secrets are not those of the manifest".to_owned());
    }
    let stages = make_stages(&secrets, &folder.spool)
        .map_err(with_context("no memory to redact output in"))?;
    manifest.env.extend(secrets.env);
    failpoint::hit("executor", "next");
    raise_own_priority(&manifest.limits);
    let mut child = spawn(manifest).map_err(|error| {
        let reason = reason_not_started(manifest, &error);
        // Best effort: the handshake reports the reason too.
        let record = ExitRecord::unknown(&reason);
        let _ = records::write_durably(HERE.as_ref(), ExitRecord::FILE, &record);
        let _ = fs::remove_file(SOCKET);
        reason
    })?;

    failpoint::hit("executor", "spawned");

    let started: Option<Started> = records::read(HERE.as_ref(), Started::FILE).ok().flatten();
    let process = Process {
        pid: child.id().cast_signed(),
        start_time: started.map_or(0, |started| started.start_time),
    };
    let stdin = child.stdin.take().map(OwnedFd::from);
    let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    for pipe in pipes.iter().flatten() {
        // Best effort: if it fails, the pipe keeps its usual size.
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    }
    for pipe in pipes.iter().flatten().chain(&stdin) {
        ioctl_fionbio(pipe, true).map_err(with_context("can't set up a pipe"))?;
    }
    let leader = Leader { process, kinship: Kinship::Own, life: LeaderState::Running };
    supervisor(folder, leader, Duration::ZERO, pipes, stages, Stdin::new(stdin, 0))
}

/// Takes over from a shim that has died, with what the daemon sends on standard input
/// (`attach::send_takeover`). The error is a sentence without its full stop.
pub fn take_over() -> Result<Supervisor, String> {
    let signals = set_up_process().map_err(with_context("can't become a shim"))?;
    let (takeover, lock, ends) =
        receive_takeover().map_err(with_context("can't receive what to go on with"))?;
    failpoint::hit("takeover", "received");
    let folder = ProcessFolder::open(signals, lock)?;
    let stages = match ends.stages {
        Some([stdout, stderr]) => {
            let stdout = Stage::open(Stream::Stdout, stdout);
            let stages = stdout.and_then(|out| Ok([out, Stage::open(Stream::Stderr, stderr)?]));
            Some(stages.map_err(with_context("can't go on with its stages"))?)
        }
        None if folder.manifest.secrets.is_empty() => None,
        // Without the needles nothing can be redacted. No output is better than output that shows secrets.
        None => return Err("its stages are lost".to_owned()),
    };
    failpoint::hit("takeover", "prepared");
    let started: Started = read_here(Started::FILE)?.ok_or("there is no started.json")?;
    let life = match read_here(ExitRecord::FILE)? {
        Some(record) => LeaderState::Recorded(record),
        None if ends.leader.is_some() => LeaderState::Running,
        None => LeaderState::Dead(Instant::now()),
    };
    raise_own_priority(&folder.manifest.limits);
    let kinship = Kinship::Adopted {
        handle: ends.leader,
        adopter: getppid().as_raw(),
        roots: takeover.roots,
    };
    let leader = Leader { process: started.process(), kinship, life };
    let (pipes, stdin) =
        ([ends.stdout, ends.stderr], Stdin::new(ends.stdin, takeover.stdin_sequence));
    // As in the dead shim, time in which the machine was suspended or the tree frozen does not count.
    let suspended = started.suspended_ns.map_or(0, |then| lease::suspended().saturating_sub(then));
    let still = stood_still(Path::new(HERE)) + Duration::from_nanos(suspended);
    let age = proc::age(leader.process.start_time).saturating_sub(still);
    let mut supervisor = supervisor(folder, leader, age, pipes, stages, stdin)?;
    if supervisor.leader.record().is_some() {
        supervisor.guard.leader_ended();
    }
    supervisor.take_all();
    if let Some(status) = takeover.status {
        supervisor.leader_ended(Some(ExitStatus::from_raw(status)));
    }
    Ok(supervisor)
}

impl ProcessFolder {
    /// Reads the manifest, opens the spool and listens on the socket.
    fn open(signals: SignalFd, lock: File) -> Result<Self, String> {
        let manifest: Manifest = read_here(Manifest::FILE)?.ok_or("there is no manifest.json")?;
        let (spool, listener) = SpoolWriter::open(HERE.as_ref(), manifest.spool_max_bytes)
            .and_then(|spool| Ok((spool, listen()?)))
            .map_err(with_context("can't prepare the folder"))?;
        Ok(Self { manifest, spool, listener, signals, lock })
    }
}

fn supervisor(
    mut folder: ProcessFolder,
    leader: Leader,
    age: Duration,
    pipes: [Option<OwnedFd>; 2],
    stages: Option<[Stage; 2]>,
    stdin: Stdin,
) -> Result<Supervisor, String> {
    // The environment may hold secrets by now, and only the executor needs it.
    folder.manifest.env = BTreeMap::new();
    Ok(Supervisor {
        leader,
        guard: Guard::new(&folder.manifest, age),
        fence: Fence::new(&folder.manifest).map_err(with_context("can't watch the lease"))?,
        folder,
        pipes,
        stages,
        stdin,
        clients: Vec::new(),
        stalled: None,
        announced_stall: None,
        stopped: None,
        is_tree_gone: false,
        look_at: Instant::now(),
    })
}

fn with_context<E: Display>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

fn read_here<T: DeserializeOwned>(name: &str) -> Result<Option<T>, String> {
    records::read(HERE.as_ref(), name).map_err(with_context(&format!("can't read {name}")))
}

/// Reads the secrets from standard input. Nothing there (`/dev/null`) means that there are none.
fn receive_secrets() -> io::Result<Secrets> {
    let mut bytes = Vec::new();
    File::from(io::stdin().as_fd().try_clone_to_owned()?).read_to_end(&mut bytes)?;
    if bytes.is_empty() { Ok(Secrets::default()) } else { Ok(serde_json::from_slice(&bytes)?) }
}

/// Makes the stages of both streams. `None`: there are no secrets, so bytes go straight from pipe to spool.
fn make_stages(secrets: &Secrets, spool: &SpoolWriter) -> io::Result<Option<[Stage; 2]>> {
    if secrets.needles.is_empty() {
        return Ok(None);
    }
    let stage = |stream| Stage::create(stream, &secrets.needles, spool);
    Ok(Some([stage(Stream::Stdout)?, stage(Stream::Stderr)?]))
}

/// Makes this process a shim: forbids core dumps, begins a session (so that no terminal's signal comes),
/// becomes a subreaper, and ignores the usual signals. The returned descriptor reports deaths of children.
fn set_up_process() -> io::Result<SignalFd> {
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
        // Ignored, a write beyond a limit of file size fails with EFBIG and does not kill the shim.
        Signal::SIGXFSZ,
    ] {
        set_disposition(signal, SigHandler::SigIgn)?;
    }
    let _ = forbid_core_dumps();
    // If SIGCHLD were ignored, the kernel would reap children by itself, and their statuses would be lost.
    set_disposition(Signal::SIGCHLD, SigHandler::SigDfl)?;
    let children = SigSet::from(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&children), None)?;
    setsid()?;
    prctl::set_child_subreaper(true)?;
    Ok(SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn set_disposition(signal: Signal, handler: SigHandler) -> io::Result<()> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler of ours is installed, only ignoring or the default.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

/// A folder serves for one start. An exit record without a start closes it (`Shims::adopt`).
fn refuse_a_second_start() -> Result<(), String> {
    let already = |name: &str| Path::new(name).exists();
    if already(Started::FILE) || already(ExitRecord::FILE) {
        return Err("this process was started before, or given up".into());
    }
    Ok(())
}

/// Listens on the control socket. Binds it by a relative name, since `sun_path` (unix(7)) is too short for
/// many folders.
fn listen() -> io::Result<UnixListener> {
    if_there(fs::remove_file(SOCKET))?;
    let listener = UnixListener::bind(SOCKET)?;
    fs::set_permissions(SOCKET, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Forks and executes the program. Everything that can be prepared is prepared before the fork: of an error
/// in the child, only its errno arrives.
#[expect(clippy::disallowed_methods, reason = "this is where executors are spawned")]
fn spawn(manifest: &Manifest) -> io::Result<Child> {
    let stdin = match manifest.stdin {
        StdinSource::Empty => Stdio::null(),
        StdinSource::File => File::open(STDIN_FILE)?.into(),
        StdinSource::Pipe => Stdio::piped(),
    };
    // Absolute, because the child uses it after it has changed to the executor's working folder.
    let folder = std::env::current_dir()?;
    let cwd = working_folder(manifest)?;
    let (epoch, bounds) = (manifest.epoch, Bounds::prepare(manifest));
    let sandbox = manifest.sandbox.as_ref();
    let receipt = sandbox.map(Sandbox::receipt);
    // Opens the paths of the box before the fork: the child only enters the box.
    let mut ready = sandbox.map(Ready::make).transpose().map_err(io::Error::other)?;
    let is_strict = sandbox.is_some_and(|sandbox| sandbox.level == Level::Strict);
    let door = is_strict.then(ProxyChannel::connect).transpose();
    let no_proxy = |error| io::Error::other(format!("its proxy can't be reached: {error}"));
    let mut door = door.map_err(no_proxy)?;
    let passed = passed(sandbox);
    let (lease, boot) = (manifest.lease.clone(), lease::boot());
    let mut command = Command::new(&manifest.program);
    command
        .args(&manifest.args)
        .env_clear()
        .envs(&manifest.env)
        .current_dir(&manifest.cwd)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the shim has one thread, so no lock of another thread can be held in the child of the fork, and
    // the child may allocate and call anything.
    unsafe {
        command.pre_exec(move || {
            if cwd.is_some() && cwd != std::env::current_dir().ok() {
                return Err(Errno::ELOOP.into());
            }
            set_up_child(&folder, epoch, &bounds, receipt.clone())?;
            let entered = door.take().map_or(Ok(()), |door| door.enter(&passed));
            entered.map_err(|_| io::Error::from(NO_NETWORK))?;
            let is_good = |it: &StartedUnder| matches!(it.standing(boot), LeaseState::Good { .. });
            if !lease.as_ref().is_none_or(is_good) {
                return Err(NO_LEASE.into());
            }
            // After the steps that open files themselves.
            bounds.limit_open_files()?;
            // The last step: the steps before it write files that the box would not allow.
            let entered = ready.take().map_or(Ok(()), Ready::enter);
            entered.map_err(|_| io::Error::from(NO_BOX))
        });
    };
    command.spawn()
}

/// The path that the child's working folder must have, if the manifest requires one: `cwd_beneath` without
/// its own links, and the rest of `cwd` as it is. If an agent has planted a link in that rest, the kernel
/// shows another path to the child, and the start fails with ELOOP.
fn working_folder(manifest: &Manifest) -> io::Result<Option<PathBuf>> {
    let Some(beneath) = &manifest.cwd_beneath else { return Ok(None) };
    let below = manifest.cwd.strip_prefix(beneath).map_err(|_| Errno::ELOOP)?;
    Ok(Some(fs::canonicalize(beneath)?.join(below)))
}

/// Runs in the child, before its exec: sets up its session, signals and limits, and writes `started.json`, so
/// that the identity is on disk before the program runs.
fn set_up_child(
    folder: &Path,
    epoch: u64,
    bounds: &Bounds,
    sandbox: Option<Receipt>,
) -> io::Result<()> {
    setsid()?;
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: only defaults; for signals that can't be set the call fails, which is fine.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    raise_oom_score();
    let pid = process::id().cast_signed();
    let started = Started {
        v: VERSION,
        epoch,
        pid,
        start_time: Process::of(pid).map_or(0, |process| process.start_time),
        boot_id: proc::boot_id()?,
        suspended_ns: Some(lease::suspended()),
        at: Timestamp::now(),
        limits: bounds.apply(),
        sandbox,
    };
    records::write_durably(folder, Started::FILE, &started)?;
    bounds.allow_core_dumps()
}

/// Raises the OOM score of the calling process. Best effort. Raising it needs no privilege; lowering it again
/// does.
fn raise_oom_score() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(FILE).ok().and_then(|score| score.trim().parse::<i32>().ok());
    if score.is_some_and(|score| score < OOM_SCORE_ADJ) {
        let _ = fs::write(FILE, OOM_SCORE_ADJ.to_string());
    }
}

/// Why the program was not started, as a sentence without its full stop. exec(2) and chdir(2) fail with the
/// same errnos, so this looks at the working folder to tell them apart.
fn reason_not_started(manifest: &Manifest, error: &io::Error) -> String {
    if error.get_ref().is_some() {
        // An error with a text comes from before the fork, such as a box that can't be made.
        error.to_string()
    } else if error.raw_os_error() == Some(NO_BOX as i32) {
        "its sandbox can't be entered: the kernel refuses it".to_owned()
    } else if error.raw_os_error() == Some(NO_NETWORK as i32) {
        "a network of its own can't be entered: the kernel refuses it, or its proxy is gone"
            .to_owned()
    } else if error.raw_os_error() == Some(NO_LEASE as i32) {
        "the lease of this host is late, so nothing is started".to_owned()
    } else if error.raw_os_error() == Some(libc::ELOOP) {
        format!("can't run in {}: a link stands on the way there", manifest.cwd.display())
    } else if manifest.cwd.is_dir() {
        format!("can't run {}: {error}", manifest.program.display())
    } else {
        format!("can't run in {}: it is not a folder that can be entered", manifest.cwd.display())
    }
}
