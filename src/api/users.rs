//! Users of the HTTP face, and what they see of changes.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Access, Refusable};

/// The user of the home itself, who is always there.
pub const OWNER: &str = "owner";

/// A user who proved to be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub access: Access,
}

/// A user as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLine {
    pub name: String,
    pub access: Access,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// The last change of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its place in the one sequence of all changes.
    pub number: u64,
    /// attempt, task, project or inbox.
    pub topic: String,
    pub id: String,
}

/// Who may use the HTTP face.
#[async_trait]
pub trait Users: Send + Sync {
    async fn user_of_token(&self, token: &str) -> Refusable<Option<User>>;
    async fn user_of_cookie(&self, cookie: &str) -> Refusable<Option<User>>;
    /// Uses up the code of a link, and returns the cookie of the browser that it logs in; `None`:
    /// the link was used, or is too old.
    async fn log_in(&self, code: &str) -> Refusable<Option<String>>;
    async fn log_out(&self, cookie: &str) -> Refusable<()>;
}

/// What has changed, for readers that keep up.
#[async_trait]
pub trait Changes: Send + Sync {
    /// The last changes of the objects that changed after a number, in their order.
    async fn changes_after(&self, number: u64, limit: usize) -> Refusable<Vec<Changed>>;
    /// The number of the newest change; 0: there was none.
    async fn newest_change(&self) -> Refusable<u64>;
    /// Is marked as changed after every commit.
    fn commits(&self) -> watch::Receiver<()>;
}
