//! Scratch git repositories.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::program;

/// A repository with one commit on `main`.
pub struct Repo {
    pub path: PathBuf,
    home: PathBuf,
}

impl Repo {
    /// Without a commit. `home` holds the `.gitconfig`.
    pub fn empty(path: PathBuf, home: &Path) -> Self {
        fs::create_dir_all(&path).unwrap();
        let repo = Self { path, home: home.to_owned() };
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo
    }

    pub fn new(path: PathBuf, home: &Path) -> Self {
        let repo = Self::empty(path, home);
        repo.commit("README.md", "a scratch repository\n");
        repo
    }

    /// Commits one file; returns the commit.
    pub fn commit(&self, file: &str, text: &str) -> String {
        fs::write(self.path.join(file), text).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", file]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The branches that attempts made.
    pub fn attempt_branches(&self) -> Vec<String> {
        let all = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/provost/"]);
        all.lines().map(str::to_owned).collect()
    }

    /// The checkouts that git knows of, and the references of the attempts that borrow from it.
    pub fn worktrees(&self) -> Vec<PathBuf> {
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        let listed = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        let own = self.git(&["for-each-ref", "--format=%(refname)", "refs/provost/own/*/base"]);
        listed.chain(own.lines()).map(Into::into).collect()
    }

    /// What git says, without the last line feed.
    pub fn git(&self, args: &[&str]) -> String {
        self.git_with_input(args, "")
    }

    /// The same, with something on its standard input.
    pub fn git_with_input(&self, args: &[&str], input: &str) -> String {
        let mut git = program("git")
            .args(args)
            .current_dir(&self.path)
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that does not read has ended already; what it says tells why.
        let _ = git.stdin.take().unwrap().write_all(input.as_bytes());
        let output = git.wait_with_output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}
