//! The person's git settings for one of their repositories, as git itself finds them there: from whatever
//! file, include and condition, with the file and the scope that each comes from.
//!
//! Both sides of a worktree use them: what writes and reads its files, and the agent's git. A setting
//! that runs a program counts only if it is in the person's or the system's files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::git::{Git, GitError};

/// Bytes of the longest list of settings that is read; a longer one is an error.
const LIST_MAX: usize = 4 << 20;
/// The settings of `core` on which the content of a file in a worktree depends.
const OF_CONTENT: [&str; 8] = [
    "autocrlf",
    "eol",
    "filemode",
    "symlinks",
    "ignorecase",
    "precomposeunicode",
    "excludesfile",
    "attributesfile",
];

/// Whose file a setting is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine's (`system`) or the person's (`global`).
    Person,
    /// The repository's (`local`) or its main checkout's (`worktree`).
    Repository,
}

/// A setting, as one line of one file has it. The same key may come again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub scope: Scope,
    /// The file that it comes from.
    pub file: PathBuf,
    /// With the section and the last part in lower case, as git prints it.
    pub key: String,
    /// `None`: the key alone, which means true. Not every value is UTF-8.
    pub value: Option<Vec<u8>>,
}

impl Setting {
    /// The value as text; "true" where it has none.
    pub fn text(&self) -> String {
        self.value.as_ref().map_or("true".into(), |it| String::from_utf8_lossy(it).into_owned())
    }

    /// `-c` and the setting, for a command of git.
    fn given(&self) -> [OsString; 2] {
        let mut text = self.key.clone().into_bytes();
        if let Some(value) = &self.value {
            text.push(b'=');
            text.extend_from_slice(value);
        }
        ["-c".into(), OsString::from_vec(text)]
    }

    /// Whether the content of files in a worktree depends on it.
    pub fn is_of_content(&self) -> bool {
        match self.key.strip_prefix("core.") {
            Some(name) => OF_CONTENT.contains(&name),
            // A filter is a program, so a repository can't bring one.
            None => self.scope == Scope::Person && self.key.starts_with("filter."),
        }
    }

    /// Whether it says where the missing files of a partial clone or of Git LFS are fetched.
    fn is_of_remotes(&self) -> bool {
        let Some(rest) = self.key.strip_prefix("remote.") else { return self.key == "lfs.url" };
        [".url", ".promisor", ".partialclonefilter"].iter().any(|end| rest.ends_with(end))
    }
}

/// All settings, in git's order: of several with one key, the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Settings(Vec<Setting>);

impl Settings {
    /// The settings of the repository with the shared folder `common`.
    ///
    /// # Errors
    /// git fails, or they are too long to be read.
    pub async fn of(common: &Path) -> Result<Self, GitError> {
        let list = ["config", "--list", "--show-scope", "--show-origin", "-z"];
        let output = Git::new(common).output(&list, LIST_MAX).await?;
        if output.is_cut {
            return Err(GitError::Failed("its configuration is too long".to_owned()));
        }
        if !output.status.success() {
            return Err(output.failure());
        }
        Ok(Self(parse(&output.stdout, common)))
    }

    /// All of them, in git's order.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The value that counts; `None`: the key is not set.
    pub fn get(&self, key: &str) -> Option<String> {
        self.0.iter().rfind(|it| it.key == key).map(Setting::text)
    }

    /// Whether a setting is on: `true`, `yes`, `on` or `1`, in any case (git-config(1), "Values"). Unset
    /// is off.
    pub fn is_true(&self, key: &str) -> bool {
        let is_yes = |it: String| ["true", "yes", "on", "1"].contains(&&*it.to_lowercase());
        self.get(key).is_some_and(is_yes)
    }

    /// How the repository names its objects: `sha1` or `sha256`.
    pub fn object_format(&self) -> String {
        // git heeds extensions only in the repository's own configuration.
        let own = |it: &&Setting| it.scope == Scope::Repository;
        let found = self.0.iter().filter(own).find(|it| it.key == "extensions.objectformat");
        found.map_or_else(|| "sha1".to_owned(), Setting::text)
    }

    /// Arguments of git for all settings on which the content of files depends.
    pub fn of_content(&self) -> Vec<OsString> {
        self.0.iter().filter(|it| it.is_of_content()).flat_map(Setting::given).collect()
    }

    /// The same for the settings by which missing files are fetched.
    pub fn of_remotes(&self) -> Vec<OsString> {
        self.0.iter().filter(|it| it.is_of_remotes()).flat_map(Setting::given).collect()
    }

