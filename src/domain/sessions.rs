//! Who is at the other end of a connection.

use std::path::{Path, PathBuf};

use provost_actors::ids::AttemptId;
use provost_actors::process::tree::attempt_of;

use super::Domain;
use crate::client::{Hello, Peer};
use crate::mcp::ask::{Access, Role, Session};

impl Domain {
    /// The session of a connection, from what it says of itself. Inside an
    /// attempt, by its environment or its working directory, it is a worker's
    /// unless it asks for something else.
    pub async fn session(&self, hello: &Hello, peer: Option<i32>) -> Session {
        let attempt = self.surrounding_attempt(hello).await;
        let role = match (hello.role, attempt) {
            (Some(role), _) => role,
            (None, Some(_)) => Role::Worker,
            (None, None) => Role::Orchestrator,
        };
        let inside = tokio::task::spawn_blocking(move || peer.and_then(attempt_of));
        let inside = inside.await.ok().flatten();
        let agent = match attempt {
            Some(attempt) => attempt.to_string(),
            None => hello.agent.clone().unwrap_or_else(|| "unnamed".to_owned()),
        };
        Session {
            role,
            attempt,
            inside,
            is_person: hello.client == Peer::Cli,
            agent,
            access: hello.access.unwrap_or_else(|| Access::of(role)),
            cwd: hello.cwd.as_ref().map(PathBuf::from),
        }
    }

    async fn surrounding_attempt(&self, hello: &Hello) -> Option<AttemptId> {
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
