//! Which parts of the machine a box opens: the system, the toolchains, the certificates that the environment
//! names, and the executor's own program. Reads the disk, and writes nothing. All functions block.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Access, Rule};
use crate::environment::CERTIFICATES;

/// What every program may read and run, as far as it exists here.
const SYSTEM: [&str; 20] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu/store",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/proc",
    "/sys",
    // Where links in /etc lead on many systems.
    "/run/systemd/resolve",
    "/run/current-system",
    "/run/wrappers",
    "/var/lib/ca-certificates",
    "/etc/resolv.conf",
];
/// The devices that every program may read, write and control.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Toolchains, and the configuration of them and of git, below the person's home. None of these is the usual
/// place for credentials.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno/bin",
    ".fnm",
    ".gitattributes",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".jenv",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".npm-global",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".volta",
    "go/bin",
    "go/pkg",
];

/// Configuration of package managers, below the person's home. Most of these files may hold credentials, so
/// no box opens them by itself.
const OF_PACKAGE_MANAGERS: [&str; 18] = [
    ".bunfig.toml",
    ".bundle/config",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".condarc",
    ".config/composer/auth.json",
    ".config/go/env",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/pypoetry/config.toml",
    ".config/uv/uv.toml",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".netrc",
    ".npmrc",
    ".pip/pip.conf",
    ".yarnrc",
    ".yarnrc.yml",
];

/// The person's folders and certificates, as the daemon's environment names them.
#[derive(Default)]
pub struct Person<'a> {
    /// `HOME`, if it is an absolute path.
    pub home: Option<&'a Path>,
    /// `PATH`.
    pub search: Option<&'a str>,
    /// Files with certificates that programs are to trust; absolute paths.
    pub certificates: Vec<&'a Path>,
}

impl<'a> Person<'a> {
    /// Takes them from the daemon's environment. Relative paths are ignored.
    pub fn of(environment: &'a BTreeMap<String, String>) -> Self {
        let home = environment.get("HOME").map(Path::new).filter(|home| home.is_absolute());
        let certificates = CERTIFICATES.iter().filter_map(|name| environment.get(*name));
        let certificates = certificates.map(Path::new).filter(|it| it.is_absolute()).collect();
        Self { home, search: environment.get("PATH").map(String::as_str), certificates }
    }

    /// An absolute path of the configuration, in which `~/` stands for the person's home. Does not look at
    /// the disk.
    /// `Err` is a sentence without its full stop: no `HOME`, or a relative path.
    pub fn path(&self, text: &str) -> Result<PathBuf, String> {
        let path = match (text.strip_prefix("~/"), self.home) {
            (Some(below), Some(home)) => home.join(below),
            (Some(_), None) => return Err(format!("{text}: the daemon has no HOME")),
            (None, _) => PathBuf::from(text),
        };
        if path.is_absolute() { Ok(path) } else { Err(format!("{text} is no absolute path")) }
    }
}

/// The rules that are the same for every attempt of a person. Folders of the search path, and certificates,
/// are left out if they contain one of `closed` or lie in one. These are paths that are private, and paths
/// that an agent can write: the agent may have replaced such a folder by a link to any place.
pub fn of_machine(person: &Person<'_>, closed: &[PathBuf]) -> Vec<Rule> {
    let mut read: BTreeSet<PathBuf> = SYSTEM.iter().filter_map(real).collect();
    let toolchains = person
        .home
        .into_iter()
        .flat_map(|home| TOOLCHAINS.iter().filter_map(move |below| real(home.join(below))));
    read.extend(toolchains);
    // Files only: a folder in the person's home may hold more than certificates.
    let certificates = person.certificates.iter().filter(|it| it.is_file()).filter_map(real);
    read.extend(certificates.filter(|it| !meets(it, closed)));
    let search = person.search.unwrap_or_default().split(':').filter(|it| it.starts_with('/'));
    let search = search.filter(|it| !meets(Path::new(it), closed));
    let is_narrow = |folder: &PathBuf| {
        let holds_home = person.home.and_then(real).is_some_and(|home| home.starts_with(folder));
        folder.parent().is_some() && !holds_home && !meets(folder, closed)
    };
    let around = search.filter_map(real).map(|folder| toolchain(&folder).unwrap_or(folder));
    read.extend(around.filter(is_narrow));
    let devices = DEVICES.iter().filter_map(real);
    let devices = devices.map(|path| Rule { path, access: Access::Device });
    read.into_iter().map(|path| Rule { path, access: Access::Read }).chain(devices).collect()
}

/// The files of package managers' configuration that exist and that these rules do not open, as `~/` paths. A
/// package manager that can't read its configuration uses the public registry without a message, so receipts
/// list them.
pub fn hidden(person: &Person<'_>, rules: &[Rule]) -> Vec<String> {
    let is_hidden = |below: &&str| {
        let there = person.home.and_then(|home| real(home.join(below)));
        there.is_some_and(|path| !rules.iter().any(|rule| path.starts_with(&rule.path)))
    };
    let hidden = OF_PACKAGE_MANAGERS.iter().copied().filter(is_hidden);
    hidden.map(|below| format!("~/{below}")).collect()
}

