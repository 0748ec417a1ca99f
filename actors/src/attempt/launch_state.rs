//! What the launch of a process leaves in its folder: the state that its normalizer
//! needs, and the files that the CLI reads. Blocking.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde_json::Value;

use crate::process::manifest;

/// The normalizer's launch state.
const FILE: &str = "dialogue.json";
/// The folder of the files for the CLI.
pub const SCRATCH: &str = "scratch";

/// Writes both, whatever an earlier try has left.
pub fn write(dir: &Path, dialogue: &Value, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    let private = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
    if !dialogue.is_null() {
        private(dir)?;
        manifest::write_durably(dir, FILE, dialogue)?;
    }
    for (name, bytes) in files {
        let folder = dir.join(SCRATCH);
        private(&folder)?;
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(folder.join(name))?.write_all(bytes)?;
    }
    Ok(())
}

/// What was written; null where nothing was.
pub fn read(dir: &Path) -> io::Result<Value> {
    Ok(manifest::read(dir, FILE)?.unwrap_or(Value::Null))
}
