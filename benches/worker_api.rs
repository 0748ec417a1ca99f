//! How long the worker API takes in a large project: 10,000 tasks that depend on each
//! other and a plan of 5,000 sections, asked through `provost mcp --role worker`, one call
//! after the other. Prints a table in Markdown; exits with 1 if a target is missed. Home
//! and repository are scratch.
//!
//! ```text
//! cargo bench --bench worker_api
//! ```

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const TASKS: usize = 10_000;
/// Of the plan, in documents of a thousand.
const SECTIONS: usize = 5_000;
/// Of each kind.
const CALLS: usize = 300;

/// A call, and how long it may take (the specification's table of benchmarks).
const GET_NEXT_TASK: (&str, u64) = ("getNextTask", 100);
const REPORT_TASK_DONE: (&str, u64) = ("reportTaskDone", 200);
const ASK_QUESTION: (&str, u64) = ("askQuestion", 500);
const REPORT_OBSERVATION: (&str, u64) = ("reportObservation", 100);

const PRIORITIES: [&str; 4] = ["low", "medium", "high", "critical"];

/// What the plan's sections are about.
const WORDS: [&str; 16] = [
    "sidebar",
    "navigation",
    "colour",
    "contrast",
    "animation",
    "storage",
    "backup",
    "login",
    "session",
    "export",
    "search",
    "index",
    "cache",
    "message",
    "upload",
    "report",
];

fn main() -> ExitCode {
    match measure() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every call met its target.
fn measure() -> Result<bool> {
    let scratch = Scratch::new()?;
    scratch.verb(&["init"])?;
    scratch.verb(&["task", "import", &scratch.write("tasks.json", &tasks())?])?;
    for (number, document) in documents().iter().enumerate() {
        scratch.write(&format!("plan/part-{number}.md"), document)?;
    }
    let plan = scratch.path("plan").display().to_string();
    scratch.verb(&["plan", "add", &plan, "--name", "plan", "--version", "1"])?;
    eprintln!("{TASKS} tasks and {SECTIONS} sections are there; {CALLS} calls of each kind");

    let mut worker = scratch.worker()?;
    let mut rows = Vec::new();
    let mut next = Value::Null;
    rows.push((GET_NEXT_TASK, times(|_| worker.call("getNextTask", &json!({})))?));
    rows.push((
        REPORT_TASK_DONE,
        times(|_| {
            if next.is_null() {
                next = worker.call("getNextTask", &json!({}))?.1["task"]["taskId"].take();
            }
            let (time, mut told) = worker.call("reportTaskDone", &done(&next))?;
            next = told["nextTaskId"].take();
            Ok((time, told))
        })?,
    ));
    rows.push((ASK_QUESTION, times(|number| worker.call("askQuestion", &question(number)))?));
    rows.push((
        REPORT_OBSERVATION,
        times(|number| worker.call("reportObservation", &observation(number)))?,
    ));

    println!("| call | median | 99 % | longest | target |\n|---|---|---|---|---|");
    let mut all_met = true;
    for ((name, target), times) in rows {
        let target = Duration::from_millis(target);
        let [median, most, longest] =
            [times.len() / 2, times.len() * 99 / 100, times.len() - 1].map(|at| times[at]);
        println!("| {name} | {median:.1?} | {most:.1?} | {longest:.1?} | {target:?} |");
        all_met &= most < target;
    }
    Ok(all_met)
}

/// How long each call of a kind took, the shortest first.
fn times(mut call: impl FnMut(usize) -> Result<(Duration, Value)>) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        times.push(call(number)?.0);
    }
    times.sort_unstable();
    Ok(times)
}

/// Each task waits for two earlier ones, as far as there are any.
fn tasks() -> String {
    let task = |number: usize| {
        let on = [number / 2, number.saturating_sub(40)];
        let on = on.iter().filter(|on| **on != number && number > 40);
        let on: Vec<String> = on.map(|on| format!("T{on}")).collect();
        json!({
            "id": format!("T{number}"),
            "title": format!("Task number {number}"),
            "description": format!("Make the {} work.", WORDS[number % WORDS.len()]),
            "priority": PRIORITIES[number % PRIORITIES.len()],
            "dependencies": on,
            "acceptanceCriteria": ["It works", "It is tested", "It is written down"],
            "files": {"readFrom": ["README.md"], "writeTo": [format!("src/part_{number}.rs")]},
            "estimatedHours": 2,
        })
    };
    Value::Array((0..TASKS).map(task).collect()).to_string()
}

