//! Pushes commits to a remote: to a branch, or to references of Provost's own ([`kept`]). git runs in a
//! scratch repository that borrows the objects. So the credentials, proxies and the like are those of the
//! person's and the system's configuration, and neither a hook nor a setting of the repository has any
//! effect.

pub mod kept;
mod lfs;

use std::collections::BTreeMap;
use std::path::Path;

use super::git::{self, Git, GitError};
use super::scratch_repo::ScratchRepo;
use crate::text::cut;

/// Most bytes of the settings of remotes, and of what a push prints.
const SETTINGS_MAX: usize = 256 * 1024;
/// Most characters of what a remote says in an error.
const SAID_MAX: usize = 1000;
/// What git speaks itself. For any other scheme it would start a helper, which is a program.
const SCHEMES: [&str; 5] = ["file", "git", "http", "https", "ssh"];

/// Why a remote has not changed its references.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The remote, or git on its behalf, refused the change: the summary, and what the remote printed.
    #[error("{0}")]
    Rejected(String),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// A branch of a remote.
#[derive(Clone, Copy, Debug)]
pub struct RemoteBranch<'a> {
    pub repo: &'a Path,
    /// The folder for scratch repositories.
    pub scratch: &'a Path,
    /// A URL that [`check_url`] allows.
    pub url: &'a str,
    /// Without `refs/heads/`.
    pub branch: &'a str,
}

impl RemoteBranch<'_> {
    /// The commit that the branch has at the remote; `None`: there is no such branch.
    pub async fn tip(&self) -> Result<Option<String>, GitError> {
        let (_aside, git) = self.git().await?;
        let reference = format!("refs/heads/{}", self.branch);
        let listed = git.text(&["ls-remote", "--refs", "--", self.url, &reference]).await?;
        let mut tips = listed.lines().filter_map(|line| line.split_once('\t'));
        Ok(tips.find(|(_, name)| *name == reference).map(|(tip, _)| tip.to_owned()))
    }

    /// Sets the branch at the remote to the commit. Without a lease, the remote takes only a
    /// fast-forward. With one, it overwrites whatever it has if it is exactly at the lease; `""` means
    /// "no such branch".
    ///
    /// # Errors
    /// The remote refuses. A file in Git LFS is among what would be pushed: its content is not sent from
    /// here.
    pub async fn push(&self, commit: &str, lease: Option<&str>) -> Result<(), PushError> {
        let (aside, git) = self.git().await?;
        if let Some(path) = lfs::pointer(self.repo, &aside, commit).await? {
            // Only git-lfs can send the content of the files, and the repository's configuration could say
            // where to.
            return Err(PushError::Git(GitError::Failed(format!(
                "{path} is in Git LFS, whose files are not sent from here; push commit {commit} \
                 to its branch {} in a terminal",
                self.branch
            ))));
        }
        let reference = format!("refs/heads/{}", self.branch);
        let lease = lease.map(|old| format!("--force-with-lease={reference}:{old}"));
        send(git, lease.as_deref(), self.url, &[format!("{commit}:{reference}")]).await
    }

    /// Whether the branch at the remote has the commit: it is at it, or at a later one.
    pub async fn has(&self, commit: &str) -> Result<bool, GitError> {
        let (aside, git) = self.git().await?;
        let refspec = format!("+refs/heads/{}:refs/there", self.branch);
        let quietly = ["fetch", "--quiet", "--no-tags", "--recurse-submodules=no"];
        git.text(&[&quietly[..], &["--", self.url, &refspec]].concat()).await?;
        let is_there = ["merge-base", "--is-ancestor", commit, "refs/there"];
        let output = aside.git(aside.path()).output(&is_there, 1024).await?;
        Ok(output.status.success())
    }

    /// git that speaks with this remote.
    async fn git(&self) -> Result<(ScratchRepo, Git), GitError> {
        away(self.repo, self.scratch).await
    }
}

/// git that speaks with a remote, in a scratch repository. The scratch repository goes when it is
/// dropped.
async fn away(repo: &Path, scratch: &Path) -> Result<(ScratchRepo, Git), GitError> {
    let common = git::common_dir(repo).await?;
    let aside = ScratchRepo::make(scratch, &common).await?;
    let mut git = aside.git(repo).patient();
    // A program that would ask for a password fails at once: the daemon has no terminal and no person at it.
    git.command.env("SSH_ASKPASS", "false").env("SSH_ASKPASS_REQUIRE", "force");
    Ok((aside, git))
}

