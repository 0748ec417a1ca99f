//! The version of a program: that of the npm package which has the program, else the program's own
//! answer to `--version`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::ask::{self, Asked};

/// How much of a version is kept, in characters.
const KEPT: usize = 60;
/// How many folders above a program are searched for its package.
const LEVELS: usize = 4;

/// A version, and the file that it belongs to: its path without links and its time of change.
#[derive(Debug, PartialEq)]
pub struct Version {
    of: (PathBuf, Option<SystemTime>),
    /// `None`: the program did not say it.
    pub version: Option<String>,
}

impl Version {
    /// The version of a program. The known one is returned while the file is the same, so that the program is
    /// run only once. `None`: there is no such file.
    pub async fn find(asked: Asked<'_>, known: Option<Self>) -> Option<Self> {
        let program = asked.program.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let program = program.canonicalize().ok()?;
            let changed = fs::metadata(&program).and_then(|found| found.modified()).ok();
            let package = package_version(&program);
            Some((program, changed, package))
        });
        let (program, changed, package) = looked.await.ok().flatten()?;
        let of = (program, changed);
        if let Some(known) = known.filter(|known| known.of == of) {
            return Some(known);
        }
        let version = match package {
            Some(version) => Some(version),
            None => reported(Asked { program: of.0.clone(), ..asked }).await,
        };
        Some(Self { of, version })
    }
}

/// The version in the `package.json` of the npm package that has the program; `None`: it is in none.
fn package_version(program: &Path) -> Option<String> {
    let folders = program.ancestors().skip(1).take(LEVELS);
    let mut in_package = folders.take_while(|folder| !folder.ends_with("node_modules"));
    if !program.components().any(|part| part.as_os_str() == "node_modules") {
        return None;
    }
    let package = in_package.find_map(|folder| fs::read(folder.join("package.json")).ok())?;
    let package: serde_json::Value = serde_json::from_slice(&package).ok()?;
    package["version"].as_str().map(kept)
}

/// The first line that the program prints with `--version`; `None`: it fails or prints nothing.
async fn reported(asked: Asked<'_>) -> Option<String> {
    let answer = ask::run(asked, &["--version"]).await?;
    let said = String::from_utf8_lossy(&answer.said).into_owned();
    let said = Some(said).filter(|_| answer.code == Some(0))?;
    said.lines().map(str::trim).find(|line| !line.is_empty()).map(kept)
}

fn kept(version: &str) -> String {
    version.chars().filter(|c| !c.is_control()).take(KEPT).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn version(program: &Path, known: Option<Version>) -> Option<Version> {
        let asked = Asked { program: program.to_owned(), env: BTreeMap::new(), held: None };
        Version::find(asked, known).await
    }

    #[tokio::test]
    async fn a_package_tells_its_version_and_the_program_is_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("node_modules/@vendor/agent");
        script(&package.join("bin/agent.js"), "echo run > \"$0.ran\"");
        fs::write(package.join("package.json"), r#"{"name":"agent","version":"1.2.3"}"#).unwrap();
        let link = dir.path().join("agent");
        symlink(package.join("bin/agent.js"), &link).unwrap();
        let found = version(&link, None).await.unwrap();
        assert_eq!(found.version.as_deref(), Some("1.2.3"));
        assert!(!package.join("bin/agent.js.ran").exists());
    }

    #[tokio::test]
    async fn a_program_is_asked_once_for_as_long_as_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent");
        script(&agent, "echo x >> \"$0.count\"; echo; echo agent 1; exit 0");
        let found = version(&agent, None).await;
        assert_eq!(found.as_ref().unwrap().version.as_deref(), Some("agent 1"));
        let again = version(&agent, found).await;
        assert_eq!(fs::read(dir.path().join("agent.count")).unwrap(), b"x\n");
        script(&agent, "echo agent 2");
        fs::File::open(&agent).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let other = version(&agent, again).await;
        assert_eq!(other.unwrap().version.as_deref(), Some("agent 2"));
    }

    #[tokio::test]
    async fn a_program_that_fails_has_no_version() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent");
        script(&agent, "echo unknown option; exit 2");
        assert_eq!(version(&agent, None).await.unwrap().version, None);
        assert_eq!(version(&dir.path().join("absent"), None).await, None);
    }
}
