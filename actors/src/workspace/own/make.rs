//! Makes an attempt's own repository, and the links between it and the worktree. Nothing of the person's
//! repository is locked, so attempts begin side by side.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

use super::{Own, base_reference, branch_reference, head_reference, refresh};
use crate::blocking::blocking;
use crate::ids::AttemptId;
use crate::workspace::git::GitError;
use crate::workspace::regular;
use crate::workspace::scratch_repo;
use crate::workspace::settings::{Scope, Setting, Settings};

/// The content of `commondir`: from git's folder of the worktree to the shared one.
pub const COMMON: &str = "../..\n";
/// The HEAD of the shared folder. git takes the folder for a checkout too, and lets no other one have its
/// branch: so it is a branch that never exists.
const NO_BRANCH: &str = "ref: refs/heads/.none\n";
/// Bytes of a list, such as `info/exclude`, that is copied.
const LIST_MAX: u64 = 16 << 20;
/// Sections of the person's configuration that say how git works and run no program.
const SECTIONS: [&str; 13] = [
    "user.",
    "author.",
    "committer.",
    "branch.",
    "pull.",
    "push.",
    "merge.",
    "rebase.",
    "commit.",
    "i18n.",
    "diff.",
    "submodule.",
    "lfs.",
];
/// Last parts of settings in these sections that name a program, or a person's key all the same.
const PROGRAMS: [&str; 9] = [
    "command",
    "textconv",
    "driver",
    "external",
    "tool",
    "guitool",
    "update",
    "gpgsign",
    "signingkey",
];
/// Settings of `core` that count besides those for the content of files. The agent's own commits run the
/// person's hooks, as commits by hand do.
const OF_CORE: [&str; 3] = ["core.hookspath", "core.sshcommand", "core.sparsecheckoutcone"];

/// The settings that say who commits.
const IDENTITY: [&str; 6] =
    ["user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email"];

/// What an attempt's own repository begins with.
pub struct Beginning<'a> {
    pub own: &'a Own,
    pub worktree: &'a Path,
    pub branch: &'a str,
    /// The commit at which its branch begins.
    pub commit: &'a str,
}

/// Makes the own repository for the person's repository at `repo`, whose shared folder is `common`.
/// Neither the own repository nor the worktree may exist. The worktree gets its `.git` and no files yet.
pub async fn make(
    repo: &Path,
    common: &Path,
    settings: &Settings,
    new: &Beginning<'_>,
) -> Result<(), GitError> {
    let (own, lender) = (new.own.clone(), common.to_owned());
    let files = Files {
        config: config(settings, common),
        format: settings.object_format(),
        head: format!("ref: refs/heads/{}\n", new.branch),
        branch: new.branch.to_owned(),
        commit: format!("{}\n", new.commit),
        worktree: new.worktree.to_owned(),
        is_sparse: settings.is_true("core.sparsecheckout"),
    };
    blocking(move || files.write(&own, &lender)).await?;
    refresh(repo, new.own, new.branch).await
}

/// The references of the person's repository that keep what the attempt borrows, whatever becomes of the
/// branch: as commands of git-update-ref(1).
pub fn kept(attempt: AttemptId, commit: &str, base: &str) -> String {
    let [of_base, head, branch] =
        [base_reference, head_reference, branch_reference].map(|name| name(attempt));
    format!("update {of_base} {base}\nupdate {head} {commit}\nupdate {branch} {commit}\n")
}

/// The contents of the files that are written.
struct Files {
    config: String,
    format: String,
    head: String,
    branch: String,
    commit: String,
    worktree: std::path::PathBuf,
    is_sparse: bool,
}

