//! A scratch repository beside a real one: it borrows the objects and has no branches, no history and no
//! hooks. Of the real one's configuration it takes only settings by which git runs nothing. Filters come
//! from the person's and the system's configuration alone ([`Settings`]). It goes when it is dropped.
//!
//! Provost reads and writes the files of worktrees and checkouts in such a repository, so that nothing
//! runs that an agent or the repository configures.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::git::{self, Git, GitError};
use super::settings::Settings;
use super::{quote, regular};
use crate::blocking::{blocking, if_there};
use crate::sandbox::{Access, Rule, Sandbox};

/// git's list of the files that a sparse checkout has.
const PATTERNS: &str = "info/sparse-checkout";
/// The settings of a sparse checkout.
const SPARSE: &str = r"^core\.sparsecheckout(cone)?$";
/// git treats larger files as binary, and never holds them in memory. The same limit as for files that
/// are read.
const BIG: &str = "core.bigFileThreshold=16m";
/// Bytes of a list, such as `info/exclude`, that is copied.
const LIST_MAX: u64 = 16 << 20;
/// Folders that git and this module make in it. Another folder was made by a filter.
const OWN: [&str; 5] = ["files", "info", "lfs", "objects", "refs"];
/// Bytes of the list of the commits at which a shallow clone's history ends.
const SHALLOW_MAX: u64 = 64 << 20;

/// A scratch repository in a temporary folder.
pub struct ScratchRepo {
    dir: TempDir,
    /// The folder that the real repository's worktrees share.
    pub common: PathBuf,
    /// The person's settings for the real repository.
    pub settings: Settings,
    /// `-c` and a setting, alternating, for every git here.
    config: Vec<OsString>,
    /// The box in which git runs; `None`: none.
    held: Option<Sandbox>,
}

impl ScratchRepo {
    /// Makes one in the folder `place`, for the repository with the shared folder `common`. It reads
    /// content; to write the files of a worktree, see [`Self::for_files`].
    pub async fn make(place: &Path, common: &Path) -> Result<Self, GitError> {
        let settings = Settings::of(common).await?;
        let mut config = settings.of_content();
        config.extend(["-c".into(), BIG.into()]);
        let format = settings.object_format();
        let (place, common) = (place.to_owned(), common.to_owned());
        let made = move || {
            let dir = scratch(&place, &common, &format)?;
            Ok(Self { dir, common, settings, config, held: None })
        };
        blocking(made).await
    }

    /// Makes git run in a box. The box is widened by this repository, to be written, and the person's
    /// files of settings, to be read.
    pub fn held(mut self, sandbox: Option<Sandbox>) -> Self {
        self.held = sandbox.map(|mut sandbox| {
            let path = self.path().to_owned();
            sandbox.rules.push(Rule { path, access: Access::Write });
            let files = self.settings.files().into_iter();
            sandbox.rules.extend(files.map(|path| Rule { path, access: Access::Read }));
            sandbox
        });
        self
    }

    /// Whether a setting begins with this, as `filter.lfs.`.
    fn has_filter(&self, prefix: &[u8]) -> bool {
        self.config.iter().any(|it| it.as_bytes().starts_with(prefix))
    }

    /// Makes Git LFS store the content that it takes out of files in the real repository, where the
    /// person's Git LFS looks for it. Call it before files become objects.
    pub async fn keep_lfs(&self) -> Result<(), GitError> {
        let (path, common) = (self.path().to_owned(), self.common.clone());
        if !self.has_filter(b"filter.lfs.") || path.join("lfs").is_symlink() {
            return Ok(());
        }
        blocking(move || {
            let lfs = common.join("lfs");
            // A comparison may have stored content here already, which is not needed.
            if_there(fs::remove_dir_all(path.join("lfs")))?;
            // Fails where it exists, which is checked below: a link or a file is no place to keep content.
            let _ = fs::create_dir(&lfs);
            link_lfs(&path, &common)?;
            let is_linked = path.join("lfs").is_symlink();
            let no_folder = || io::Error::other(format!("{} is no folder", lfs.display()));
            if is_linked { Ok(()) } else { Err(no_folder().into()) }
        })
        .await
    }

