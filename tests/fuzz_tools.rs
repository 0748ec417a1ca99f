//! A short run of the fuzzer of tools. The long ones are `just fuzz-tools`.
#![expect(clippy::disallowed_methods, reason = "the tests start the example")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::{Command, Output};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

/// Cargo builds examples together with the tests, unless one test is asked for.
fn fuzz_tools(arguments: &[&str]) -> Output {
    let path = Path::new(PROVOST).with_file_name("examples").join("fuzz_tools");
    assert!(path.exists(), "run `cargo build --examples` first");
    Command::new(path).arg("--provost").arg(PROVOST).args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn every_request_has_one_answer_of_the_promised_form() {
    let output = fuzz_tools(&["--calls", "1500", "--seed", "7"]);
    let printed = printed(&output);
    assert!(output.status.success(), "{printed}");
    for outcome in ["done", "invalid_argument", "unknown_field", "refused line", "-32601"] {
        assert!(printed.contains(&format!("| {outcome} |")), "{printed}");
    }
}

/// A check that can't fail proves nothing.
#[test]
fn an_answer_of_another_form_is_found() {
    for falsified in ["envelope", "output", "silence"] {
        let output = fuzz_tools(&["--calls", "200", "--seed", "7", "--break", falsified]);
        let printed = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains("again: fuzz_tools --seed 7"), "{printed}");
    }
}