fn documents() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut word = || WORDS[random.usize(..WORDS.len())];
    let mut document = |part: usize| {
        let mut text = format!("# Part {part}\n");
        for section in 0..1000 {
            // Writing to a string can't fail.
            let _ = write!(
                text,
                "\n## {} and {} {section}\n\nThe {} of the {} is kept in the {}.\n\
                 Every {} has a {} of at most {section} entries.\n",
                word(),
                word(),
                word(),
                word(),
                word(),
                word(),
                word(),
            );
        }
        text
    };
    (0..SECTIONS / 1000).map(&mut document).collect()
}

fn done(task: &Value) -> Value {
    json!({
        "taskId": task,
        "status": "done",
        "implementationNotes": "Made as the brief says.",
        "filesModified": ["src/part.rs"],
        "testing": {"testsAdded": true, "testsPassed": true, "testsFailed": 0},
        "acceptanceCriteriaVerification": {"0": {"text": "It works", "status": "passed"}},
        "observations": ["The neighbour is slow"],
        "followUpTasks": [{"title": "Make it faster", "why": "It is slow"}],
    })
}

fn question(number: usize) -> Value {
    let [one, other] = [number % WORDS.len(), (number / WORDS.len() + 1) % WORDS.len()];
    json!({"question": format!("Where is the {} of the {} kept?", WORDS[one], WORDS[other])})
}

fn observation(number: usize) -> Value {
    json!({
        "taskId": "TASK-001",
        "observation": "The tests of the neighbour are slow",
        "type": "improvement",
        "severity": "low",
        "createNewTask": number.is_multiple_of(2),
        "newTaskDetails": {"title": "Make them faster", "priority": "low", "estimatedHours": 1},
    })
}

/// A home and a repository; the daemon ends with them.
struct Scratch {
    folder: TempDir,
}

#[expect(clippy::disallowed_methods, reason = "it looks at the program from outside")]
impl Scratch {
    fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("provost-bench-").tempdir()?;
        let scratch = Self { folder };
        scratch.write(
            "home/config.toml",
            "[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 0\n",
        )?;
        scratch.write("app/README.md", "An application.\n")?;
        let identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"];
        scratch.git(&["init", "--quiet", "--initial-branch=main"])?;
        scratch.git(&["add", "."])?;
        scratch.git(&[&identity[..], &["commit", "--quiet", "--message=Begin"]].concat())?;
        Ok(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    fn git(&self, args: &[&str]) -> Result<()> {
        let ended = Command::new("git").args(args).current_dir(self.path("app")).status()?;
        if ended.success() { Ok(()) } else { Err(format!("git {args:?} failed").into()) }
    }

    fn provost(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
        command.args(args).current_dir(self.path("app"));
        command.env("PROVOST_HOME", self.path("home")).env_remove("PROVOST_ATTEMPT_ID");
        command
    }

    fn verb(&self, args: &[&str]) -> Result<()> {
        let done = self.provost(args).output()?;
        if done.status.success() {
            return Ok(());
        }
        Err(format!("provost {args:?}: {}", String::from_utf8_lossy(&done.stderr)).into())
    }

    fn worker(&self) -> Result<Worker> {
        let mut command = self.provost(&["mcp", "--role", "worker"]);
        let mut bridge = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (bridge.stdin.take(), bridge.stdout.take()) else {
            return Err("the bridge has no pipes".into());
        };
        Ok(Worker { bridge, stdin, stdout: BufReader::new(stdout), calls: 0 })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.provost(&["shutdown", "--stop-all"]).output();
    }
}

/// A worker's connection.
struct Worker {
    bridge: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    calls: u64,
}

impl Worker {
    /// Calls a bare method; how long it took, and its result.
    fn call(&mut self, method: &str, params: &Value) -> Result<(Duration, Value)> {
        self.calls += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
        let line = format!("{request}\n");
        let began = Instant::now();
        self.stdin.write_all(line.as_bytes())?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        let time = began.elapsed();
        let mut answer: Value = serde_json::from_str(&answer)?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}").into()),
            None => Ok((time, answer["result"].take())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.bridge.kill();
        let _ = self.bridge.wait();
    }
}
