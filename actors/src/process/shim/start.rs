//! From a bare process in an execution process's folder to a supervisor with a
//! running leader: one that it starts, or one that it takes over.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signal::{sigaction, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};

use super::guard::{Bounds, Guard, go_first};
use super::leader::{Kinship, Leader, LeaderEnd, LeaderState};
use super::stage::Stage;
use super::stdin::Stdin;
use super::supervisor::Supervisor;
use super::takeover;
use crate::event::{Stream, Timestamp};
use crate::failpoint;
use crate::log::spool::write::SpoolWriter;
use crate::process::forbid_core_dumps;
use crate::process::identity::Process;
use crate::process::lock::lock_soon;
use crate::process::manifest::{self, ExitRecord, Manifest, Started, StdinSource, VERSION};
use crate::process::paths::{SOCKET, STDIN_FILE};
use crate::process::proc;
use crate::process::secret_memfd;
use crate::process::tree::Marker;
use crate::process::usage;
use crate::secret::Secrets;

/// Wanted size of an output pipe, in bytes. Larger ones would soon use up what
/// the kernel allows one user's pipes in all (`pipe-user-pages-soft`, pipe(7)).
const PIPE_BYTES: i32 = 256 * 1024;
/// Of the executor and all it starts: sooner killed for memory than the shim (proc(5)).
const OOM_SCORE_ADJ: i32 = 300;

/// Starts what the manifest asks for. The error is for people.
pub fn start() -> Result<Supervisor, String> {
    let signals = become_shim().map_err(|error| format!("can't become a shim: {error}"))?;
    refuse_a_second_start()?;
    let lock = take_lock()?;
    refuse_a_second_start()?;
    let mut manifest = read_manifest()?;
    let (spool, listener) = prepare(&manifest)?;
    let secrets = receive_secrets(&manifest)?;
    let stages = make_stages(&secrets, &spool)
        .map_err(|error| format!("no memory to redact output in: {error}"))?;
    manifest.env.extend(secrets.env);
    failpoint::hit("executor", "next");
    go_first(&manifest.limits);
    let mut child = spawn(&manifest).map_err(|error| {
        let reason = reason_not_started(&manifest, &error);
        give_up(&reason);
        reason
    })?;

    failpoint::hit("executor", "spawned");

    let started: Option<Started> = manifest::read(Path::new("."), Started::FILE).ok().flatten();
    let process = Process {
        pid: child.id().cast_signed(),
        start_time: started.map_or(0, |started| started.start_time),
    };
    let stdin = child.stdin.take().map(OwnedFd::from);
    let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    for pipe in pipes.iter().flatten() {
        // Without it the pipe is as large as any.
        let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    }
    for pipe in pipes.iter().flatten().chain(&stdin) {
        set_nonblocking(pipe).map_err(|error| format!("can't set up a pipe: {error}"))?;
    }
    Ok(Supervisor {
        leader: Leader { process, kinship: Kinship::Own, life: LeaderState::Running },
        marker: Marker { attempt: manifest.attempt_id, process: manifest.process_id },
        guard: Guard::new(&manifest, Duration::ZERO),
        spool,
        pipes,
        stages,
        stdin: Stdin::new(stdin, 0),
        listener,
        signals,
        clients: Vec::new(),
        stalled: None,
        announced_stall: None,
        stopped: None,
        is_tree_gone: false,
        look_at: Instant::now(),
        lock,
    })
}