    /// Fails if another filter than Git LFS has stored content beside the objects: it would be lost with
    /// this repository. Call it once files became objects.
    pub async fn refuse_storing_filters(&self) -> Result<(), GitError> {
        let path = self.path().to_owned();
        if !self.has_filter(b"filter.") {
            return Ok(());
        }
        blocking(move || {
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let name = entry.file_name();
                if entry.file_type()?.is_dir() && !OWN.iter().any(|own| name == *own) {
                    let folder = name.display();
                    return Err(GitError::Failed(format!(
                        "a filter of your configuration keeps the content of files in the \
                         repository's folder {folder}, which is done here for Git LFS alone: \
                         commit by git in a terminal"
                    )));
                }
            }
            Ok(())
        })
        .await
    }

    /// One that writes the files of a worktree, with the person's filters, and fetches what a partial
    /// clone lacks. Needs nothing of the worktree.
    pub async fn for_files(common: &Path, place: &Path) -> Result<Self, GitError> {
        let mut aside = Self::make(place, common).await?;
        aside.config.extend(aside.settings.of_remotes());
        let own = ["core.sparseCheckout=false", "submodule.recurse=false", "core.splitIndex=false"];
        aside.config.extend(own.iter().flat_map(|it| ["-c".into(), it.into()]));
        Ok(aside)
    }

    /// Sets it up as this checkout of the person's is: if that one is sparse, only its files are written.
    /// `admin` is the folder that git keeps for the checkout.
    pub async fn of(self, checkout: &Path, admin: &Path) -> Result<Self, GitError> {
        let set = if tokio::fs::symlink_metadata(admin.join(PATTERNS)).await.is_ok() {
            settings(checkout, &["--get-regexp", SPARSE]).await?
        } else {
            Vec::new()
        };
        self.sparse(admin, set).await
    }

    /// The same for an attempt's worktree, whose settings are those of the main checkout.
    pub async fn of_own(self, admin: &Path) -> Result<Self, GitError> {
        let set = self.settings.iter().filter(|it| it.key.starts_with("core.sparsecheckout"));
        let set = set.flat_map(|it| ["-c".into(), format!("{}={}", it.key, it.text()).into()]);
        let set = set.collect();
        self.sparse(admin, set).await
    }

    /// Takes over the patterns of a sparse checkout, with these settings for them.
    async fn sparse(mut self, admin: &Path, set: Vec<OsString>) -> Result<Self, GitError> {
        let (from, to) = (admin.join(PATTERNS), self.path().join(PATTERNS));
        // Without patterns, git writes all files, whatever the settings say.
        if tokio::fs::symlink_metadata(&from).await.is_ok() {
            self.config.extend(set);
            blocking(move || regular::copy_small(&from, &to, LIST_MAX)).await?;
        }
        Ok(self)
    }

    /// Its folder, which is also a place for files that live as long as it.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// git of this repository, with the files in the folder `worktree`. Paths are literal, and no lock is
    /// taken that can be done without.
    pub fn git(&self, worktree: &Path) -> Git {
        let mut git = Git::standing_in(worktree, &self.common).held(self.held.clone());
        git.command
            .args(&self.config)
            .env("GIT_DIR", self.dir.path())
            .env("GIT_WORK_TREE", ".")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0");
        git
    }

    /// git that writes the worktree's files. Objects that it must fetch for them go to the real
    /// repository.
    pub fn writing(&self, worktree: &Path) -> Git {
        let mut git = self.git(worktree).patient();
        let own = self.path().join("objects");
        git.command
            .env("GIT_OBJECT_DIRECTORY", self.common.join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quote::quoted(own.as_os_str().as_bytes()))
            .env_remove("GIT_NO_LAZY_FETCH")
            .env_remove("GIT_OPTIONAL_LOCKS");
        git
    }
}

/// Writes the files of `commit` to an empty worktree. `aside` is [made for
/// files](ScratchRepo::for_files); `admin` is git's folder of the worktree, and gets the index.
pub async fn restore_worktrees(
    aside: ScratchRepo,
    worktree: &Path,
    admin: &Path,
    commit: &str,
) -> Result<(), GitError> {
    change(aside, worktree, admin, &["read-tree", "--reset", "-u", commit]).await
}

/// Gives a worktree's files the content that they have in a commit; its index stays as it is. `place` is
/// the folder for scratch repositories.
pub async fn bring(
    repo: &Path,
    worktree: &Path,
    admin: &Path,
    commit: &str,
    place: &Path,
) -> Result<(), GitError> {
    let source = format!("--source={commit}");
    // With an empty tree and an empty index, git fails because nothing matches `.`.
    let same = ["diff-tree", "--quiet", &format!("{commit}^1"), commit];
    if git::run(repo, &same).await.is_ok() {
        return Ok(());
    }
    let aside = ScratchRepo::for_files(&git::common_dir(repo).await?, place).await?;
    change(aside, worktree, admin, &["restore", &source, "--worktree", "--", "."]).await
}

/// Runs a git that writes the files of an attempt's worktree, with the worktree's own index.
async fn change(
    aside: ScratchRepo,
    worktree: &Path,
    admin: &Path,
    args: &[&str],
) -> Result<(), GitError> {
    let aside = aside.of_own(admin).await?;
    let mut git = aside.writing(worktree);
    git.command.env("GIT_INDEX_FILE", admin.join("index"));
    git.text(args).await.map(drop)
}

