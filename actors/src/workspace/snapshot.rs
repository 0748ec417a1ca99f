//! What an attempt changed in one repository, read without touching it.
//!
//! git reads the worktree from a scratch repository of ours that borrows the
//! objects of the real one and has a copy of the worktree's index. So nothing is
//! written where the agent works, no lock of its git is in the way, and no
//! configuration that the agent can write (filters, `core.fsmonitor`, external
//! diffs, textconv, includes) makes git run anything.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::process::Command;

use super::changes::{self, Change, Unreadable};
use super::git::{self, GitError, Output};
use super::tree::Tree;

/// The longest list of changes that is held, in bytes: about a million files.
const LISTING_MAX: usize = 256 << 20;

/// What of the repository's configuration decides how files are read.
const HARMLESS_CONFIG: &str =
    r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|excludesfile)$";

/// One repository of an attempt.
#[derive(Clone, Debug)]
pub struct Source {
    /// The registered repository.
    pub repo: PathBuf,
    /// The worktree is `<worktrees>/<folder>/<name>`.
    pub worktrees: PathBuf,
    pub folder: String,
    pub name: String,
    /// The attempt's branch.
    pub branch: String,
    pub target_branch: String,
    /// Takes the scratch repository.
    pub scratch: PathBuf,
}

impl Source {
    /// Where the worktree lies.
    #[must_use]
    pub fn worktree(&self) -> PathBuf {
        self.worktrees.join(&self.folder).join(&self.name)
    }
}

/// Why it can't be told what an attempt changed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the repository {repo} can't be read: {why}", repo = .repo.display(), why = gist(.why))]
    Repository { repo: PathBuf, why: GitError },
    #[error("the worktree {path} can't be read: {why}", path = .path.display())]
    Worktree { path: PathBuf, why: String },
    #[error("the target branch {branch} of {repo} is gone", repo = .repo.display())]
    TargetGone { repo: PathBuf, branch: String },
    #[error("the target branch {branch} of {repo} and the attempt's worktree have no commit in common", repo = .repo.display())]
    NoMergeBase { repo: PathBuf, branch: String },
    #[error("more files changed than can be listed")]
    TooMany,
    #[error("git can't tell what changed: {}", gist(.0))]
    Git(#[from] GitError),
    #[error("git can't be prepared: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl SnapshotError {
    /// Whether another look may find what this one didn't: git failed, for a file
    /// changed while it was read, say.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Git(GitError::Failed(_)))
    }
}

/// What matters of git's complaints: its errors without the warnings, cut.
fn gist(error: &GitError) -> String {
    const LONGEST: usize = 300;
    let said = error.to_string();
    // git maps files into memory, and mmap(2) has this for one that was cut.
    if said.contains("SIGBUS") {
        return "a file was cut short while it was read".to_owned();
    }
    let errors = said.lines().filter(|it| it.starts_with("fatal:") || it.starts_with("error:"));
    let errors = errors.collect::<Vec<_>>().join(" ");
    let told = if errors.is_empty() { said } else { errors };
    told.chars().take(LONGEST).collect()
}

/// One or more files' part of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Whole(String),
    /// Longer than the limit.
    TooLong,
}

/// A worktree and the commit that its changes are told against.
#[derive(Debug)]
pub struct Snapshot {
    tree: Arc<Tree>,
    git_dir: TempDir,
    /// What the repository's worktrees share.
    common: PathBuf,
    /// `-c` and a setting, in turns.
    config: Vec<OsString>,
    head: String,
    base: String,
}

impl Snapshot {
    /// Makes the scratch repository.
    pub async fn take(source: &Source) -> Result<Self, SnapshotError> {
        let repo = &source.repo;
        let common = git::common_dir(repo)
            .await
            .map_err(|why| SnapshotError::Repository { repo: repo.clone(), why })?;
        let (tree, admin) = open_worktree(source, &common).await?;
        let format = async {
            let asked = git::run(&common, &["rev-parse", "--show-object-format"]).await;
            asked.map_err(SnapshotError::Git)
        };
        let config = async { harmless_config(&common).await.map_err(SnapshotError::Git) };
        let ((head, base), format, config) =
            tokio::try_join!(parting(source, &admin), format, config)?;
        let git_dir = {
            let (place, common) = (source.scratch.clone(), common.clone());
            blocking(move || scratch(&place, &common, &admin, &format)).await?
        };
        let snapshot = Self { tree: Arc::new(tree), git_dir, common, config, head, base };
        // Without it, files marked as unchanged would count as such whatever is in
        // them. It fails when any has changed, which is no fault.
        snapshot.git(&["update-index", "-q", "--really-refresh"], usize::MAX).await?;
        snapshot.add_untracked().await?;
        Ok(snapshot)
    }

