//! Says what an id is that was taken for something else: the commonest slip of
//! an agent that holds many of them.

use provost_actors::refusal::{Code, Refusal};

use super::Domain;
use crate::store::Kind;

impl Domain {
    pub(super) async fn name_the_kind(&self, refusal: Refusal) -> Refusal {
        let Some(field) = id_field(refusal.code) else { return refusal };
        let Some(id) = refusal.details.get(field).and_then(|id| id.as_str()) else {
            return refusal;
        };
        let Ok(found) = self.store.resolve(id, &Kind::ALL).await else { return refusal };
        match found.first() {
            Some(other) if other.kind.field() != field => {
                let (id, kind) = (id.to_owned(), other.kind.field());
                let hint = format!(
                    "{id} is a {kind}: use it where a {kind} is asked for. {}",
                    refusal.hint
                );
                refusal.hint(hint).detail("id_is", kind)
            }
            _ => refusal,
        }
    }
}

/// The detail that holds the id which was not found.
fn id_field(code: Code) -> Option<&'static str> {
    match code {
        Code::ProjectNotFound => Some(Kind::Project.field()),
        Code::RepoNotFound => Some(Kind::Repo.field()),
        Code::TaskNotFound => Some(Kind::Task.field()),
        Code::AttemptNotFound => Some(Kind::Attempt.field()),
        Code::SessionNotFound => Some(Kind::Session.field()),
        _ => None,
    }
}
