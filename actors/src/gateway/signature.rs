//! The person as whom Provost commits. Reads only.

use std::path::Path;

use crate::journal::Attempt;
use crate::refusal::{Code, Refusal};
use crate::workspace::identity;
use crate::workspace::merge::Signature;

use super::push::unreadable;

/// The identity of the person in the attempt's first repository, at this moment.
pub async fn signature(attempt: &Attempt) -> Result<Signature, Refusal> {
    let Some(repo) = attempt.repos.first() else {
        return Err(Refusal::internal("the attempt has no repository"));
    };
    let by = identity::of_person(Path::new(&repo.path)).await;
    by.map_err(|error| unreadable(repo, &error))?.ok_or_else(|| {
        let message = "git does not know who commits: user.name and user.email are not set";
        Refusal::new(Code::WorkspaceFailed, message).hint(
            "Run `git config --global user.name NAME` and `git config --global user.email \
             ADDRESS`, then call the tool again.",
        )
    })
}
