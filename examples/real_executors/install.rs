//! Installs the CLIs from the npm registry, each in a folder of its own, and
//! keeps them there.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::clis::Cli;
use crate::{Result, command};

/// The oldest that all of them support: npm gives an older Node.js old versions
/// of them, and says nothing.
const NODE: (&str, &str) = ("node22", "node@22");

/// The folder that holds them.
pub struct Shelf {
    root: PathBuf,
}

impl Shelf {
    /// With Node.js in it.
    pub fn open(root: &Path) -> Result<Self> {
        let shelf = Self { root: std::path::absolute(root)? };
        if !shelf.programs(NODE.0).join("node").exists() {
            shelf.npm(&mut command("npm"), NODE.0, NODE.1)?;
        }
        Ok(shelf)
    }

    /// Installs a CLI if it is not there; its version.
    pub fn get(&self, cli: &Cli) -> Result<String> {
        let manifest = self.root.join(cli.name).join("node_modules").join(cli.package);
        let manifest = manifest.join("package.json");
        if !manifest.exists() {
            eprintln!("installing {}", cli.package);
            let npm = which("npm").ok_or("there is no npm")?.canonicalize()?;
            let node = self.programs(NODE.0).join("node");
            self.npm(command(node).arg(npm), cli.name, cli.package)?;
        }
        let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest)?)?;
        Ok(manifest["version"].as_str().unwrap_or_default().to_owned())
    }

    /// `PATH` for one of them: its own programs, its Node.js, and the system's.
    pub fn path(&self, cli: &Cli) -> String {
        let [own, node] = [cli.name, NODE.0].map(|name| self.programs(name));
        format!("{}:{}:/usr/local/bin:/usr/bin:/bin", own.display(), node.display())
    }

    /// A folder for what is scratch. (Codex accepts no home in `/tmp`.)
    pub fn scratch(&self, cli: &Cli) -> Result<TempDir> {
        let folder = self.root.join("scratch");
        fs::create_dir_all(&folder)?;
        Ok(tempfile::Builder::new().prefix(&format!("{}-", cli.name)).tempdir_in(folder)?)
    }

    fn programs(&self, name: &str) -> PathBuf {
        self.root.join(name).join("node_modules/.bin")
    }

    fn npm(&self, npm: &mut std::process::Command, name: &str, package: &str) -> Result<()> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder)?;
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        let output = npm.arg(&folder).arg(package).current_dir(&folder).output()?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(format!("npm can't install {package}: {last}").into())
    }
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
}
