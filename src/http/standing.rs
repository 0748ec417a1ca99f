//! Whether what let a request in still holds: a stream, or a call that waits, ends with the token or
//! the login that it came with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::guard::Proof;
use crate::api::users::User;
use crate::api::{Refusable, Service};

/// A change of users is looked for after each commit, and after so long without one.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Commits within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);

/// A user, and what proved it.
#[derive(Clone)]
pub struct Standing {
    pub user: User,
    /// `None`: the owner at the Unix socket, who stays.
    proof: Option<Proof>,
    service: Arc<dyn Service>,
    commits: watch::Receiver<()>,
}

impl Standing {
    /// `None`: nothing proves a user. `owner` is one who needs no proof.
    pub async fn of(
        service: &Arc<dyn Service>,
        proof: Option<Proof>,
        owner: Option<User>,
    ) -> Refusable<Option<Self>> {
        let service = Arc::clone(service);
        // Before the look: what is committed later is noticed.
        let commits = service.commits();
        let user = match &proof {
            Some(proof) => user_of(&service, proof).await?,
            None => owner,
        };
        Ok(user.map(|user| Self { user, proof, service, commits }))
    }

    /// Waits until the token was renewed, the user revoked, or the browser logged out.
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
