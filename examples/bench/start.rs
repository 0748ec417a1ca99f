//! From a start to the agent's first instruction, of one attempt and of many at once in one
//! repository, beside a shell that makes a worktree and becomes the same program; and of one in a
//! box, beside one without.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};

use crate::line_client::LineClient;
use crate::scratch::{Scratch, command, run};
use crate::table::{Budget, Row, Unit, millis};
use crate::{Result, Size};

/// What is started later than this was not started.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Starts at once.
const MANY: usize = 32;
/// The repository's files, and those of a folder.
const FILES: usize = 200;
const IN_FOLDER: usize = 10;
const FILE_LINES: usize = 100;

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let place = tempfile::Builder::new().prefix("scale-").tempdir()?;
    let mut started = Started::make(&place.path().join("started"))?;
    let pipe = started.path.to_string_lossy().into_owned();
    let boxed = format!(
        "sandbox_write = [{}]\n[executors.self.variants.boxed]\nsandbox = \"workspace\"\n",
        json!(pipe)
    );
    let scratch = Scratch::make_with(MANY + 1, &["started", &pipe, "stay"], &boxed)?;
    fill(&scratch.repo())?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let mut ours = LineClient::start(scratch.bridge())?;
    let start = json!({"task_id": task, "executor": "self"});
    let in_a_box = json!({"task_id": task, "executor": "self", "variant": "boxed"});
    let (mut one, mut held, mut many, mut number) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..=size.rounds(20) {
        // In turns: the second one meets what the first has left to do.
        let mut times = [Duration::ZERO; 2];
        for which in [number % 2, 1 - number % 2] {
            times[which] = one_start(&mut ours, &mut started, [&start, &in_a_box][which])?;
        }
        let [took, boxed] = times;
        held.push([millis(boxed), millis(took)]);
        let begun = Instant::now();
        let mut bare = bare(&scratch.repo(), place.path(), &started.path, number)?;
        started.wait(1)?;
        one.push([millis(took), millis(begun.elapsed())]);
        bare.wait()?;
        number += 1;
    }
    for _ in 0..=size.rounds(3) {
        let calls = vec![start.clone(); MANY];
        let begun = Instant::now();
        let answers = ours.calls_at_once("start_task_attempt", &calls)?;
        started.wait(MANY)?;
        let took = begun.elapsed();
        let ids: Vec<Value> = answers.iter().map(|it| it["attempt_id"].clone()).collect();
        stop(&mut ours, &ids)?;
        let begun = Instant::now();
        for number in number..number + MANY {
            bare(&scratch.repo(), place.path(), &started.path, number)?.wait()?;
        }
        started.wait(MANY)?;
        many.push([millis(took), millis(begun.elapsed())]);
        number += MANY;
    }
    // The first round of each warms up.
    let (one, held, many) = (&one[1..], &held[1..], &many[1..]);
    let (unit, floor) = (Unit::Milliseconds, "`git worktree add`, exec");
    let budget = Budget::RatioAtMost;
    Ok(vec![
        Row::beside("start to the first instruction", floor, unit, one, budget(1.15)),
        Row::beside("the same in a sandbox", "without one", unit, held, Budget::MoreAtMost(3.0)),
        Row::beside(&format!("{MANY} starts at once"), "one by one", unit, many, budget(0.6)),
    ])
}

/// How long a start takes to the first instruction; the attempt is stopped then.
fn one_start(ours: &mut LineClient, started: &mut Started, start: &Value) -> Result<Duration> {
    let begun = Instant::now();
    let id = ours.call("start_task_attempt", start)?["attempt_id"].clone();
    started.wait(1)?;
    let took = begun.elapsed();
    stop(ours, &[id])?;
    Ok(took)
}

/// What is started: it says so, and with `stay` it lives until it is killed.
pub fn started(pipe: &Path, stay: bool) -> Result<()> {
    File::options().write(true).open(pipe)?.write_all(b".")?;
    if stay { crate::idle() } else { Ok(()) }
}

/// A pipe of which each started program takes a byte.
struct Started {
    path: std::path::PathBuf,
    pipe: File,
}

impl Started {
    fn make(path: &Path) -> Result<Self> {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU)?;
        // Open for writing as well, it has no end.
        let pipe = File::options().read(true).write(true).open(path)?;
        Ok(Self { path: path.to_owned(), pipe })
    }

    fn wait(&mut self, programs: usize) -> Result<()> {
        let mut left = vec![0; programs];
        let mut left = &mut left[..];
        while !left.is_empty() {
            let mut ready = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
            if poll(&mut ready, PollTimeout::try_from(TIMEOUT)?)? == 0 {
                return Err(format!("{} programs were not started in time", left.len()).into());
            }
            let read = self.pipe.read(left)?;
            left = &mut left[read..];
        }
        Ok(())
    }
}

/// A worktree and the program in it, by a shell.
fn bare(repo: &Path, place: &Path, pipe: &Path, number: usize) -> Result<Child> {
    let script =
        r#"git -C "$1" worktree add --quiet -b "$2" "$3" && cd "$3" && exec "$4" started "$5" end"#;
    let mut shell: Command = command("sh");
    shell.args(["-c", script, "sh"]).arg(repo).arg(format!("bare-{number}"));
    shell.arg(place.join(format!("bare-{number}"))).arg(std::env::current_exe()?).arg(pipe);
    Ok(shell.spawn()?)
}

fn stop(client: &mut LineClient, ids: &[Value]) -> Result<()> {
    for id in ids {
        client.call("stop_attempt", &json!({"attempt_id": id, "force": true}))?;
    }
    for ids in ids.chunks(16) {
        let wait = json!({"attempt_ids": ids, "until": "all_settled", "timeout_ms": 60_000});
        client.call("wait_for_attempts", &wait)?;
    }
    Ok(())
}

fn fill(repo: &Path) -> Result<()> {
    for number in 0..FILES {
        let folder = repo.join(format!("folder-{}", number / IN_FOLDER));
        fs::create_dir_all(&folder)?;
        let text = format!("line of file {number}\n").repeat(FILE_LINES);
        fs::write(folder.join(format!("{number}.txt")), text)?;
    }
    let git = |args: &[&str]| run(command("git").arg("-C").arg(repo).args(args));
    let name = ["-c", "user.name=Scale", "-c", "user.email=scale@localhost"];
    git(&["add", "--all"])?;
    git(&[&name[..], &["commit", "--quiet", "--message=Files"]].concat())
}
