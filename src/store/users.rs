//! Users of the HTTP interface, links that log a browser in, and browsers that are logged in. Tokens, links
//! and cookies are stored only as hashes.

use provost_actors::event::Timestamp;
use provost_actors::refusal::{Code, Refusal};
use serde_json::json;

use super::sql::{Sql, now};
use super::{RetryBudget, Store};
use crate::api::Access;
use crate::api::users::{User, UserLine};

impl Store {
    /// All users, revoked ones included, oldest first.
    pub async fn users(&self) -> Result<Vec<UserLine>, Refusal> {
        let sql =
            "SELECT name, access, created_at, revoked_at FROM users ORDER BY created_at, name";
        self.read(async |db| db.all(sql, ()).await).await
    }

    /// Adds a user, or gives a revoked user a new token. Refused if the user exists and is not revoked.
    pub async fn add_user(&self, name: &str, access: Access, hash: &str) -> Result<(), Refusal> {
        let values = (name, access, hash, now());
        let sql = "INSERT INTO users (name, access, token_hash, created_at) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (name) DO UPDATE SET access = excluded.access,
                   token_hash = excluded.token_hash, revoked_at = NULL
                   WHERE users.revoked_at IS NOT NULL";
        let work = async |db: super::Db<'_>| db.run(sql, values).await;
        match self.write(RetryBudget::Short, "add_user", work).await? {
            0 => Err(Refusal::new(Code::InvalidState, format!("there is a user {name}"))
                .hint(format!("`provost user renew {name}` gives it another token."))),
            _ => Ok(()),
        }
    }

    /// Gives a user a new token. The old token, the user's links and all browsers end. Refused if the user
    /// does not exist or is revoked.
    pub async fn renew_user(&self, name: &str, hash: &str) -> Result<(), Refusal> {
        let work = async |db: super::Db<'_>| {
            db.run("DELETE FROM logins WHERE \"user\" = $1", (name,)).await?;
            db.run("DELETE FROM login_links WHERE \"user\" = $1", (name,)).await?;
            let sql = "UPDATE users SET token_hash = $2 WHERE name = $1 AND revoked_at IS NULL";
            db.run(sql, (name, hash)).await
        };
        self.changed(self.write(RetryBudget::Short, "renew_user", work).await?, name)
    }

    /// Ends a user's token, links and browsers. Refused if the user does not exist or is revoked.
    pub async fn revoke_user(&self, name: &str) -> Result<(), Refusal> {
        let work = async |db: super::Db<'_>| {
            db.run("DELETE FROM logins WHERE \"user\" = $1", (name,)).await?;
            db.run("DELETE FROM login_links WHERE \"user\" = $1", (name,)).await?;
            let sql = "UPDATE users SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL";
            db.run(sql, (name, now())).await
        };
        self.changed(self.write(RetryBudget::Long, "revoke_user", work).await?, name)
    }

    #[expect(clippy::unused_self, reason = "reads as part of the writes above")]
    fn changed(&self, rows: u64, name: &str) -> Result<(), Refusal> {
        if rows > 0 {
            return Ok(());
        }
        Err(Refusal::new(Code::FileNotFound, format!("there is no user {name}"))
            .hint("`provost user list` lists them."))
    }

    /// The user with this token; `None`: no user has it, or the user is revoked.
    pub async fn user_of_token(&self, hash: &str) -> Result<Option<User>, Refusal> {
        let sql = "SELECT name, access FROM users WHERE token_hash = $1 AND revoked_at IS NULL";
        self.read(async |db| db.find(sql, (hash,)).await).await
    }

    /// The user of a browser with this cookie; `None`: the login is unknown or over, or the user is revoked.
    pub async fn user_of_cookie(&self, hash: &str) -> Result<Option<User>, Refusal> {
        let sql = "SELECT name, access FROM logins JOIN users ON name = \"user\"
                   WHERE cookie_hash = $1 AND expires_at > $2 AND revoked_at IS NULL";
        self.read(async |db| db.find(sql, (hash, now())).await).await
    }

    /// Stores a link that logs one browser in as this user, until a time. Removes links that are over.
    pub async fn add_link(&self, hash: &str, user: &str, until: Timestamp) -> Result<(), Refusal> {
        let work = async |db: super::Db<'_>| {
            db.run("DELETE FROM login_links WHERE expires_at <= $1", (now(),)).await?;
            let row = json!({"code_hash": hash, "user": user, "expires_at": until.millis()});
            db.insert("INTO login_links", row).await
        };
        self.write(RetryBudget::Short, "add_link", work).await.map(|_| ())
    }

    /// Uses a link, which works once, and logs a browser in until a time. `false`: the link is unknown, used
    /// or over.
    pub async fn use_link(
        &self,
        hash: &str,
        cookie_hash: &str,
        until: Timestamp,
    ) -> Result<bool, Refusal> {
        let work = async |db: super::Db<'_>| {
            let sql = "DELETE FROM login_links WHERE code_hash = $1 AND expires_at > $2
                       RETURNING \"user\"";
            let Some(user) = db.find::<String>(sql, (hash, now())).await? else {
                return Ok(false);
            };
            db.run("DELETE FROM logins WHERE expires_at <= $1", (now(),)).await?;
            let row = json!({"cookie_hash": cookie_hash, "user": user, "created_at": now(),
                "expires_at": until.millis()});
            db.insert("INTO logins", row).await?;
            Ok(true)
        };
        self.write(RetryBudget::Short, "use_link", work).await
    }

    /// Ends the login of a browser; unknown cookies are ignored.
    pub async fn log_out(&self, cookie_hash: &str) -> Result<(), Refusal> {
        let sql = "DELETE FROM logins WHERE cookie_hash = $1";
        let work = async |db: super::Db<'_>| db.run(sql, (cookie_hash,)).await;
        self.write(RetryBudget::Short, "log_out", work).await.map(|_| ())
    }
}
