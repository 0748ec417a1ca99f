//! Who is at the other end of a connection.

use std::io;
use std::path::{Path, PathBuf};

use provost_actors::ids::AttemptId;
use provost_actors::process::place::Peer as Process;
use provost_actors::refusal::Code;
use tokio::net::UnixStream;

use super::Domain;
use crate::api::{Access, Place, Role, Session};
use crate::client::{Hello, Peer};

impl Domain {
    /// Where the process that connected is. Reads a few lines of `/proc`, which wait
    /// for no disk.
    pub fn place_of(&self, stream: &UnixStream) -> io::Result<Place> {
        Ok(self.world.shims.place_of(&Process::of(stream)?))
    }

    /// The session of a connection: inside an attempt by where its process is, outside
    /// by what it says of itself.
    pub async fn session(&self, hello: &Hello, place: Place) -> Session {
        match place {
            Place::Outside => self.outside(hello).await,
            Place::Inside(attempt) => self.inside(hello, attempt).await,
        }
    }

    /// A worker's where the environment or the working directory names an attempt,
    /// unless it asks for something else.
    async fn outside(&self, hello: &Hello) -> Session {
        let attempt = self.named_attempt(hello).await;
        let default = if attempt.is_some() { Role::Worker } else { Role::Orchestrator };
        let role = hello.role.unwrap_or(default);
        Session {
            role,
            attempt,
            place: Place::Outside,
            is_person: hello.client == Peer::Cli,
            agent: agent(hello, attempt),
            access: hello.access.unwrap_or_else(|| Access::of(role)),
            cwd: hello.cwd.as_ref().map(PathBuf::from),
        }
    }

    /// A worker's, unless the attempt's executor is configured as an orchestrator; of
    /// that attempt, whatever it says of itself. Where the attempt is not known, it may
    /// look and ask.
    async fn inside(&self, hello: &Hello, attempt: Option<AttemptId>) -> Session {
        let (attempt, most) = match attempt {
            Some(attempt) => self.role_within(attempt).await,
            None => (None, Role::Worker),
        };
        let role = match (most, hello.role) {
            (Role::Worker, _) => Role::Worker,
            (most, asked) => asked.unwrap_or(most),
        };
        let access = if attempt.is_some() { Access::Write } else { Access::Read };
        Session {
            role,
            attempt,
            place: Place::Inside(attempt),
            is_person: false,
            agent: agent(hello, attempt),
            access: hello.access.map_or(access, |asked| asked.min(access)),
            cwd: hello.cwd.as_ref().map(PathBuf::from),
        }
    }

    /// An attempt, if it is on record, and the role that its executor is given.
    async fn role_within(&self, attempt: AttemptId) -> (Option<AttemptId>, Role) {
        match self.store.status(attempt).await {
            Ok(status) if self.world.executors.orchestrates(&status.overview.executor) => {
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

/// What limits and leases know it by.
fn agent(hello: &Hello, attempt: Option<AttemptId>) -> String {
    match attempt {
        Some(attempt) => attempt.to_string(),
        None => hello.agent.clone().unwrap_or_else(|| "unnamed".to_owned()),
    }
}
