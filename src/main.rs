//! The `provost` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost::main()
}