    /// Whether a setting of the person's comes from a file that another one includes: the include may be
    /// for this repository only.
    pub fn is_included(&self, setting: &Setting) -> bool {
        let includes = |it: &&Setting| {
            let last = it.key.rsplit('.').next();
            it.scope == Scope::Person && it.key.starts_with("include") && last == Some("path")
        };
        let named = self.0.iter().filter(includes).filter_map(|it| {
            let (text, folder) = (it.text(), it.file.parent()?);
            expanded(&text).or_else(|| Some(folder.join(text)))
        });
        let same = |path: PathBuf| same(&path, &setting.file);
        setting.scope == Scope::Person && named.into_iter().any(same)
    }

    /// The person's files that git reads for the repository, and the files that their settings name. They
    /// need not exist.
    pub fn files(&self) -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let xdg = xdg.or_else(|| Some(home.as_ref()?.join(".config"))).map(|it| it.join("git"));
        let in_xdg = ["config", "attributes", "ignore"].into_iter();
        let in_xdg = in_xdg.filter_map(|name| Some(xdg.as_ref()?.join(name)));
        let mut files: Vec<PathBuf> = in_xdg.collect();
        files.extend(home.map(|home| home.join(".gitconfig")));
        for it in self.0.iter().filter(|it| it.scope == Scope::Person) {
            let named = matches!(&*it.key, "core.excludesfile" | "core.attributesfile");
            let named = named.then(|| expanded(&it.text())).flatten();
            files.extend([it.file.clone()].into_iter().chain(named));
        }
        files.sort();
        files.dedup();
        files
    }
}

/// The person's files that git reads for the repository with the shared folder `common`, see
/// [`Settings::files`]: a box must let git read them.
pub async fn files(common: &Path) -> Result<Vec<PathBuf>, GitError> {
    Ok(Settings::of(common).await?.files())
}

/// Whether two paths lead to one file.
fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// An absolute path of a setting, with `~/` expanded (git-config(1), "pathname"); `None`: it is relative.
fn expanded(text: &str) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(below) => Some(Path::new(&std::env::var_os("HOME")?).join(below)),
        None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    }
}

/// Reads `<scope>\0<origin>\0<key>\n<value>\0`. Relative origins are below `dir`.
fn parse(listed: &[u8], dir: &Path) -> Vec<Setting> {
    let fields: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
    let entries = fields.as_chunks::<3>().0.iter();
    let found = entries.filter_map(|[scope, origin, entry]| {
        let scope = match *scope {
            b"system" | b"global" => Scope::Person,
            b"local" | b"worktree" => Scope::Repository,
            // `command`: what Provost itself gives git.
            _ => return None,
        };
        let file = origin.strip_prefix(b"file:")?;
        let end = entry.iter().position(|byte| *byte == b'\n');
        let key = std::str::from_utf8(&entry[..end.unwrap_or(entry.len())]).ok()?;
        let value = end.map(|end| entry[end + 1..].to_vec());
        let file = dir.join(Path::new(std::ffi::OsStr::from_bytes(file)));
        Some(Setting { scope, file, key: key.to_owned(), value })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::git;
    use super::*;

    #[tokio::test]
    async fn settings_have_the_scope_and_the_file_that_git_says() {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        git::run(&repo, &["init", "--quiet"]).await.unwrap();
        for (key, value) in [
            ("core.autocrlf", "input"),
            ("filter.x.clean", "touch ran"),
            ("remote.o.url", "/x"),
            ("include.path", "../more"),
        ] {
            git::run(&repo, &["config", key, value]).await.unwrap();
        }
        fs::write(repo.join("more"), "[core]\n\teol\n\tautocrlf = true\n").unwrap();
        let found = Settings::of(&repo.join(".git")).await.unwrap();
        assert_eq!(found.get("core.autocrlf").as_deref(), Some("true"), "the last one counts");
        assert!(found.is_true("core.eol") && !found.is_true("core.symlinks.not"));
        let local = |key: &str| found.iter().find(|it| it.key == key).unwrap().clone();
        assert_eq!(local("core.eol").scope, Scope::Repository);
        assert!(local("core.eol").file.ends_with("more"), "{:?}", local("core.eol"));
        let given = found.of_content();
        assert!(given.contains(&"core.autocrlf=true".into()), "{given:?}");
        assert!(!given.iter().any(|it| it.to_string_lossy().contains("ran")), "a program");
        assert!(found.of_remotes().contains(&"remote.o.url=/x".into()));
    }

    #[test]
    fn what_is_no_setting_of_a_file_is_left_out() {
        let listed =
            b"global\0file:/h/.gitconfig\0user.name\nAnn\0command\0command line:\0a.b\nc\0";
        let found = parse(listed, Path::new("/r"));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].scope, found[0].text()), (Scope::Person, "Ann".to_owned()));
    }
}
