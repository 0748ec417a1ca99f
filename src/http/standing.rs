//! Whether a request's token or login is still valid: a stream, or a call that waits, ends when the
//! user is revoked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::guard::Proof;
use crate::api::users::User;
use crate::api::{Refusable, Service};

/// The user is looked up again after each commit, and after so long without one.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Commits within this time cause one look-up.
const TOGETHER: Duration = Duration::from_millis(50);

/// A user, and the token or cookie that proved it.
#[derive(Clone)]
pub struct Standing {
    pub user: User,
    /// `None`: the owner at the Unix socket, who can't be revoked.
    proof: Option<Proof>,
    service: Arc<dyn Service>,
    commits: watch::Receiver<()>,
}

impl Standing {
    /// Looks up the user of a proof. `None`: the proof is missing or not valid, and `owner`, the user
    /// that needs no proof, was not given.
    pub async fn of(
        service: &Arc<dyn Service>,
        proof: Option<Proof>,
        owner: Option<User>,
    ) -> Refusable<Option<Self>> {
        let service = Arc::clone(service);
        // The subscription comes before the look-up, so that no later commit is missed.
        let commits = service.commits();
        let user = match &proof {
            Some(proof) => user_of(&service, proof).await?,
            None => owner,
        };
        Ok(user.map(|user| Self { user, proof, service, commits }))
    }

    /// Waits until the token is renewed, the user is revoked or gets another access, or the browser is
    /// logged out. A failed look-up does not count: the store may be busy.
    pub async fn lost(mut self) {
        let Some(proof) = &self.proof else { return std::future::pending().await };
        loop {
            let _ = tokio::time::timeout(LOOK_AGAIN, self.commits.changed()).await;
            tokio::time::sleep(TOGETHER).await;
            self.commits.mark_unchanged();
            if user_of(&self.service, proof).await.is_ok_and(|now| now.as_ref() != Some(&self.user))
            {
                return;
            }
        }
    }
}

async fn user_of(service: &Arc<dyn Service>, proof: &Proof) -> Refusable<Option<User>> {
    match proof {
        Proof::Token(token) => service.user_of_token(token).await,
        Proof::Cookie(cookie) => service.user_of_cookie(cookie).await,
    }
}