/// The rules for the program's own installation: its file, and the folder around it (for npm, the outermost
/// `node_modules`) if that folder is narrow: not the person's home or above, not private, not writable by
/// everyone. Empty: there is no such file.
pub fn of_program(program: &Path, person: &Person<'_>, private: &[PathBuf]) -> Vec<Rule> {
    let rule = |path: PathBuf| Rule { path, access: Access::Read };
    // `/proc/self/exe`: Provost itself. It is opened in the shim, when the rule is applied.
    if program.starts_with("/proc") {
        return vec![rule(program.to_owned())];
    }
    let Some(file) = real(program) else { return vec![] };
    let packages = file.ancestors().filter(|it| it.ends_with("node_modules")).last();
    let around = packages.or(file.parent()).map(Path::to_owned);
    let is_narrow = |folder: &PathBuf| {
        let home = person.home.and_then(real);
        folder.components().count() > 2
            && !home.is_some_and(|home| home.starts_with(folder))
            && !meets(folder, private)
            && !is_shared(folder)
    };
    [Some(file.clone()), around.filter(is_narrow)].into_iter().flatten().map(rule).collect()
}

/// The toolchain, in this person's home or another place, to which a folder of the search path belongs: its
/// programs may be scripts that run other programs of it. Programs in `node_modules/.bin` are links to the
/// packages beside it.
fn toolchain(folder: &Path) -> Option<PathBuf> {
    if folder.ends_with("node_modules/.bin") {
        return folder.parent().map(Path::to_owned);
    }
    around_toolchain(folder).map(Path::to_owned)
}

/// The innermost folder around a path (or the path itself) that is named like a toolchain; `None`: there is
/// none. Compares names only, below any home.
pub fn around_toolchain(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| TOOLCHAINS.iter().any(|known| path.ends_with(known)))
}

/// Whether a folder is, contains or lies in one of the others. Compares paths only: links are not resolved.
pub fn meets(folder: &Path, others: &[PathBuf]) -> bool {
    others.iter().any(|other| other.starts_with(folder) || folder.starts_with(other))
}

/// Whether everyone may make files in a folder, as in /tmp.
fn is_shared(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(folder).is_ok_and(|it| it.mode() & 0o002 != 0)
}

/// The path with all links resolved; `None`: it does not exist, or can't be read.
pub fn real(path: impl AsRef<Path>) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(rules: &[Rule], path: &Path) -> bool {
        rules.iter().any(|rule| path.starts_with(&rule.path))
    }

    #[test]
    fn toolchains_are_open_and_keys_are_not() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        for folder in [".ssh", ".cargo/bin", "bin", "private/bin", "x/node_modules/.bin"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join(".cargo/credentials.toml"), "").unwrap();
        std::os::unix::fs::symlink(home.join(".ssh"), home.join("private/link")).unwrap();
        let search = format!(
            "{0}/bin:{0}:{0}/private/bin:{0}/private/link:/:relative:{0}/x/node_modules/.bin",
            home.display()
        );
        let (authority, npmrc) = (home.join("authority.pem"), home.join(".npmrc"));
        fs::write(&authority, "").unwrap();
        fs::write(&npmrc, "").unwrap();
        let certificates = vec![&*authority, &*home];
        let person = Person { home: Some(&home), search: Some(&search), certificates };
        let rules = of_machine(&person, &[home.join("private")]);
        for open in [".cargo/bin/cargo", "bin/tool", "x/node_modules/node/bin/node"] {
            assert!(opened(&rules, &home.join(open)), "{open}");
        }
        for closed in [".ssh/id", ".cargo/credentials.toml", "private/bin/x", "notes", "x/y"] {
            assert!(!opened(&rules, &home.join(closed)), "{closed}");
        }
        assert!(opened(&rules, &authority), "certificates that the environment names");
        assert_eq!(hidden(&person, &rules), ["~/.cargo/credentials.toml", "~/.npmrc"]);
        let opening = [Rule { path: npmrc, access: Access::Read }];
        assert_eq!(hidden(&person, &opening), ["~/.cargo/credentials.toml"]);
        assert!(opened(&rules, Path::new("/usr/bin/env")));
        assert!(!opened(&rules, Path::new("/dev/mem")) && !opened(&rules, Path::new("/tmp/x")));
    }

    #[test]
    fn a_program_brings_its_packages_and_never_a_folder_that_is_too_wide() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        let package = home.join("npm/lib/node_modules/agent/node_modules/x");
        fs::create_dir_all(&package).unwrap();
        for file in ["npm/lib/node_modules/agent/cli.js", "script"] {
            fs::write(home.join(file), "").unwrap();
        }
        let person = Person { home: Some(&home), ..Person::default() };
        let rules = |program: &str| of_program(&home.join(program), &person, &[]);
        assert!(opened(&rules("npm/lib/node_modules/agent/cli.js"), &package));
        assert_eq!(rules("script").len(), 1, "not the whole home");
        assert!(rules("gone").is_empty());
        assert_eq!(person.path("~/x").unwrap(), home.join("x"));
        assert!(person.path("x").is_err());
    }
}
