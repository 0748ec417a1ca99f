//! Which session is meant: an attempt's latest, or one by its id.

use provost_actors::ids::{AttemptId, SessionId};
use provost_actors::refusal::{Code, Refusal};

use super::{Store, codec, fault};

/// A session, by either of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The latest session of the attempt.
    Attempt(AttemptId),
    Session(SessionId),
}

impl Store {
    /// The attempt and the session that are meant.
    pub async fn target(&self, target: Target) -> Result<(AttemptId, SessionId), Refusal> {
        match target {
            Target::Attempt(attempt) => {
                let status = self.status(attempt).await?;
                let session = status.overview.latest_session_id.ok_or_else(|| {
                    let message = format!("attempt {attempt} has no session yet");
                    Refusal::new(Code::NoSessionYet, message)
                        .hint(format!(
                            "Call get_attempt_status with attempt_id {attempt} and try again once latest_session_id is not null."
                        ))
                        .detail("attempt_id", attempt.to_string())
                })?;
                Ok((attempt, session))
            }
            Target::Session(session) => {
                let id: Option<String> =
                    sqlx::query_scalar("SELECT attempt_id FROM sessions WHERE session_id = ?1")
                        .bind(session.to_string())
                        .fetch_optional(&self.reader)
                        .await
                        .map_err(fault)?;
                let id = id.ok_or_else(|| {
                    Refusal::new(Code::SessionNotFound, format!("there is no session {session}"))
                        .detail("session_id", session.to_string())
                })?;
                Ok((codec::id(&id)?, session))
            }
        }
    }
}
