//! What a remote keeps of an attempt for the other hosts of a shared board: the snapshot of a turn, and
//! the commit that was checked out then. Clones don't fetch these references by themselves.

use std::path::Path;

use super::{PushError, away, send};
use crate::ids::AttemptId;

/// A remote, and the attempt of which it keeps something.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    pub repo: &'a Path,
    pub scratch: &'a Path,
    /// A URL that [`check_url`](super::check_url) allows.
    pub url: &'a str,
    pub attempt: AttemptId,
}

/// The reference of a turn's snapshot at a remote.
pub fn reference(attempt: AttemptId, turn: u32) -> String {
    format!("{}{turn}/snapshot", below(attempt))
}

/// The prefix of all references of an attempt at a remote.
fn below(attempt: AttemptId) -> String {
    format!("refs/provost/{attempt}/")
}

impl Kept<'_> {
    /// Makes the remote keep the snapshot of a turn. Idempotent. The content of files in Git LFS does not
    /// go with it; a bundle does not have it either.
    pub async fn put(&self, turn: u32, commit: &str) -> Result<(), PushError> {
        let (_aside, git) = away(self.repo, self.scratch).await?;
        let head = format!("+{commit}^:{}{turn}/head", below(self.attempt));
        let snapshot = format!("+{commit}:{}", reference(self.attempt, turn));
        send(git, None, self.url, &[head, snapshot]).await
    }

    /// Makes the remote remove what it keeps of the turns before this one; `None`: of all turns.
    /// Idempotent.
    pub async fn remove(&self, before: Option<u32>) -> Result<(), PushError> {
        let below = below(self.attempt);
        let (_aside, git) = away(self.repo, self.scratch).await?;
        let all = format!("{below}*");
        let listed = git.text(&["ls-remote", "--refs", "--", self.url, &all]).await?;
        let names = listed.lines().filter_map(|line| Some(line.split_once('\t')?.1));
        let is_removed = |name: &&str| {
            let turn = name.strip_prefix(&below).and_then(|rest| rest.split('/').next());
            let turn: Option<u32> = turn.and_then(|turn| turn.parse().ok());
            turn.is_some_and(|turn| before.is_none_or(|before| turn < before))
        };
        let removed: Vec<String> =
            names.filter(is_removed).map(|name| format!(":{name}")).collect();
        if removed.is_empty() {
            return Ok(());
        }
        let (_aside, git) = away(self.repo, self.scratch).await?;
        send(git, None, self.url, &removed).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::git;

    #[tokio::test]
    async fn a_remote_keeps_one_turn_of_an_attempt_and_nothing_of_the_repository_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (repo, remote) = (dir.path().join("repo"), dir.path().join("remote.git"));
        std::fs::create_dir(&repo).unwrap();
        let git = async |args: &[&str]| git::run(&repo, args).await.unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]).await;
        git(&["init", "--quiet", "--bare", remote.to_str().unwrap()]).await;
        let by = ["-c", "user.name=Ann", "-c", "user.email=ann@localhost"];
        for what in ["base", "turn"] {
            git(&[&by[..], &["commit", "--quiet", "--allow-empty", "-m", what]].concat()).await;
        }
        let commit = git(&["rev-parse", "HEAD"]).await;
        let head = git(&["rev-parse", "HEAD^"]).await;
        let ran = dir.path().join("ran");
        let hook = repo.join(".git/hooks/pre-push");
        std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, executable).unwrap();
        let elsewhere = format!("url.{}.insteadOf", dir.path().join("elsewhere").display());
        git(&["config", &elsewhere, remote.to_str().unwrap()]).await;

        let scratch = dir.path().join("scratch");
        let [one, other] = [AttemptId::new(), AttemptId::new()].map(|attempt| Kept {
            repo: &repo,
            scratch: &scratch,
            url: remote.to_str().unwrap(),
            attempt,
        });
        for kept in [&one, &other] {
            kept.put(9, &commit).await.unwrap();
            kept.put(10, &commit).await.unwrap();
            kept.put(10, &commit).await.unwrap();
        }
        let all = async || {
            let list = ["for-each-ref", "--format=%(objectname) %(refname)"];
            git::run(&remote, &list).await.unwrap()
        };
        one.remove(Some(10)).await.unwrap();
        other.remove(None).await.unwrap();
        let kept = format!(
            "{head} refs/provost/{id}/10/head\n{commit} {}",
            reference(one.attempt, 10),
            id = one.attempt
        );
        assert_eq!(all().await, kept);
        other.remove(None).await.unwrap();
        assert_eq!(all().await, kept);
        std::fs::rename(&remote, dir.path().join("away")).unwrap();
        let error = one.put(11, &commit).await.unwrap_err();
        assert!(matches!(error, PushError::Git(_)), "{error}");
        assert!(!ran.exists());
    }
}
