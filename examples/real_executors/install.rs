//! Installs the CLIs from the npm registry, each in a folder of its own, and
//! keeps them there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::clis::Pick;
use crate::{Result, TIMEOUT, command};

/// The oldest that all of them support: npm gives an older Node.js old versions
/// of them, and says nothing.
const NODE: (&str, &str) = ("node22", "node@22");

/// The folder that holds them.
pub struct Shelf {
    root: PathBuf,
}

impl Shelf {
    /// With Node.js in it.
    pub async fn open(root: &Path) -> Result<Self> {
        let shelf = Self { root: std::path::absolute(root)? };
        if !shelf.programs(NODE.0).join("node").exists() {
            shelf.npm(command("npm"), NODE.0, NODE.1).await?;
        }
        Ok(shelf)
    }

    /// Installs a CLI if it is not there; its version.
    pub async fn get(&self, pick: Pick<'_>) -> Result<String> {
        let [folder, package] = pick.names();
        let manifest = self.root.join(&folder).join("node_modules").join(pick.cli.package);
        let manifest = manifest.join("package.json");
        if !manifest.exists() {
            eprintln!("installing {package}");
            let npm = which("npm").ok_or("there is no npm")?.canonicalize()?;
            let mut node = command(self.programs(NODE.0).join("node"));
            node.arg(npm);
            self.npm(node, &folder, &package).await?;
        }
        let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest)?)?;
        let version = manifest["version"].as_str().unwrap_or_default();
        match pick.version {
            Some(wanted) if wanted != version => {
                Err(format!("npm has put version {version} there for {package}").into())
            }
            _ => Ok(version.to_owned()),
        }
    }

    /// `PATH` for one of them: its own programs, its Node.js, and the system's.
    pub fn path(&self, pick: Pick<'_>) -> String {
        let [folder, _] = pick.names();
        let [own, node] = [folder.as_str(), NODE.0].map(|name| self.programs(name));
        format!("{}:{}:/usr/local/bin:/usr/bin:/bin", own.display(), node.display())
    }

    /// A folder for what is scratch. (Codex accepts no home in `/tmp`.)
    pub fn scratch(&self, pick: Pick<'_>) -> Result<TempDir> {
        let folder = self.root.join("scratch");
        fs::create_dir_all(&folder)?;
        Ok(tempfile::Builder::new().prefix(&format!("{}-", pick.cli.name)).tempdir_in(folder)?)
    }

    fn programs(&self, name: &str) -> PathBuf {
        self.root.join(name).join("node_modules/.bin")
    }

    async fn npm(&self, npm: std::process::Command, name: &str, package: &str) -> Result<()> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder)?;
        let mut npm = tokio::process::Command::from(npm);
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        npm.arg(&folder).arg(package).current_dir(&folder).kill_on_drop(true);
        let output = tokio::time::timeout(TIMEOUT, npm.output()).await;
        let output = output.map_err(|_| format!("npm takes too long for {package}"))??;
        if output.status.success() {
            return Ok(());
        }
        // What is there of it would pass for all of it.
        let _ = fs::remove_dir_all(&folder);
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(format!("npm can't install {package}: {last}").into())
    }
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
}
