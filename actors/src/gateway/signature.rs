//! The identity as which Provost commits: that of the person. Reads only.

use std::path::Path;

use crate::journal::AttemptRepo;
use crate::refusal::{Code, Refusal};
use crate::workspace::identity;
use crate::workspace::merge::Signature;

use super::push::unreadable;

/// The person's name and address in a repository, with the present time.
///
/// # Errors
/// `workspace_failed` if git has no `user.name` and `user.email` there.
pub async fn signature(repo: &AttemptRepo) -> Result<Signature, Refusal> {
    let by = identity::of_person(Path::new(&repo.path)).await;
    by.map_err(|error| unreadable(repo, &error))?.ok_or_else(|| {
        let path = &repo.path;
        let message = format!(
            "git does not know who commits: user.name and user.email are not set for {path}"
        );
        Refusal::new(Code::WorkspaceFailed, message).hint(
            "Run `git config --global user.name NAME` and `git config --global user.email \
             ADDRESS`, then call the tool again.",
        )
    })
}
