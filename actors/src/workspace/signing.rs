//! Signs the commits that Provost makes for a person where their git would: with their settings and their
//! key, if the key can be used without asking them. Else the commit is made without a signature, and the
//! reason is kept for the answer.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;

use super::git::{self, Git, GitError};
use crate::blocking::blocking;
use crate::text::{cut, shell_word};

/// How long a signature may take. A key that waits for a touch of the person is not waited for longer.
const DEADLINE: Duration = Duration::from_secs(20);
/// The settings by which git signs.
const SETTINGS: &str = r"^(gpg\..*|user\.signingkey)$";
/// Bytes of these settings that are read.
const SETTINGS_MAX: usize = 64 * 1024;
/// Characters of the reason that are kept.
const REASON_MAX: usize = 200;

/// How a person's commits to a repository are signed. The default: not at all.
#[derive(Debug, Default)]
pub struct Signing {
    /// `None`: they are not signed.
    with: Option<With>,
    /// Why a signature failed. No other one is tried then: each try could take the whole deadline.
    failed: OnceLock<String>,
}

/// What git needs to sign.
#[derive(Debug)]
struct With {
    /// `-c` and a setting, alternating.
    settings: Vec<OsString>,
    /// Holds the script that calls the person's program.
    _folder: TempDir,
}

impl Signing {
    /// Finds out whether, and how, the person's git signs in this repository. `scratch` is a folder for
    /// the files of one call.
    ///
    /// # Errors
    /// git can't be run.
    pub async fn of_person(repo: &Path, scratch: &Path) -> Result<Arc<Self>, GitError> {
        let sign = ["config", "--type=bool", "--get", "commit.gpgSign"];
        let is_wanted = match git::run(repo, &sign).await {
            Ok(value) => value == "true",
            Err(GitError::Failed(_)) => false,
            Err(error) => return Err(error),
        };
        if !is_wanted {
            return Ok(Arc::default());
        }
        let list = ["config", "-z", "--get-regexp", SETTINGS];
        let listed = Git::new(repo).output(&list, SETTINGS_MAX).await?.stdout;
        let scratch = scratch.to_owned();
        let with = blocking(move || With::new(&listed, &scratch)).await?;
        Ok(Arc::new(Self { with: Some(with), failed: OnceLock::new() }))
    }

    /// Why a commit was made without the signature that it should have; `None`: all are as they should
    /// be.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Runs `git commit-tree` with these arguments, signed if possible, and returns the commit. `git` is
    /// called for each try.
    ///
    /// # Errors
    /// The commit can't be made without a signature either.
    pub async fn commit_tree(
        &self,
        git: impl Fn() -> Git,
        args: &[&str],
    ) -> Result<String, GitError> {
        if let Some(With { settings, .. }) =
            self.with.as_ref().filter(|_| self.failed.get().is_none())
        {
            let mut signing = git().within(DEADLINE);
            signing.command.args(settings).env("SSH_ASKPASS", "false");
            signing.command.env("SSH_ASKPASS_REQUIRE", "force");
            signing.command.envs(std::env::var_os("GNUPGHOME").map(|home| ("GNUPGHOME", home)));
            match signing.text(&[&["commit-tree", "-S"], args].concat()).await {
                Ok(commit) => return Ok(commit),
                Err(error) => drop(self.failed.set(reason(&error))),
            }
        }
        git().text(&[&["commit-tree"], args].concat()).await
    }
}

impl With {
    /// Reads the person's settings, as `git config -z` lists them, and writes the script. Blocking.
    fn new(listed: &[u8], scratch: &Path) -> io::Result<Self> {
        fs::create_dir_all(scratch)?;
        let folder = tempfile::Builder::new().prefix("signing-").tempdir_in(scratch)?;
        let (mut settings, mut format) = (Vec::new(), &b"openpgp"[..]);
        let (mut openpgp, mut x509) = (&b"gpg"[..], &b"gpgsm"[..]);
        for entry in listed.split(|byte| *byte == 0) {
            let mut parts = entry.splitn(2, |byte| *byte == b'\n');
            let (Some(key), Some(value)) = (parts.next(), parts.next()) else { continue };
            match key {
                b"gpg.format" => format = value,
                b"gpg.program" | b"gpg.openpgp.program" => openpgp = value,
                b"gpg.x509.program" => x509 = value,
                _ => {}
            }
            settings.extend(["-c".into(), OsString::from_vec([key, b"=", value].concat())]);
        }
        let unasking = match format {
            b"openpgp" => Some(("gpg.openpgp.program", openpgp)),
            b"x509" => Some(("gpg.x509.program", x509)),
            _ => None,
        };
        if let Some((key, program)) = unasking {
            let path = folder.path().join("sign");
            fs::write(&path, without_asking(&String::from_utf8_lossy(program)))?;
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            let setting = [key.as_bytes(), b"=", path.as_os_str().as_bytes()].concat();
            settings.extend(["-c".into(), OsString::from_vec(setting)]);
        }
        Ok(Self { settings, _folder: folder })
    }
}

/// A script that runs a signing program so that it fails instead of asking for a passphrase. git has no
/// setting for the program's arguments, but one for the program.
fn without_asking(program: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let program = match program.strip_prefix("~/") {
        Some(below) => format!("{home}/{below}"),
        None => program.to_owned(),
    };
    let program = shell_word(&program);
    format!(
        "#!/bin/sh\nunset GPG_TTY DISPLAY WAYLAND_DISPLAY\n\
         exec {program} --batch --no-tty --pinentry-mode=error \"$@\"\n"
    )
}

/// git's message in one line. Lines in brackets are gpg's status for programs.
fn reason(error: &GitError) -> String {
    let said = error.to_string();
    let lines = said.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('['));
    let line = lines.collect::<Vec<_>>().join("; ");
    let line: String = line.chars().filter(|it| !it.is_control()).collect();
    cut(line, REASON_MAX)
}
