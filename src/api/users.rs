//! Users of the HTTP interface, and how they learn of changes.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Access, Refusable};

/// The name of the home's own user, who always exists.
pub const OWNER: &str = "owner";

/// A user whose token or cookie was right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub access: Access,
}

/// A user as lists show it; `revoked_at` is set if the user is revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserLine {
    pub name: String,
    pub access: Access,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// The newest change of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its number in the sequence of all changes.
    pub number: u64,
    /// The kind of the object: attempt, task, project or inbox.
    pub topic: String,
    pub id: String,
}

/// The users of the HTTP interface, and their logins.
#[async_trait]
pub trait Users: Send + Sync {
    /// The user with this token; `None`: no user has it, or the user is revoked.
    async fn user_of_token(&self, token: &str) -> Refusable<Option<User>>;
    /// The user of the browser with this cookie; `None`: the login is unknown or over, or the user is
    /// revoked.
    async fn user_of_cookie(&self, cookie: &str) -> Refusable<Option<User>>;
    /// Uses the code of a link, and returns a cookie for the browser that it logs in; `None`: the code was
    /// used before, or is too old.
    async fn log_in(&self, code: &str) -> Refusable<Option<String>>;
    /// Ends the login of the browser with this cookie.
    async fn log_out(&self, cookie: &str) -> Refusable<()>;
}

/// What has changed, for readers that follow all changes.
#[async_trait]
pub trait Changes: Send + Sync {
    /// The newest changes of the objects that changed after `number`, in the order of the changes; at most
    /// `limit`.
    async fn changes_after(&self, number: u64, limit: usize) -> Refusable<Vec<Changed>>;
    /// The number of the newest change; 0: there was none.
    async fn newest_change(&self) -> Refusable<u64>;
    /// A channel that is marked as changed after every commit.
    fn commits(&self) -> watch::Receiver<()>;
}
