//! Who is at the other end of a connection, and what the caller may do. Where the process is comes from
//! the kernel; only a caller outside of all attempts is believed what it says of itself.

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
    /// Where the process that connected is, inside an attempt or outside of all. Reads a few files of
    /// `/proc`, which never wait for a disk, so this may run on an async thread.
    pub fn place_of(&self, stream: &UnixStream) -> io::Result<CallerLocation> {
        Ok(self.world.shims.place_of(&Process::of(stream)?))
    }

    /// Where the process at the other end of a TCP connection is. A peer on another machine is outside; a
    /// local peer that has closed the connection can't be found any more, and counts as inside. Searches
    /// all of `/proc`.
    pub fn place_of_port(&self, ours: u16, theirs: SocketAddr) -> CallerLocation {
        if !theirs.ip().is_loopback() {
            return CallerLocation::Outside;
        }
        let pids = sockets::connected(theirs.port(), ours);
        pids.map_or(CallerLocation::Inside(None), |pids| self.world.shims.place_of_all(&pids))
    }

    /// The caller of a connection. Inside an attempt, its role and access follow from that attempt;
    /// outside, from its hello. `from` is where the audit log says that the caller is.
    pub async fn caller(&self, hello: &Hello, place: CallerLocation, from: String) -> Caller {
        let (attempt, role, access) = match place {
            // A caller that names an attempt, by its environment or its working directory, is a worker
            // unless it asks for another role.
            CallerLocation::Outside => {
                let attempt = self.named_attempt(hello).await;
                let default = if attempt.is_some() { Role::Worker } else { Role::Orchestrator };
                let role = hello.role.unwrap_or(default);
                (attempt, role, hello.access.unwrap_or_else(|| Access::of(role)))
            }
            // A worker of that attempt, whatever the hello says, unless the configuration makes the
            // attempt's executor an orchestrator. If the attempt is not known, the worker may only read
            // and ask.
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
        // Rates and leases are kept by this name.
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

    /// The attempt if it is on record, and the highest role that its executor may take.
    async fn role_within(&self, attempt: AttemptId) -> (Option<AttemptId>, Role) {
        match self.store.status(attempt).await {
            Ok(status) if self.world.executors.orchestrates(&status.overview.line.executor) => {
                (Some(attempt), Role::Orchestrator)
            }
            // The processes of a check also run below a shim, but belong to no attempt.
            Err(refusal) if refusal.code == Code::AttemptNotFound => (None, Role::Worker),
            Ok(_) | Err(_) => (Some(attempt), Role::Worker),
        }
    }

    /// The attempt that a client outside names: by id, else by a working directory below the worktrees
    /// folder.
    async fn named_attempt(&self, hello: &Hello) -> Option<AttemptId> {
        if let Some(id) = hello.attempt_id.as_deref().and_then(|id| id.parse().ok())
            && self.store.status(id).await.is_ok()
        {
            return Some(id);
        }
        let below = Path::new(hello.cwd.as_deref()?)
            .strip_prefix(&self.world.settings.folders.worktrees)
            .ok()?;
        let folder = below.components().next()?.as_os_str().to_str()?;
        self.store.attempt_in(folder).await.ok()?
    }
}