impl Files {
    /// Writes the files and links. Blocking.
    fn write(&self, own: &Own, lender: &Path) -> io::Result<()> {
        let (admin, common) = (own.admin(), own.common());
        let folder = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        let kept = own.root().join("kept");
        let logs = [common.join("logs/refs"), admin.join("logs")];
        let more = [common.join("info"), admin.join("info"), kept];
        for path in own.written().iter().chain(&logs).chain(&more) {
            folder(path)?;
        }
        scratch_repo::lend_objects(&own.objects(), &[&lender.join("objects")])?;
        fs::write(common.join("settings/config"), &self.config)?;
        fs::write(own.made_config(), &self.config)?;
        symlink("settings/config", common.join("config"))?;
        fs::write(common.join("HEAD"), NO_BRANCH)?;
        symlink("packed/packed-refs", common.join("packed-refs"))?;
        for list in ["info/exclude", "info/attributes", "shallow"] {
            regular::copy_small(&lender.join(list), &common.join(list), LIST_MAX)?;
        }
        let reference = common.join("refs/heads").join(&self.branch);
        folder(reference.parent().unwrap_or(&reference))?;
        folder(&common.join("refs/tags"))?;
        fs::write(reference, &self.commit)?;
        fs::write(admin.join("HEAD"), &self.head)?;
        fs::write(admin.join("commondir"), COMMON)?;
        self.make_view(own)?;
        if self.is_sparse {
            let patterns = "info/sparse-checkout";
            regular::copy_small(&lender.join(patterns), &admin.join(patterns), LIST_MAX)?;
        }
        link(own, &self.worktree)
    }
}

impl Files {
    /// Makes the view: links to what the agent's git has, beside a configuration of Provost's. Blocking.
    fn make_view(&self, own: &Own) -> io::Result<()> {
        let (view, common) = (own.view(), own.common());
        fs::create_dir_all(view.join("logs"))?;
        let config = format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tlogAllRefUpdates = true\n\
             [extensions]\n\tobjectFormat = {}\n",
            self.format
        );
        fs::write(view.join("config"), config)?;
        fs::write(view.join("HEAD"), NO_BRANCH)?;
        for (name, to) in [
            ("objects", common.join("objects")),
            ("refs", common.join("refs")),
            ("packed-refs", common.join("packed/packed-refs")),
            ("shallow", common.join("shallow")),
            ("logs/refs", common.join("logs/refs")),
        ] {
            symlink(to, view.join(name))?;
        }
        Ok(())
    }
}

/// Makes an empty worktree whose `.git` leads to the attempt's own repository, and the way back.
/// Blocking.
pub fn link(own: &Own, worktree: &Path) -> io::Result<()> {
    fs::create_dir_all(worktree)?;
    fs::write(worktree.join(".git"), leading(own))?;
    let there = worktree.join(".git");
    fs::write(own.admin().join("gitdir"), format!("{}\n", there.display()))
}

/// The content of the worktree's `.git`: the path of git's folder for it.
pub fn leading(own: &Own) -> String {
    format!("gitdir: {}\n", own.admin().display())
}

