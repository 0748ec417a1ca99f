//! The person's names and addresses, with which git signs what an attempt's work becomes: those that git
//! itself uses for a commit in their repository, wherever they are configured. A name that git would only
//! guess, from the account and the host, does not count.

use std::path::Path;

use super::git::{self, GitError};
use super::merge::{Person, Signature};

/// The author and the committer for commits to a repository, at this moment and in this time zone.
/// `None`: no name or no address is configured.
///
/// # Errors
/// git can't be run.
pub async fn of_person(repo: &Path) -> Result<Option<Signature>, GitError> {
    let Some((author, _)) = identity(repo, "GIT_AUTHOR_IDENT").await? else { return Ok(None) };
    let Some((committer, date)) = identity(repo, "GIT_COMMITTER_IDENT").await? else {
        return Ok(None);
    };
    let Person { name, email } = author.clone();
    let committer = Some(committer).filter(|committer| *committer != author);
    Ok(Some(Signature { name, email, date, committer }))
}

/// What `git var` prints: the person, and the date in git's own form. `None`: it is not configured.
async fn identity(repo: &Path, which: &str) -> Result<Option<(Person, String)>, GitError> {
    let said = match git::run(repo, &["-c", "user.useConfigOnly=true", "var", which]).await {
        Ok(said) => said,
        // With `useConfigOnly`, git fails rather than guess.
        Err(GitError::Failed(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    // `NAME <ADDRESS> DATE`. git takes `<` and `>` out of names and addresses.
    let parts = said.rsplit_once("> ").and_then(|(person, date)| {
        let (name, email) = person.split_once(" <")?;
        Some((Person { name: name.to_owned(), email: email.to_owned() }, date.to_owned()))
    });
    let unknown = || GitError::Failed(format!("git var {which} speaks differently: {said}"));
    parts.map(Some).ok_or_else(unknown)
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
        assert_eq!((&*by.name, &*by.email, &by.committer), ("Ann B", "ann@localhost", &None));
        let (seconds, zone) = by.date.split_once(' ').unwrap();
        assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000);
        assert!(zone.len() == 5 && zone.starts_with(['+', '-']), "{by:?}");
        git::run(repo, &["config", "committer.email", "bot@localhost"]).await.unwrap();
        let by = of_person(repo).await.unwrap().unwrap();
        let committer = Person { name: "Ann B".to_owned(), email: "bot@localhost".to_owned() };
        assert_eq!((&*by.email, by.committer), ("ann@localhost", Some(committer)));
    }
}
