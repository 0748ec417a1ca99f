//! Little programs in C for what no script can do, built by the test that needs them.

use std::path::{Path, PathBuf};

use super::program;

/// Compiles `tests/it/faults/native/<name>.c`.
pub fn build(name: &str, to: &Path, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults/native");
    let source = source.join(name).with_extension("c");
    let mut cc = program("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-o"]).arg(to).arg(source).args(arguments);
    let built = cc.output().unwrap();
    assert!(built.status.success(), "cc: {}", String::from_utf8_lossy(&built.stderr));
    to.to_owned()
}