/// The attempt's configuration: what the person's git would use in the repository, as far as git does not
/// find it by itself. Settings that name programs are left out, except the person's hooks and
/// `core.sshCommand`.
fn config(settings: &Settings, common: &Path) -> String {
    let format = settings.object_format();
    let partial = settings.get("extensions.partialclone");
    let is_plain = format == "sha1" && partial.is_none();
    let mut text = format!(
        "[core]\n\trepositoryformatversion = {}\n\tbare = false\n\tlogAllRefUpdates = true\n",
        u8::from(!is_plain)
    );
    if !is_plain {
        // Writing to a string can't fail.
        let _ = writeln!(text, "[extensions]\n\tobjectFormat = {format}");
        if let Some(remote) = partial {
            let _ = writeln!(text, "\tpartialClone = {}", value(&remote));
        }
    }
    if settings.get("core.hookspath").is_none() {
        let hooks = common.join("hooks");
        let _ = writeln!(text, "[core]\n\thooksPath = {}", value(&hooks.to_string_lossy()));
    }
    for setting in settings.iter().filter(|it| counts(it, settings)) {
        write(&mut text, setting);
    }
    // A gc would try to tidy up what others use and fail, and the agent would take that failure for its
    // own.
    text.push_str("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    // The folder `rr-cache` always exists here, and git takes that for "enabled" (git-config(1)).
    let _ = writeln!(text, "[rerere]\n\tenabled = {}", settings.is_true("rerere.enabled"));
    text
}

/// Whether a setting is repeated in the attempt's configuration.
fn counts(setting: &Setting, settings: &Settings) -> bool {
    let key = &*setting.key;
    let last = key.rsplit('.').next().unwrap_or_default();
    match setting.scope {
        // Some agents run their commands without the person's configuration, and could not commit.
        Scope::Person if IDENTITY.contains(&key) => true,
        // git finds the person's settings by itself, except in files that are included under a condition:
        // the condition may name the folder of the person's repository.
        Scope::Person if !settings.is_included(setting) => false,
        Scope::Person if setting.is_of_content() => true,
        Scope::Person | Scope::Repository => {
            let is_of_remote = key.starts_with("remote.")
                && ["url", "fetch", "pushurl", "tagopt", "prune", "promisor", "partialclonefilter"]
                    .contains(&last);
            setting.is_of_content()
                || is_of_remote
                || OF_CORE.contains(&key)
                || key == "core.sparsecheckout"
                || SECTIONS.iter().any(|section| key.starts_with(section))
                    && !PROGRAMS.contains(&last)
        }
    }
}

/// Adds a setting, in a section of its own (git-config(1), "Syntax"). A key that can't be written is left
/// out.
fn write(text: &mut String, setting: &Setting) {
    let Some((section, name)) = setting.key.rsplit_once('.') else { return };
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let head = match section.split_once('.') {
        Some((section, sub)) if is_name(section) && !sub.contains(['\n', '\0']) => {
            format!("[{section} {}]", quoted(sub))
        }
        None if is_name(section) => format!("[{section}]"),
        _ => return,
    };
    let line = match &setting.value {
        Some(_) => format!("\t{name} = {}", value(&setting.text())),
        None => format!("\t{name}"),
    };
    let _ = writeln!(text, "{head}\n{line}");
}

/// A text in double quotes, as git's configuration has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A value: quoted, on one line.
fn value(text: &str) -> String {
    quoted(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::git;

    #[tokio::test]
    async fn the_configuration_says_what_the_persons_says_and_names_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path();
        git::run(repo, &["init", "--quiet"]).await.unwrap();
        for (key, value) in [
            ("user.name", "Ann \"B\" \\ C"),
            ("core.autocrlf", "input"),
            ("core.fsmonitor", "touch ran"),
            ("alias.x", "!touch ran"),
            ("filter.x.clean", "touch ran"),
            ("diff.x.textconv", "touch ran"),
            ("diff.algorithm", "histogram"),
            ("branch.a.b\"c.merge", "refs/heads/a"),
            ("http.https://h/.extraheader", "secret"),
        ] {
            git::run(repo, &["config", key, value]).await.unwrap();
        }
        let settings = Settings::of(&repo.join(".git")).await.unwrap();
        let made = repo.join("made");
        fs::write(&made, config(&settings, &repo.join(".git"))).unwrap();
        let get = async |key: &str| {
            git::run(repo, &["config", "--file", made.to_str().unwrap(), key]).await.ok()
        };
        assert_eq!(get("user.name").await.as_deref(), Some("Ann \"B\" \\ C"));
        assert_eq!(get("core.autocrlf").await.as_deref(), Some("input"));
        assert_eq!(get("diff.algorithm").await.as_deref(), Some("histogram"));
        assert_eq!(get("branch.a.b\"c.merge").await.as_deref(), Some("refs/heads/a"));
        assert_eq!(get("gc.auto").await.as_deref(), Some("0"));
        for gone in ["core.fsmonitor", "alias.x", "filter.x.clean", "diff.x.textconv"] {
            assert_eq!(get(gone).await, None, "{gone}");
        }
        assert!(!fs::read_to_string(&made).unwrap().contains("secret"));
    }
}
