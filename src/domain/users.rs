//! Users of the HTTP face: their tokens, login links and browsers. Each secret is 256 random bits; the
//! store keeps a hash of it only.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use tokio::sync::watch;

use super::Domain;
use crate::api::commands::{
    GiveTokenParams, Login, OpenParams, UserParams, UserToken, UsersListed,
};
use crate::api::users::{Changed, Changes, OWNER, User, Users};
use crate::api::{Access, Code, Refusable, Refusal};
use crate::secret::{TOKEN_FILE, hash, keep};

/// How long a login link is valid. It works once.
const LINK_FOR: Duration = Duration::from_mins(5);
/// How long a browser stays logged in.
const LOGIN_FOR: Duration = Duration::from_hours(30 * 24);
/// Longest name of a user, in bytes.
const NAME_MAX: usize = 64;

#[async_trait]
impl Users for Domain {
    async fn user_of_token(&self, token: &str) -> Refusable<Option<User>> {
        self.store.user_of_token(&hash(token)).await
    }

    async fn user_of_cookie(&self, cookie: &str) -> Refusable<Option<User>> {
        self.store.user_of_cookie(&hash(cookie)).await
    }

    async fn log_in(&self, code: &str) -> Refusable<Option<String>> {
        let cookie = secret()?;
        let is_in = self.store.use_link(&hash(code), &hash(&cookie), after(LOGIN_FOR)).await?;
        Ok(is_in.then_some(cookie))
    }

    async fn log_out(&self, cookie: &str) -> Refusable<()> {
        self.store.log_out(&hash(cookie)).await
    }
}

#[async_trait]
impl Changes for Domain {
    async fn changes_after(&self, number: u64, limit: usize) -> Refusable<Vec<Changed>> {
        self.store.changes_after(number, limit).await
    }

    async fn newest_change(&self) -> Refusable<u64> {
        self.store.newest_change().await
    }

    fn commits(&self) -> watch::Receiver<()> {
        self.store.commits()
    }
}

impl Domain {
    /// Makes sure that the owner of the home is a user whose token is in the home's file. A token that
    /// others could read is replaced. The daemon calls this at its start.
    pub async fn keep_owner(&self) -> Refusable<()> {
        let kept = fs::read_to_string(self.token_file()).unwrap_or_default();
        let known = self.store.user_of_token(&hash(kept.trim())).await?;
        let owner = self.owner();
        if known.is_some_and(|user| user.name == owner) && !self.is_token_exposed() {
            return Ok(());
        }
        let token = self.new_owner_token()?;
        if self.store.users().await?.iter().any(|user| user.name == owner) {
            return self.store.renew_user(&owner, &hash(&token)).await;
        }
        self.store.add_user(&owner, Access::Admin, &hash(&token)).await
    }

    /// True if the mode of the token's file lets others read it: an agent in a sandbox of the same user
    /// can change the mode.
    pub fn is_token_exposed(&self) -> bool {
        fs::symlink_metadata(self.token_file()).is_ok_and(|found| found.mode() & 0o077 != 0)
    }

    /// The owner's user name. On a shared board it has the host's id: each home has a token of its own.
    fn owner(&self) -> String {
        let host = &self.world.host;
        if host.has_lease { format!("{OWNER}@{}", host.id) } else { OWNER.to_owned() }
    }

    fn token_file(&self) -> PathBuf {
        self.data_dir.join(TOKEN_FILE)
    }

    /// Makes a token and writes it into the home. The file comes before the store: after a crash in
    /// between, the store does not know the token of the file, and the next daemon makes another one.
    fn new_owner_token(&self) -> Refusable<String> {
        let token = secret()?;
        // The copy that is renamed lies in the scratch folder, which a daemon empties at its start: a
        // kill leaves no copy.
        let written = keep(&token, &self.token_file(), &self.world.settings.folders.scratch);
        written.map_err(|error| {
            let path = self.token_file();
            Refusal::internal(format!("{} can't be written: {error}", path.display()))
        })?;
        Ok(token)
    }

    /// All users with their access; no secrets.
    pub(super) async fn list_users(&self) -> Refusable<UsersListed> {
        Ok(UsersListed { users: self.store.users().await? })
    }

    /// Adds a user with `access`; without `access`, replaces the token of an existing user. Only this
    /// answer has the token.
    pub(super) async fn give_token(&self, params: GiveTokenParams) -> Refusable<UserToken> {
        let GiveTokenParams { name, access } = params;
        let Some(access) = access else {
            let token = if name == self.owner() { self.new_owner_token()? } else { secret()? };
            self.store.renew_user(&name, &hash(&token)).await?;
            return Ok(UserToken { name, token });
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
            let message = format!("`{name}` can't be the name of a user");
            let hint = format!("Take 1 to {NAME_MAX} of the characters A-Z a-z 0-9 . _ - @.");
            return Err(Refusal::new(Code::InvalidArgument, message).hint(hint));
        }
        let token = secret()?;
        self.store.add_user(&name, access, &hash(&token)).await?;
        Ok(UserToken { name, token })
    }

    /// Removes a user with its token and its logins. The owner of the home can't be removed.
    pub(super) async fn revoke_user(&self, params: UserParams) -> Refusable<UsersListed> {
        let owner = self.owner();
        if params.name == owner {
            let refusal = Refusal::new(Code::InvalidArgument, "the owner of the home stays");
            let hint = format!("`provost user renew {owner}` gives it another token.");
            return Err(refusal.hint(hint));
        }
        self.store.revoke_user(&params.name).await?;
        self.list_users().await
    }

    /// Makes a login link for the owner's browser. Refused while no page is served.
    pub(super) async fn open(&self, OpenParams {}: OpenParams) -> Refusable<Login> {
        let face = self.face.get().cloned().unwrap_or_else(|| Err("it is not ready yet".into()));
        let url = face.map_err(|why| {
            Refusal::new(Code::InvalidState, format!("the daemon serves no page: {why}"))
                .hint("Set http.listen in the configuration, and restart the daemon.")
        })?;
        let code = secret()?;
        self.store.add_link(&hash(&code), &self.owner(), after(LINK_FOR)).await?;
        Ok(Login { url, code, seconds: LINK_FOR.as_secs() })
    }
}

fn after(time: Duration) -> Timestamp {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(Timestamp::now().millis().saturating_add(millis))
}

/// A new secret.
fn secret() -> Refusable<String> {
    crate::secret::make().map_err(|error| Refusal::internal(error.to_string()))
}
