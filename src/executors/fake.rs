//! `fake`: an executor inside this binary, scripted by its prompt, with one command in each line. It
//! needs no key and no network, and speaks the protocol `events`. `main` enters its process before any
//! runtime starts.

use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, signal};
use provost_actors::executor::{Launch, Stdin, Turn};
use serde_json::{Value, json};

use super::call::Call;

/// Its name. It is available without a table in the configuration.
pub const NAME: &str = "fake";
/// The argument by which `main` recognises its process.
const ARGUMENT: &str = "__fake";
/// The argument of the process that the command `fork` leaves behind.
const LEFTOVER: &str = "__fake-leftover";

/// The command line of a turn. The program is `/proc/self/exe` of the shim, which is this same binary,
/// also if its file was replaced by an upgrade.
pub fn launch(turn: &Turn, call: Call) -> Launch {
    let program = PathBuf::from("/proc/self/exe");
    let call = Call { program, args: vec![ARGUMENT.to_owned()], ..call };
    let launch = call.launch(Stdin::Bytes(turn.prompt.clone().into_bytes()));
    Launch { shown_as: Some(NAME.to_owned()), ..launch }
}

/// Runs the scripted executor if this process was started as one; `None`: it was not.
pub fn enter() -> Option<ExitCode> {
    match std::env::args().nth(1)?.as_str() {
        ARGUMENT => Some(run().unwrap_or(ExitCode::FAILURE)),
        LEFTOVER => {
            let _ = nix::unistd::setsid();
            hang()
        }
        _ => None,
    }
}

fn run() -> io::Result<ExitCode> {
    provost_actors::process::set_name(c"provost-fake");
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let mut fake = Fake { out: BufWriter::new(io::stdout()), calls: 0 };
    let session = std::env::var("PROVOST_EXECUTOR_SESSION_ID")
        .unwrap_or_else(|_| uuid::Uuid::now_v7().to_string());
    fake.write_entry(&json!({ "kind": "session", "id": session }))?;
    for line in prompt.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(code) = fake.obey(line)? {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Fake<W: Write> {
    out: W,
    calls: u32,
}

impl<W: Write> Fake<W> {
    /// Runs one line of the prompt. A line that is not a complete command is repeated as a
    /// message. `Some`: the process ends now with this code.
    fn obey(&mut self, line: &str) -> io::Result<Option<ExitCode>> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (verb, rest.trim().parse::<u64>().ok()) {
            ("say", _) => self.say(rest)?,
            ("think", _) => self.write_entry(&json!({ "kind": "thinking", "text": rest }))?,
            ("sleep", Some(millis)) => sleep(Duration::from_millis(millis)),
            ("write", _) if !rest.is_empty() && !rest.starts_with(' ') => {
                let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                self.write(path, text)?;
            }
            ("run", _) if !rest.is_empty() => self.run(rest)?,
            ("lines", Some(count)) => {
                for number in 1..=count {
                    writeln!(self.out, "line {number}")?;
                }
                self.out.flush()?;
            }
            ("stderr", _) => eprintln!("{rest}"),
            ("fork", _) => self.fork()?,
            ("ignore-term", _) => ignore_term(),
            ("hang", _) => hang(),
            ("exit", Some(code @ 0..=255)) => {
                let code = u8::try_from(code).unwrap_or(u8::MAX);
                return Ok(Some(ExitCode::from(code)));
            }
            _ => self.say(line)?,
        }
        Ok(None)
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.write_entry(&json!({ "kind": "assistant_message", "text": text }))
    }

    fn write_entry(&mut self, entry: &Value) -> io::Result<()> {
        writeln!(self.out, "{entry}")?;
        self.out.flush()
    }

    /// Reports a tool call, runs `work`, and reports its result: the exit code and text that `work` returns.
    fn call(
        &mut self,
        tool: &str,
        action: &Value,
        work: impl FnOnce() -> (i32, String),
    ) -> io::Result<()> {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.write_entry(&json!({
            "kind": "tool_use", "tool_call_id": id, "tool_name": tool, "action": action,
        }))?;
        let (code, text) = work();
        let status = if code == 0 { "success" } else { "failed" };
        self.write_entry(&json!({
            "kind": "tool_result", "tool_call_id": id, "status": status, "exit_code": code,
            "text": text,
        }))
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.call("write", &json!({ "type": "file_edit", "path": path }), || {
            let path = Path::new(path);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            match made.and_then(|()| std::fs::write(path, format!("{text}\n"))) {
                Ok(()) => (0, String::new()),
                Err(error) => (1, error.to_string()),
            }
        })
    }

    fn run(&mut self, command: &str) -> io::Result<()> {
        self.call("run", &json!({ "type": "command", "command": command }), || {
            match child("sh").args(["-c", command]).stdin(Stdio::null()).output() {
                Ok(output) => {
                    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                    text.push_str(&String::from_utf8_lossy(&output.stderr));
                    (output.status.code().unwrap_or(-1), text.trim_end().to_owned())
                }
                Err(error) => (-1, error.to_string()),
            }
        })
    }

    fn fork(&mut self) -> io::Result<()> {
        let left = child("/proc/self/exe").arg(LEFTOVER).stdin(Stdio::null()).spawn()?;
        let text = format!("left a grandchild in a session of its own: pid {}", left.id());
        self.write_entry(&json!({ "kind": "system_message", "text": text }))
    }
}

fn child(program: &str) -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "this process is an executor, not the daemon")]
    std::process::Command::new(program)
}

fn ignore_term() {
    for ignored in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler that could run.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
}

fn sleep(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the prompt says so")]
    std::thread::sleep(time);
}

/// Never ends by itself; only a signal ends it.
fn hang() -> ! {
    loop {
        nix::unistd::pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of what a line of the prompt makes the fake executor say.
    fn said(line: &str) -> Vec<Value> {
        let mut fake = Fake { out: Vec::new(), calls: 0 };
        fake.obey(line).unwrap();
        let lines = String::from_utf8(fake.out).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into()))
            .collect()
    }

    #[test]
    fn every_command_is_understood_and_anything_else_is_said_back() {
        assert_eq!(said("say a b")[0]["text"], "a b");
        assert_eq!(said("lines 2"), ["line 1", "line 2"]);
        let path = tempfile::tempdir().unwrap().path().join("a/b.txt");
        assert_eq!(said(&format!("write {} two words", path.display()))[1]["exit_code"], 0);
        let mut fake = Fake { out: Vec::new(), calls: 0 };
        assert_eq!(fake.obey("exit 7").unwrap(), Some(ExitCode::from(7)));
        for line in
            ["hello there", "sleep well", "exit strategy", "exit 256", "lines", "run", "forked"]
        {
            assert_eq!(said(line)[0]["text"], line);
        }
    }

    #[test]
    fn a_failed_tool_call_says_so() {
        let mut fake = Fake { out: Vec::new(), calls: 0 };
        fake.obey("run echo out; echo err >&2; exit 3").unwrap();
        let shown = String::from_utf8(fake.out).unwrap();
        let result: Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
        assert_eq!(result["status"], "failed");
        assert_eq!(result["exit_code"], 3);
        assert_eq!(result["text"], "out\nerr");
    }
}
