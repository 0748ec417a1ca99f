//! A short run of the crash matrix: each fault at least once. The long ones are
//! `just crash-matrix`.
#![expect(clippy::disallowed_methods, reason = "the tests start the example")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::{Command, Output};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

/// Cargo builds examples together with the tests, unless one test is asked for.
fn crash_matrix(arguments: &[&str]) -> Output {
    let path = Path::new(PROVOST).with_file_name("examples").join("crash_matrix");
    assert!(path.exists(), "run `cargo build --examples` first");
    Command::new(path).arg("--provost").arg(PROVOST).args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn nothing_is_lost_whoever_dies() {
    let output = crash_matrix(&["--rounds", "30", "--seed", "9"]);
    let printed = printed(&output);
    assert!(output.status.success(), "{printed}");
    let rows = printed.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let faults: Vec<_> = cells.map(|cells| (cells[0].to_owned(), cells[1] != "0")).collect();
    assert!(faults.len() > 20, "{printed}");
    assert!(faults.iter().all(|(_, is_injected)| *is_injected), "{printed}");
}

/// A check that can't fail proves nothing.
#[test]
fn a_line_that_is_missing_or_comes_twice_is_found() {
    for (betrayal, expected) in [("skip", "not line"), ("repeat", "not line")] {
        let output = crash_matrix(&["--rounds", "5", "--seed", "9", "--break", betrayal]);
        let printed = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains(expected), "{printed}");
        assert!(printed.contains("again: crash_matrix --seed 9 --rounds"), "{printed}");
        let kept = printed.lines().find_map(|line| line.strip_prefix("kept: "));
        std::fs::remove_dir_all(kept.expect("the home is kept")).unwrap();
    }
}