    /// Makes untracked files known, by name only: their content is read when it is
    /// needed. `git add` would ask the git of each submodule how it stands, and so
    /// run what its configuration says; it is let near nothing but repositories
    /// that are new, and of those it takes the commit.
    async fn add_untracked(&self) -> Result<(), SnapshotError> {
        let list = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listed = self.listing(&list).await?;
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let (nested, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.ends_with(b"/"));
        let mut entries = Vec::new();
        for path in files {
            // Any object will do: an entry without times is never taken for current.
            entries.extend([b"100644 ", self.base.as_bytes(), b"\t", path, b"\0"].concat());
        }
        let file = self.git_dir.path().join("untracked");
        let stdin = blocking(move || {
            fs::write(&file, entries)?;
            File::open(&file)
        });
        let mut command = self.command();
        command.stdin(stdin.await?);
        let added = ["update-index", "--add", "--replace", "-z", "--index-info"];
        let added = git::output(command, &added, usize::MAX).await?;
        if !added.status.success() {
            return Err(added.failure().into());
        }
        if nested.is_empty() {
            return Ok(());
        }
        let add = ["add", "--intent-to-add", "--ignore-errors", "--"].map(OsString::from);
        let nested = nested.into_iter().map(|path| OsString::from_vec(path.to_vec()));
        let added =
            self.git(&add.into_iter().chain(nested).collect::<Vec<_>>(), usize::MAX).await?;
        match added.status.code() {
            // 1: one has no commit yet, so there is nothing of it that git could keep.
            Some(0 | 1) => Ok(()),
            _ => Err(added.failure().into()),
        }
    }

    /// The worktree itself.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The folder that the repository's worktrees share.
    pub(super) fn common(&self) -> &Path {
        &self.common
    }

    /// The commit that is checked out; of a branch without one, that of the attempt's.
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// The commit that changes are told against.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Everything that is not as it was at the merge base, sorted by path.
    pub async fn changes(&self) -> Result<Vec<Change>, SnapshotError> {
        let mut args = diff(&["-z", "--raw", "--numstat", "--find-renames"]);
        args.extend([self.base.clone().into(), "--".into()]);
        Ok(changes::parse(&self.listing(&args).await?)?)
    }

    pub(super) async fn listing<A: AsRef<OsStr>>(
        &self,
        args: &[A],
    ) -> Result<Vec<u8>, SnapshotError> {
        let output = self.git(args, LISTING_MAX).await?;
        if output.is_cut {
            return Err(SnapshotError::TooMany);
        }
        if !output.status.success() {
            return Err(output.failure().into());
        }
        Ok(output.stdout)
    }

    /// The patch of these paths, `limit` bytes at most. With `below`, the paths in
    /// it begin with that folder; git has no such form of a rename, so there it is
    /// a deletion and an addition.
    pub async fn patch(
        &mut self,
        paths: &[Vec<u8>],
        below: Option<&str>,
        limit: usize,
    ) -> Result<Part, SnapshotError> {
        let mut args = diff(&["--patch", "--binary", "--full-index"]);
        let folder = below.map(|folder| format!("{folder}/")).unwrap_or_default();
        args.push(if below.is_none() { "--find-renames" } else { "--no-renames" }.into());
        args.push(format!("--src-prefix=a/{folder}").into());
        args.push(format!("--dst-prefix=b/{folder}").into());
        args.extend([self.base.clone().into(), "--".into()]);
        args.extend(paths.iter().map(|path| OsString::from_vec(path.clone())));
        let Some(bytes) = self.diff_up_to(&args, limit).await? else { return Ok(Part::TooLong) };
        let error = match String::from_utf8(bytes) {
            Ok(text) => return Ok(Part::Whole(text)),
            Err(error) => error,
        };
        tracing::debug!(%error, "a patch that is no UTF-8 is made as a binary one");
        let attributes = self.git_dir.path().join("info/attributes");
        let written = attributes.clone();
        blocking(move || fs::write(written, "* -diff\n")).await?;
        let binary = self.diff_up_to(&args, limit).await;
        blocking(move || fs::remove_file(attributes)).await?;
        Ok(match binary? {
            Some(bytes) => Part::Whole(String::from_utf8(bytes).map_err(|_| Unreadable)?),
            None => Part::TooLong,
        })
    }