/// `-c` and a setting, alternating, for each result of `git config` with these arguments.
async fn settings(dir: &Path, which: &[&str]) -> Result<Vec<OsString>, GitError> {
    let args = [&["config", "-z"], which].concat();
    let listed = Git::new(dir).output(&args, 64 * 1024).await?.stdout;
    let entries = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    Ok(entries.flat_map(given).collect())
}

/// `key\nvalue` as arguments of git. A key alone means true.
fn given(entry: &[u8]) -> [OsString; 2] {
    let setting = match entry.iter().position(|byte| *byte == b'\n') {
        Some(at) => [&entry[..at], b"=", &entry[at + 1..]].concat(),
        None => entry.to_vec(),
    };
    ["-c".into(), OsString::from_vec(setting)]
}

/// Makes the folder. Blocking.
fn scratch(place: &Path, common: &Path, format: &str) -> io::Result<TempDir> {
    fs::create_dir_all(place)?;
    let dir = tempfile::Builder::new().prefix("changes-").tempdir_in(place)?;
    let path = dir.path();
    bare(path, &[&common.join("objects")])?;
    link_lfs(path, common)?;
    fs::create_dir(path.join("info"))?;
    // `sparseCheckout`: git then looks at an existing file even if the index says to skip it.
    // `safecrlf`: it would warn about every file.
    let config = format!(
        "[core]\nrepositoryformatversion = 1\nsparseCheckout = true\nsafecrlf = false\n[extensions]\nobjectFormat = {format}\n"
    );
    fs::write(path.join("config"), config)?;
    for list in ["info/exclude", "info/attributes"] {
        regular::copy_small(&common.join(list), &path.join(list), LIST_MAX)?;
    }
    shallow(common, path)?;
    Ok(dir)
}

/// Git LFS keeps the content of its files in the repository's folder, not among the objects: a link leads
/// there.
fn link_lfs(path: &Path, common: &Path) -> io::Result<()> {
    let lfs = common.join("lfs");
    // The folder may be an agent's, who can put a link there.
    if !fs::symlink_metadata(&lfs).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    symlink(lfs, path.join("lfs"))
}

/// Makes a folder a repository that borrows objects. The caller writes its `config`.
pub fn bare(path: &Path, lenders: &[&Path]) -> io::Result<()> {
    fs::create_dir_all(path.join("refs"))?;
    fs::write(path.join("HEAD"), "ref: refs/heads/none\n")?;
    lend_objects(&path.join("objects"), lenders)
}

/// Makes a folder of objects that borrows from others (gitrepository-layout(5), alternates). Blocking.
pub fn lend_objects(objects: &Path, lenders: &[&Path]) -> io::Result<()> {
    fs::create_dir_all(objects.join("info"))?;
    fs::write(objects.join("info/alternates"), alternates(lenders))
}

/// The list of the folders that are borrowed from. A path with a line feed, a leading `"` or `#` must be
/// quoted; all others are not, because `git clone` does not understand a quoted path.
pub fn alternates(lenders: &[&Path]) -> String {
    let line = |lender: &&Path| match lender.to_str() {
        Some(plain) if !plain.starts_with(['"', '#']) && !plain.contains('\n') => {
            format!("{plain}\n")
        }
        _ => quote::quoted(lender.as_os_str().as_bytes()) + "\n",
    };
    lenders.iter().map(line).collect::<Vec<_>>().concat()
}

/// Checks out a commit of the repository `repo` in a repository of its own, the new folder `path`. That
/// repository borrows the objects, and has no remote, no hooks and no configuration but the person's;
/// `repo` does not know of it. `objects` is another folder with objects of the commit, and may be
/// missing. For checks, see [`checks`](crate::checks).
pub async fn check_out(
    repo: &Path,
    commit: &str,
    objects: PathBuf,
    path: PathBuf,
) -> Result<(), GitError> {
    let common = git::common_dir(repo).await?;
    let format = git::run(&common, &["rev-parse", "--show-object-format"]).await?;
    let git = Git::new(&path).patient();
    blocking(move || clean(&path, &common, &objects, &format)).await?;
    git.text(&["checkout", "--quiet", "--force", "--detach", commit]).await?;
    Ok(())
}

/// Makes the repository without files. Blocking.
fn clean(path: &Path, common: &Path, objects: &Path, format: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path)?;
    let git_dir = path.join(".git");
    let lenders = [&*common.join("objects"), objects];
    let there: Vec<&Path> = lenders.into_iter().filter(|it| it.is_dir()).collect();
    bare(&git_dir, &there)?;
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = {format}\n"
    );
    fs::write(git_dir.join("config"), config)?;
    shallow(common, &git_dir)
}

/// Makes the history end where it does in a shallow clone: its objects lack what is before.
fn shallow(common: &Path, git_dir: &Path) -> io::Result<()> {
    regular::copy_small(&common.join("shallow"), &git_dir.join("shallow"), SHALLOW_MAX)
}
