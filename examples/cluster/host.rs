//! A host: a machine with a daemon and a home.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::network::Machine;
use crate::session::Home;
use crate::{Result, wait_until};

/// What is the same for all hosts.
pub struct Common {
    pub root: PathBuf,
    pub program: PathBuf,
}

pub struct Host {
    pub name: String,
    pub machine: Machine,
    home: PathBuf,
    person: PathBuf,
    program: PathBuf,
    daemon: Option<Child>,
}

impl Host {
    /// With a daemon that runs.
    pub fn make(common: &Common, name: &str, number: u8, config: &str) -> Result<Self> {
        let home = common.root.join(name);
        fs::create_dir(&home)?;
        fs::write(home.join("config.toml"), config)?;
        let mut host = Self {
            name: name.to_owned(),
            machine: Machine::make(number)?,
            home,
            person: common.root.join("person"),
            program: common.program.clone(),
            daemon: None,
        };
        host.start()?;
        Ok(host)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    fn socket(&self) -> PathBuf {
        self.home.join("run/daemon.sock")
    }

    /// The process that holds the home. A daemon replaces itself after it was fenced, so this is not
    /// always the one that was started here.
    pub fn daemon(&self) -> Option<Pid> {
        let pid =
            fs::read_to_string(self.home.join("run/daemon.lock")).ok()?.trim().parse().ok()?;
        fs::metadata(format!("/proc/{pid}")).ok()?;
        Some(Pid::from_raw(pid))
    }

    pub fn start(&mut self) -> Result<()> {
        self.reap();
        let _ = fs::remove_file(self.socket());
        self.daemon = Some(self.spawn(&self.home)?);
        let (what, socket) = (format!("the daemon of {} listens", self.name), self.socket());
        wait_until(&what, || {
            if let Some(status) = self.daemon.as_mut().and_then(|it| it.try_wait().transpose()) {
                let said = fs::read_to_string(self.home.with_extension("out"))?;
                return Err(
                    format!("the daemon of {} ended, {}: {said}", self.name, status?).into()
                );
            }
            Ok(UnixStream::connect(&socket).is_ok())
        })
    }

    /// A daemon on this machine, in a home.
    pub fn spawn(&self, home: &Path) -> Result<Child> {
        let log = fs::File::options().append(true).create(true).open(home.with_extension("out"))?;
        let mut daemon = self.provost(&["daemon"]);
        daemon.env("PROVOST_HOME", home).stdout(Stdio::null()).stderr(log);
        Ok(daemon.spawn()?)
    }

    /// Whether its daemon has ended by itself.
    pub fn has_ended(&mut self) -> Result<bool> {
        if let Some(daemon) = &mut self.daemon {
            daemon.try_wait()?;
        }
        Ok(self.daemon().is_none())
    }

    fn reap(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Sends a signal to its daemon alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let daemon = self.daemon().ok_or_else(|| format!("{} has no daemon", self.name))?;
        Ok(kill(daemon, signal)?)
    }

    /// Kills its daemon alone.
    pub fn kill_daemon(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.reap();
        Ok(())
    }

    /// Loses all that runs on it at once.
    pub fn kill(&mut self) -> Result<()> {
        self.machine.kill_all()?;
        self.reap();
        Ok(())
    }
}

impl Home for Host {
    fn provost(&self, args: &[&str]) -> Command {
        let mut provost = self.machine.command(&self.program);
        provost
            .args(args)
            .current_dir("/")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", &self.person)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("PROVOST_HOME", &self.home)
            .stderr(Stdio::null());
        provost
    }
}
