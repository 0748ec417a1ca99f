//! A program that can be a shim, for the tests to start.

fn main() -> std::process::ExitCode {
    provost_actors::process::shim::enter().unwrap_or(std::process::ExitCode::FAILURE)
}