    async fn diff_up_to(
        &self,
        args: &[OsString],
        limit: usize,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let output = self.git(args, limit).await?;
        if output.is_cut {
            return Ok(None);
        }
        if !output.status.success() {
            return Err(output.failure().into());
        }
        Ok(Some(output.stdout))
    }

    /// A copy, under this name, of the index that the worktree has now.
    pub(super) async fn copy_index(&self, admin: &Path, name: &str) -> io::Result<PathBuf> {
        let (from, to) = (admin.join("index"), self.git_dir.path().join(name));
        blocking(move || copy_with_time(&from, &to).map(|()| to)).await
    }

    pub(super) async fn git<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        limit: usize,
    ) -> Result<Output, GitError> {
        git::output(self.command(), args, limit).await
    }

    /// git that writes objects, to this folder of them.
    pub(super) fn writing(&self, objects: &Path) -> Command {
        let mut command = self.command();
        command.env("GIT_OBJECT_DIRECTORY", objects);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Provost");
            command.env(format!("GIT_{who}_EMAIL"), "provost@localhost");
        }
        command
    }

    pub(super) fn command(&self) -> Command {
        let mut command = git::command(Path::new("."));
        command
            // The open folder, not its name: that may be a link by now.
            .current_dir(self.tree.path())
            .args(&self.config)
            .env("GIT_DIR", self.git_dir.path())
            .env("GIT_WORK_TREE", ".")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }
}

/// `git diff` that runs nothing, and doesn't look into submodules.
fn diff(options: &[&str]) -> Vec<OsString> {
    let common =
        ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"];
    common.iter().chain(options).map(OsString::from).collect()
}

/// Opens the worktree and finds what git keeps of it in the repository, whose
/// shared folder is `common`.
pub(super) async fn open_worktree(
    source: &Source,
    common: &Path,
) -> Result<(Tree, PathBuf), SnapshotError> {
    let (source, common) = (source.clone(), common.to_owned());
    blocking(move || Ok(open(&source, &common))).await?
}

fn open(source: &Source, common: &Path) -> Result<(Tree, PathBuf), SnapshotError> {
    let failed = |why: String| SnapshotError::Worktree { path: source.worktree(), why };
    let tree = Tree::open(&source.worktrees, &source.folder, &source.name)
        .map_err(|error| failed(error.to_string()))?;
    let link = tree.read_own(".git").map_err(|error| failed(format!(".git: {error}")))?;
    let admin = link.strip_prefix("gitdir: ").map(|path| path.trim_end_matches('\n'));
    let admin = admin.ok_or_else(|| failed("its .git is not a link to a repository".to_owned()))?;
    let admin = source.worktree().join(admin).canonicalize();
    let worktrees = common.join("worktrees").canonicalize();
    match (admin, worktrees) {
        (Ok(admin), Ok(worktrees)) if admin.parent() == Some(&worktrees) => Ok((tree, admin)),
        _ => Err(failed(format!("its .git does not lead to {}", common.display()))),
    }
}