/// Takes over from a shim that has died, with what the daemon passes on.
pub fn take_over() -> Result<Supervisor, String> {
    let signals = become_shim().map_err(|error| format!("can't become a shim: {error}"))?;
    let (takeover, ends) = takeover::receive()
        .map_err(|error| format!("can't receive what to go on with: {error}"))?;
    failpoint::hit("takeover", "received");
    let manifest = read_manifest()?;
    let (spool, listener) = prepare(&manifest)?;
    let stages = take_over_stages(&manifest, ends.stages)?;
    failpoint::hit("takeover", "prepared");
    let record: Option<ExitRecord> = manifest::read(Path::new("."), ExitRecord::FILE)
        .map_err(|error| format!("can't read {}: {error}", ExitRecord::FILE))?;
    let life = match record {
        Some(record) => LeaderState::Recorded(record),
        None if ends.leader.is_some() => LeaderState::Running,
        None => LeaderState::Dead { since: Instant::now() },
    };
    go_first(&manifest.limits);
    let mut guard = Guard::new(&manifest, usage::age(takeover.leader));
    if matches!(life, LeaderState::Recorded(_)) {
        guard.leader_ended();
    }
    let kinship = Kinship::Adopted {
        handle: ends.leader,
        adopter: getppid().as_raw(),
        roots: takeover.roots,
    };
    let mut supervisor = Supervisor {
        leader: Leader { process: takeover.leader, kinship, life },
        marker: Marker { attempt: manifest.attempt_id, process: manifest.process_id },
        guard,
        spool,
        pipes: [ends.stdout, ends.stderr],
        stages,
        stdin: Stdin::new(ends.stdin, takeover.stdin_sequence),
        listener,
        signals,
        clients: Vec::new(),
        stalled: None,
        announced_stall: None,
        stopped: None,
        is_tree_gone: false,
        look_at: Instant::now(),
        lock: ends.lock,
    };
    supervisor.take_all();
    if let Some(status) = takeover.status {
        supervisor.leader_ended(LeaderEnd::Known(ExitStatus::from_raw(status)));
    }
    Ok(supervisor)
}

fn read_manifest() -> Result<Manifest, String> {
    manifest::read(Path::new("."), Manifest::FILE)
        .map_err(|error| format!("can't read {}: {error}", Manifest::FILE))?
        .ok_or_else(|| format!("there is no {}", Manifest::FILE))
}

fn prepare(manifest: &Manifest) -> Result<(SpoolWriter, UnixListener), String> {
    SpoolWriter::open(Path::new("."), manifest.spool_max_bytes)
        .and_then(|spool| Ok((spool, listen()?)))
        .map_err(|error| format!("can't prepare the folder: {error}"))
}

fn receive_secrets(manifest: &Manifest) -> Result<Secrets, String> {
    let secrets =
        secret_memfd::unpack().map_err(|error| format!("can't receive secrets: {error}"))?;
    let named = secrets.names() == manifest.secrets;
    named.then_some(secrets).ok_or_else(|| "the secrets are not those of the manifest".to_owned())
}

/// Only secrets need stages: without them bytes go straight from pipe to spool.
fn make_stages(secrets: &Secrets, spool: &SpoolWriter) -> io::Result<Option<[Stage; 2]>> {
    if secrets.needles.is_empty() {
        return Ok(None);
    }
    let stage = |stream| Stage::create(stream, &secrets.needles, spool);
    Ok(Some([stage(Stream::Stdout)?, stage(Stream::Stderr)?]))
}

fn take_over_stages(
    manifest: &Manifest,
    stages: Option<[OwnedFd; 2]>,
) -> Result<Option<[Stage; 2]>, String> {
    let Some([stdout, stderr]) = stages else {
        // Sooner no output than one that shows secrets.
        let is_plain = manifest.secrets.is_empty();
        return is_plain.then_some(None).ok_or_else(|| "its stages are lost".to_owned());
    };
    Stage::open(Stream::Stdout, stdout)
        .and_then(|stdout| Ok(Some([stdout, Stage::open(Stream::Stderr, stderr)?])))
        .map_err(|error| format!("can't go on with its stages: {error}"))
}

/// Reports the result to the daemon, then leaves its pipe and terminal.
pub fn hand_shake(word: &str) {
    // A daemon that is gone by now finds out from the folder.
    let _ = io::stdout().write_all(word.as_bytes()).and_then(|()| io::stdout().flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
}

/// Without core dumps, in a session of its own, adopter of its descendants' orphans, deaf to every
/// signal but the deaths of children, which the descriptor tells.
fn become_shim() -> io::Result<SignalFd> {
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
        // A file size limit is then an error, not a death.
        Signal::SIGXFSZ,
    ] {
        dispose(signal, SigHandler::SigIgn)?;
    }
    // A daemon without them has started it, unless it is of an earlier version.
    let _ = forbid_core_dumps();
    // Ignoring it would make the kernel reap children unasked.
    dispose(Signal::SIGCHLD, SigHandler::SigDfl)?;
    let children = SigSet::from(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&children), None)?;
    setsid()?;
    prctl::set_child_subreaper(true)?;
    Ok(SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn dispose(signal: Signal, handler: SigHandler) -> io::Result<()> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler of ours is installed, only ignoring or the default.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

/// Asked before the lock as well: then a second shim need not wait for it.
fn refuse_a_second_start() -> Result<(), String> {
    let already = |name: &str| Path::new(name).exists();
    if already(Started::FILE) || already(ExitRecord::FILE) {
        return Err("this process was started before, or given up".into());
    }
    Ok(())
}

/// The folder's lock, waited for: the daemon may have looked at the folder just before.
fn take_lock() -> Result<File, String> {
    match lock_soon(Path::new(".")) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err("another process holds the lock".into()),
        Err(error) => Err(format!("can't lock: {error}")),
    }
}

