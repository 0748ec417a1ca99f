//! Who is at the other end of a connection.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use provost_actors::ids::AttemptId;
use provost_actors::process::place::Peer as Process;
use provost_actors::process::sockets;
use tokio::net::UnixStream;

use super::Domain;
use crate::api::{Access, Caller, CallerLocation, Code, Origin, Role};
use crate::client::{Hello, Peer};

impl Domain {
    /// Where the process that connected is. Reads a few lines of `/proc`, which wait for no disk.
    pub fn place_of(&self, stream: &UnixStream) -> io::Result<CallerLocation> {
        Ok(self.world.shims.place_of(&Process::of(stream)?))
    }

    /// Where the process at the other end of a TCP connection of this machine is; one of another
    /// machine is outside, and one that has closed it counts as inside. Searches `/proc`.
    pub fn place_of_port(&self, ours: u16, theirs: SocketAddr) -> CallerLocation {
        if !theirs.ip().is_loopback() {
            return CallerLocation::Outside;
        }
        let pids = sockets::connected(theirs.port(), ours);
        pids.map_or(CallerLocation::Inside(None), |pids| self.world.shims.place_of_all(&pids))
    }

    /// The caller of a connection: inside an attempt by where its process is, outside
    /// by what it says of itself.
    pub async fn caller(&self, hello: &Hello, place: CallerLocation, from: String) -> Caller {
        let (attempt, role, access) = match place {
            // A worker where the environment or the working directory names an attempt, unless
            // it asks for something else.
            CallerLocation::Outside => {
                let attempt = self.named_attempt(hello).await;
                let default = if attempt.is_some() { Role::Worker } else { Role::Orchestrator };
                let role = hello.role.unwrap_or(default);
                (attempt, role, hello.access.unwrap_or_else(|| Access::of(role)))
            }
            // A worker of that attempt, whatever it says of itself, unless the attempt's
            // executor is configured as an orchestrator. If the attempt is not known, the
            // worker may only read and ask.
            CallerLocation::Inside(attempt) => {
                let (attempt, most) = match attempt {
                    Some(attempt) => self.role_within(attempt).await,
                    None => (None, Role::Worker),
                };
                let role = match most {
                    Role::Worker => Role::Worker,
                    most => hello.role.unwrap_or(most),
                };
                let most = if attempt.is_some() { Access::Write } else { Access::Read };
                (attempt, role, hello.access.map_or(most, |asked| asked.min(most)))
            }
        };
        // What limits and leases know the client by.
        let agent = match attempt {
            Some(attempt) => attempt.to_string(),
            None => hello.agent.clone().unwrap_or_else(|| "unnamed".to_owned()),
        };
        Caller {
            role,
            attempt,
            place,
            is_person: matches!(place, CallerLocation::Outside) && hello.client == Peer::Cli,
            agent,
            access,
            cwd: hello.cwd.as_ref().map(PathBuf::from),
            origin: Origin { user: None, from, host: None },
        }
    }

    /// An attempt, if it is on record, and the role that its executor is given.
    async fn role_within(&self, attempt: AttemptId) -> (Option<AttemptId>, Role) {
        match self.store.status(attempt).await {
            Ok(status) if self.world.executors.orchestrates(&status.overview.line.executor) => {
                (Some(attempt), Role::Orchestrator)
            }
            // A check's process is below a shim too, and of no attempt.
            Err(refusal) if refusal.code == Code::AttemptNotFound => (None, Role::Worker),
            Ok(_) | Err(_) => (Some(attempt), Role::Worker),
        }
    }

    /// The attempt that a client outside says it is about.
    async fn named_attempt(&self, hello: &Hello) -> Option<AttemptId> {
        if let Some(id) = hello.attempt_id.as_deref().and_then(|id| id.parse().ok())
            && self.store.status(id).await.is_ok()
        {
            return Some(id);
        }
        let below = Path::new(hello.cwd.as_deref()?)
            .strip_prefix(&self.world.settings.worktrees_dir)
            .ok()?;
        let folder = below.components().next()?.as_os_str().to_str()?;
        self.store.attempt_in(folder).await.ok()?
    }
}
