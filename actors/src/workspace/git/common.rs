//! Finds the shared folder of a plain repository without a run of git, which takes longer than all that
//! is read here. Whatever is not plainly one is left to git.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::regular;

/// The `.git` of the main worktree `repo`, without links; `None`: git has to be asked. Blocking.
///
/// These are the tests by which git takes a folder for a repository (gitrepository-layout(5)). Where one
/// fails, git looks in the folders above.
pub fn of_plain(repo: &Path) -> Option<PathBuf> {
    let dir = repo.join(".git");
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_plain = is_folder(&dir)
        && ["objects", "refs"].iter().all(|name| is_folder(&dir.join(name)))
        // In a linked worktree's folder, `commondir` leads to the shared one.
        && fs::symlink_metadata(dir.join("commondir")).is_err()
        && regular::text(&dir.join("HEAD")).is_ok_and(|head| is_head(&head));
    is_plain.then(|| dir.canonicalize().ok()).flatten()
}

/// Whether this can be the content of a HEAD: a branch, or the id of a commit.
fn is_head(text: &str) -> bool {
    let is_id =
        |id: &str| matches!(id.len(), 40 | 64) && id.bytes().all(|it| it.is_ascii_hexdigit());
    text.starts_with("ref: refs/") || is_id(text.trim_end())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::run;
    use super::*;

    #[tokio::test]
    async fn a_plain_repository_is_found_where_git_finds_it_and_nothing_else_is() {
        let scratch = tempfile::tempdir().unwrap();
        let outer = scratch.path().join("outer");
        let repo = outer.join("inner");
        fs::create_dir_all(&repo).unwrap();
        for repo in [&outer, &repo] {
            run(repo, &["init", "--quiet"]).await.unwrap();
        }
        let link = scratch.path().join("link");
        symlink(&repo, &link).unwrap();
        let by_git = async |repo: &Path| {
            let question = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
            PathBuf::from(run(repo, &question).await.unwrap())
        };
        for repo in [&repo, &link] {
            assert_eq!(of_plain(repo), Some(by_git(repo).await));
        }
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let commit = [&who[..], &["commit", "--quiet", "--allow-empty", "-m", "first"]].concat();
        run(&repo, &commit).await.unwrap();
        run(&repo, &["checkout", "--quiet", "--detach"]).await.unwrap();
        assert_eq!(of_plain(&repo), Some(by_git(&repo).await));
        run(&repo, &["worktree", "add", "--quiet", "../tree"]).await.unwrap();
        assert_eq!(of_plain(&outer.join("tree")), None, "a worktree");
        assert_eq!(of_plain(&repo.join(".git")), None, "git's own folder");
        // git takes the outer one then.
        fs::write(repo.join(".git/HEAD"), "nothing\n").unwrap();
        assert_eq!(of_plain(&repo), None);
        assert_eq!(by_git(&repo).await, outer.canonicalize().unwrap().join(".git"));
    }
}