/// Binds by a relative name, since `sun_path` (unix(7)) is too short for many
/// folders. Whoever holds the lock may take a dead one's socket away.
fn listen() -> io::Result<UnixListener> {
    match fs::remove_file(SOCKET) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(SOCKET)?;
    fs::set_permissions(SOCKET, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[expect(clippy::disallowed_methods, reason = "this is where executors are spawned")]
fn spawn(manifest: &Manifest) -> io::Result<Child> {
    let stdin = match manifest.stdin {
        StdinSource::Empty => Stdio::null(),
        StdinSource::File => File::open(STDIN_FILE)?.into(),
        StdinSource::Pipe => Stdio::piped(),
    };
    let folder = std::env::current_dir()?;
    let place = real_place(manifest)?;
    let (epoch, bounds) = (manifest.epoch, Bounds::prepare(manifest));
    let mut command = Command::new(&manifest.program);
    command
        .args(&manifest.args)
        .env_clear()
        .envs(&manifest.env)
        .current_dir(&manifest.cwd)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // By its absolute path: the child's working folder is the executor's by then.
    // SAFETY: the shim has one thread, so the child of its fork may do what it likes.
    unsafe {
        command.pre_exec(move || {
            if place.is_some() && place != std::env::current_dir().ok() {
                return Err(Errno::ELOOP.into());
            }
            become_leader(&folder, epoch, &bounds)
        });
    };
    command.spawn()
}

/// Where the working folder has to be once it has been entered, if that is bound:
/// then a link that is put on the way there leads to no start.
fn real_place(manifest: &Manifest) -> io::Result<Option<PathBuf>> {
    let Some(beneath) = &manifest.cwd_beneath else { return Ok(None) };
    let below = manifest.cwd.strip_prefix(beneath).map_err(|_| Errno::ELOOP)?;
    Ok(Some(fs::canonicalize(beneath)?.join(below)))
}

/// Runs in the child, before its exec: who it will be is on disk before it is.
fn become_leader(folder: &Path, epoch: u64, bounds: &Bounds) -> io::Result<()> {
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
        at: Timestamp::now(),
        limits: bounds.apply(),
    };
    manifest::write_durably(folder, Started::FILE, &started)?;
    bounds.allow_core_dumps()?;
    // Last of all: what was done here needed some, too.
    bounds.limit_open_files()
}

/// Best effort; lowering it again takes a privilege, raising none.
fn raise_oom_score() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(FILE).ok().and_then(|score| score.trim().parse::<i32>().ok());
    if score.is_some_and(|score| score < OOM_SCORE_ADJ) {
        let _ = fs::write(FILE, OOM_SCORE_ADJ.to_string());
    }
}

/// exec(2) and chdir(2) fail with the same errors; people need to know which.
fn reason_not_started(manifest: &Manifest, error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::ELOOP) {
        format!("can't run in {}: a link stands on the way there", manifest.cwd.display())
    } else if manifest.cwd.is_dir() {
        format!("can't run {}: {error}", manifest.program.display())
    } else {
        format!("can't run in {}: it is not a folder that can be entered", manifest.cwd.display())
    }
}

/// Best effort: the handshake reports it as well.
fn give_up(reason: &str) {
    let _ = manifest::write_durably(Path::new("."), ExitRecord::FILE, &ExitRecord::unknown(reason));
    let _ = fs::remove_file(SOCKET);
}

fn set_nonblocking(pipe: &OwnedFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}
