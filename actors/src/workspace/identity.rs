//! The person's name and address, with which git signs what an attempt's work becomes. The
//! person's own configuration counts first: an agent can write the repository's.

use std::path::Path;

use super::git::{self, GitError};
use super::merge::Signature;

/// The identity for commits to a repository, at this moment and in this time zone. `None`: git
/// has none.
///
/// # Errors
/// git can't be run.
pub async fn of_person(repo: &Path) -> Result<Option<Signature>, GitError> {
    let Some(name) = setting(repo, "user.name").await? else { return Ok(None) };
    let Some(email) = setting(repo, "user.email").await? else { return Ok(None) };
    // git knows the time zone; the identity of this answer is not used.
    let identity = ["-c", "user.name=x", "-c", "user.email=x", "var", "GIT_COMMITTER_IDENT"];
    let said = git::run(repo, &identity).await?;
    let date = said.rsplit_once("> ").map_or(&*said, |(_, date)| date).to_owned();
    Ok(Some(Signature { name, email, date }))
}

async fn setting(repo: &Path, key: &str) -> Result<Option<String>, GitError> {
    for place in [&["config", "--global", "--get", key][..], &["config", "--get", key]] {
        match git::run(repo, place).await {
            Ok(value) if !value.trim().is_empty() => return Ok(Some(value)),
            // It is not set there.
            Ok(_) | Err(GitError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signature_has_a_name_an_address_and_a_moment_of_git() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path();
        git::run(repo, &["init", "--quiet"]).await.unwrap();
        for (key, value) in [("user.name", "Ann B"), ("user.email", "ann@localhost")] {
            git::run(repo, &["config", key, value]).await.unwrap();
        }
        let by = of_person(repo).await.unwrap().unwrap();
        // A person's own configuration may say otherwise.
        assert!(!by.name.is_empty() && by.email.contains('@'), "{by:?}");
        let (seconds, zone) = by.date.split_once(' ').unwrap();
        assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000);
        assert!(zone.len() == 5 && zone.starts_with(['+', '-']), "{by:?}");
    }
}