/// The commit that is checked out in a worktree, by what git keeps of it.
pub(super) async fn head(repo: &Path, admin: &Path) -> Result<String, GitError> {
    let admin = admin.to_string_lossy();
    git::run(repo, &["--git-dir", &*admin, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .await
}

/// The commit that is checked out, and the one at which it and the target branch parted.
async fn parting(source: &Source, admin: &Path) -> Result<(String, String), SnapshotError> {
    let (repo, branch) = (source.repo.clone(), source.target_branch.clone());
    let (target, head) = tokio::join!(git::branch_tip(&repo, &branch), head(&repo, admin));
    let Some(target) = target else {
        return Err(SnapshotError::TargetGone { repo, branch });
    };
    let head = match head {
        Ok(head) => Some(head),
        // A branch without a commit is checked out.
        Err(_) => git::branch_tip(&repo, &source.branch).await,
    };
    if let Some(head) = head
        && let Some(base) = git::merge_base(&repo, &head, &target).await?
    {
        return Ok((head, base));
    }
    Err(SnapshotError::NoMergeBase { repo, branch })
}

/// The settings that the reading goes by: of the repository's, which an agent can
/// write, those that run nothing; and the filters that the person or the system
/// has set up (Git LFS, say), without which clean files would look changed.
async fn harmless_config(common: &Path) -> Result<Vec<OsString>, GitError> {
    let filters = async |of| settings(common, &[of, "--get-regexp", r"^filter\."]).await;
    let (own, system, person) = tokio::try_join!(
        settings(common, &["--get-regexp", HARMLESS_CONFIG]),
        filters("--system"),
        filters("--global"),
    )?;
    Ok([own, system, person].concat())
}

/// `-c` and a setting, in turns, for what `git config` gives.
async fn settings(common: &Path, which: &[&str]) -> Result<Vec<OsString>, GitError> {
    let args = [&["config", "-z"], which].concat();
    let output = git::output(git::command(common), &args, 64 * 1024).await?;
    // `key\nvalue\0`; no value at all means true. 1 is "none of them".
    let settings = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let settings = settings.flat_map(|entry| {
        let setting = match entry.iter().position(|byte| *byte == b'\n') {
            Some(at) => [&entry[..at], b"=", &entry[at + 1..]].concat(),
            None => entry.to_vec(),
        };
        [OsString::from("-c"), OsString::from_vec(setting)]
    });
    Ok(settings.collect())
}

/// The scratch repository: no branches, no history, the real one's objects.
fn scratch(place: &Path, common: &Path, admin: &Path, format: &str) -> io::Result<TempDir> {
    fs::create_dir_all(place)?;
    let dir = tempfile::Builder::new().prefix("changes-").tempdir_in(place)?;
    let path = dir.path();
    bare(path, &[&common.join("objects")])?;
    fs::create_dir(path.join("info"))?;
    // Sparse checkout is on for its side effect: a file that is there counts, even
    // when the index says to look past it. safecrlf would warn of every file.
    let config = format!(
        "[core]\nrepositoryformatversion = 1\nsparseCheckout = true\nsafecrlf = false\n[extensions]\nobjectFormat = {format}\n"
    );
    fs::write(path.join("config"), config)?;
    let exclude = common.join("info/exclude");
    if exclude.is_file() {
        fs::copy(exclude, path.join("info/exclude"))?;
    }
    for entry in fs::read_dir(admin)? {
        let entry = entry?;
        let name = entry.file_name();
        // A split index has its greater part in a file of its own.
        if name == "index" || name.as_bytes().starts_with(b"sharedindex.") {
            copy_with_time(&entry.path(), &path.join(name))?;
        }
    }
    Ok(dir)
}

/// What makes a folder a repository, its `config` apart: no branches, no history,
/// no hooks, the objects of others.
pub(super) fn bare(path: &Path, lenders: &[&Path]) -> io::Result<()> {
    fs::create_dir_all(path.join("refs"))?;
    fs::write(path.join("HEAD"), "ref: refs/heads/none\n")?;
    lend_objects(&path.join("objects"), lenders)
}

/// Makes a folder of objects that borrows from others (gitrepository-layout(5)).
pub(super) fn lend_objects(objects: &Path, lenders: &[&Path]) -> io::Result<()> {
    fs::create_dir_all(objects.join("info"))?;
    let lines = lenders.iter().flat_map(|lender| [lender.as_os_str().as_bytes(), b"\n"]);
    fs::write(objects.join("info/alternates"), lines.collect::<Vec<_>>().concat())
}

/// git takes files younger than its index for unknown ("racy git"): a copy has
/// to be as old as what it is a copy of.
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    // The agent can put anything there: what is no file is not waited for.
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let source = File::options().read(true).custom_flags(flags).open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other(format!("{} is not a file", from.display())));
    }
    let mut copy = File::create(to)?;
    io::copy(&mut source.take(found.len()), &mut copy)?;
    copy.set_modified(found.modified()?)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
pub(super) mod tests;