/// Pushes these refspecs. `lease` is the whole option.
async fn send(
    git: Git,
    lease: Option<&str>,
    url: &str,
    refspecs: &[String],
) -> Result<(), PushError> {
    let mut args = vec!["push", "--porcelain", "--no-verify", "--recurse-submodules=no"];
    args.extend(lease);
    args.extend(["--", url]);
    args.extend(refspecs.iter().map(String::as_str));
    let output = git.output(&args, SETTINGS_MAX).await?;
    if output.status.success() {
        return Ok(());
    }
    // With `--porcelain`, a refused reference is a line: `!`, the references, a summary (git-push(1)).
    let said = String::from_utf8_lossy(&output.stdout);
    let refused = said.lines().find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1));
    match refused {
        Some(summary) => {
            let from_there = output.stderr.lines().filter_map(|it| it.strip_prefix("remote:"));
            let from_there: Vec<&str> = from_there.map(str::trim).collect();
            let message = format!("{summary} {}", from_there.join(" "));
            Err(PushError::Rejected(cut(message.trim().to_owned(), SAID_MAX)))
        }
        None => Err(output.failure().into()),
    }
}

/// The URLs to which a repository's own configuration pushes, by the names of its remotes.
pub async fn remotes(repo: &Path) -> Result<BTreeMap<String, String>, GitError> {
    let list = ["config", "--local", "-z", "--get-regexp", r"^remote\..*\.(url|pushurl)$"];
    let output = Git::new(repo).output(&list, SETTINGS_MAX).await?;
    match output.status.code() {
        Some(0) => Ok(named(&String::from_utf8_lossy(&output.stdout))),
        // git-config(1): 1 means that no setting matches.
        Some(1) => Ok(BTreeMap::new()),
        _ => Err(output.failure()),
    }
}

/// Reads `remote.NAME.url\nURL\0…`. The last setting counts, and a `pushurl` counts before any `url`.
fn named(listed: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for kind in [".url", ".pushurl"] {
        for entry in listed.split('\0') {
            let Some((key, url)) = entry.split_once('\n') else { continue };
            let name = key.strip_prefix("remote.").and_then(|key| key.strip_suffix(kind));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                found.insert(name.to_owned(), url.to_owned());
            }
        }
    }
    found
}

/// Checks that git may be given a URL: that it starts no program, and is no option.
///
/// # Errors
/// Part of a sentence.
pub fn check_url(url: &str) -> Result<(), String> {
    let helper = url.split_once("::").map(|(helper, _)| helper);
    let is_word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    };
    if let Some(helper) = helper.filter(|helper| is_word(helper)) {
        return Err(format!("it names the transport helper `{helper}`, which is a program"));
    }
    if url.is_empty() || url.starts_with('-') || url.contains(char::is_control) {
        return Err("it is not a URL or a path".to_owned());
    }
    match url.split_once("://") {
        Some((scheme, _)) if !SCHEMES.contains(&scheme) => {
            Err(format!("git does not speak `{}` itself", cut(scheme.to_owned(), 40)))
        }
        _ => Ok(()),
    }
}

/// A URL for messages, without the name and the password that may be in it.
pub fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Whether a branch may have this name (git-check-ref-format(1)). A name with a leading `-` is refused,
/// too: a command could take it for an option.
pub async fn is_branch(repo: &Path, name: &str) -> Result<bool, GitError> {
    let reference = format!("refs/heads/{name}");
    let output = Git::new(repo).output(&["check-ref-format", &reference], 1024).await?;
    Ok(output.status.success() && !name.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_url_of_a_remote_counts_and_one_for_pushes_before_it() {
        let listed = "remote.origin.url\nhttps://a/x\0remote.origin.pushurl\nssh://a/x\0\
                      remote.my.fork.url\n/b\0remote.origin.url\nhttps://c/x\0";
        let found = named(listed);
        assert_eq!(found["origin"], "ssh://a/x");
        assert_eq!((found["my.fork"].as_str(), found.len()), ("/b", 2));
    }

    #[test]
    fn no_url_names_a_program_and_none_is_shown_with_its_password() {
        for good in
            ["https://h/x", "git@h:o/x.git", "/r/x.git", "../x", "ssh://git@h:22/o/x", "file:///r"]
        {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in ["ext::sh -c id", "fd::3", "my-helper::x", "foo://h/x", "-x", "", "a\nb"] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
        assert_eq!(shown("https://ann:pw@h:8/o/x.git"), "https://h:8/o/x.git");
        assert_eq!(shown("git@h:o/x.git"), "git@h:o/x.git");
    }

    #[tokio::test]
    async fn a_push_runs_nothing_of_the_repository_and_a_lease_holds() {
        let dir = tempfile::tempdir().unwrap();
        let (repo, remote) = (dir.path().join("repo"), dir.path().join("remote.git"));
        let ran = dir.path().join("ran");
        std::fs::create_dir(&repo).unwrap();
        let git = async |args: &[&str]| git::run(&repo, args).await.unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]).await;
        git(&["init", "--quiet", "--bare", remote.to_str().unwrap()]).await;
        let by = ["-c", "user.name=Ann", "-c", "user.email=ann@localhost"];
        let commit = async |what: &str| {
            git(&[&by[..], &["commit", "--quiet", "--allow-empty", "-m", what]].concat()).await;
            git(&["rev-parse", "HEAD"]).await
        };
        let first = commit("one").await;
        // An agent would have a program run, or the push go elsewhere.
        let touch = format!("touch {}", ran.display());
        let elsewhere = format!("url.{}.insteadOf", dir.path().join("elsewhere").display());
        for (key, value) in [
            ("core.sshCommand", touch.as_str()),
            ("credential.helper", &format!("!{touch}")),
            ("push.gpgSign", "true"),
            ("gpg.program", &touch),
            (&elsewhere, remote.to_str().unwrap()),
        ] {
            git(&["config", key, value]).await;
        }
        let hook = repo.join(".git/hooks/pre-push");
        std::fs::write(&hook, format!("#!/bin/sh\n{touch}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, executable).unwrap();

        let branch = RemoteBranch {
            repo: &repo,
            scratch: &dir.path().join("scratch"),
            url: remote.to_str().unwrap(),
            branch: "work",
        };
        assert_eq!(branch.tip().await.unwrap(), None);
        branch.push(&first, None).await.unwrap();
        assert_eq!(branch.tip().await.unwrap().as_ref(), Some(&first));
        git(&[&by[..], &["commit", "--quiet", "--amend", "--allow-empty", "-m", "other"]].concat())
            .await;
        let other = git(&["rev-parse", "HEAD"]).await;
        assert!(matches!(branch.push(&other, None).await, Err(PushError::Rejected(_))));
        assert!(matches!(branch.push(&other, Some(&other)).await, Err(PushError::Rejected(_))));
        branch.push(&other, Some(&first)).await.unwrap();
        assert_eq!(branch.tip().await.unwrap().as_ref(), Some(&other));
        // Somebody pushes on top of it.
        let tree = format!("{other}^{{tree}}");
        let on_top = ["commit-tree", &*tree, "-p", &other, "-m", "on top"];
        let on_top = git::run(&remote, &[&by[..], &on_top].concat()).await.unwrap();
        git::run(&remote, &["update-ref", "refs/heads/work", &on_top]).await.unwrap();
        assert!(matches!(branch.push(&other, None).await, Err(PushError::Rejected(_))));
        assert!(branch.has(&other).await.unwrap());
        assert!(!branch.has(&first).await.unwrap(), "the other one took its place");
        assert!(!ran.exists());
        // What only git-lfs can push, whatever file of attributes says so.
        std::fs::create_dir(repo.join("d")).unwrap();
        let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{first}\n");
        std::fs::write(repo.join("d/about.md"), format!("A pointer is:\n{pointer}")).unwrap();
        std::fs::write(repo.join("d/large x.bin"), pointer).unwrap();
        git(&["add", "--all"]).await;
        let with = commit("with a large file").await;
        std::fs::remove_file(repo.join("d/large x.bin")).unwrap();
        git(&["add", "--all"]).await;
        let without = commit("without it").await;
        for commit in [&with, &without] {
            let error = branch.push(commit, None).await.unwrap_err().to_string();
            assert!(
                error.contains("d/large x.bin is in Git LFS") && error.contains(commit),
                "{error}"
            );
        }
        git(&["update-ref", "refs/remotes/origin/x", &with]).await;
        let later = commit("on top").await;
        branch.push(&later, Some(&on_top)).await.unwrap();
        assert!(is_branch(&repo, "a/b").await.unwrap());
        assert!(!is_branch(&repo, "a..b").await.unwrap());
    }
}
