//! From an agent's last instruction to the snapshot of its turn: what it committed in its own repository is
//! transferred to the person's, and what it only wrote is saved there. Beside git, which does the same in a clone.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::scratch::{Client, Scratch, command, run};
use crate::table::{Budget, Row, Unit, millis};
use crate::{Result, Size};

/// What an agent changes: few files, and very many.
const FEW: usize = 20;
const MANY: usize = 20_000;
/// Files of a folder, and lines of a file.
const IN_FOLDER: usize = 100;
const FILE_LINES: usize = 40;
const PAUSE: Duration = Duration::from_millis(1);

/// A variant of the executor, and the floor of what it does.
struct Case {
    files: usize,
    commits: bool,
}

impl Case {
    fn variant(&self) -> String {
        format!("{}-{}", if self.commits { "commit" } else { "write" }, self.files)
    }

    /// The arguments that [`change`] takes of it.
    fn args(&self) -> [String; 2] {
        [self.files.to_string(), self.commits.to_string()]
    }
}

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let place = tempfile::Builder::new().prefix("scale-").tempdir()?;
    let done = place.path().join("done");
    let many = size.choose(MANY, MANY / 100);
    let cases = [FEW, many].into_iter();
    let cases: Vec<Case> =
        cases.flat_map(|files| [true, false].map(|commits| Case { files, commits })).collect();
    let variants: String = cases.iter().fold(String::new(), |text, case| {
        text + &format!(
            "[executors.self.variants.{}]\nargs = {}\n",
            case.variant(),
            json!(case.args())
        )
    });
    let scratch = Scratch::make_with(1, &["change", &done.to_string_lossy()], &variants)?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let mut rows = Vec::new();
    for case in cases {
        let mut times = Vec::new();
        for _ in 0..=size.rounds(if case.files == FEW { 20 } else { 3 }) {
            let ours = ours(&client, &task, &case, &done).await?;
            times.push([millis(ours), millis(floor(&scratch.repo(), place.path(), &case)?)]);
        }
        let (what, floor) = if case.commits {
            ("transferred", "`git fetch`, `git add`")
        } else {
            ("saved", "`git add`, `git commit`")
        };
        let path = format!("{} changed files {what} at a turn's end", case.files);
        // Few files: what each git costs to start is most of it.
        let budget = Budget::RatioAtMost(if case.files == FEW { 5.0 } else { 2.0 });
        // The first round warms up.
        rows.push(Row::beside(&path, floor, Unit::Milliseconds, &times[1..], budget));
    }
    Ok(rows)
}

/// From the agent's last instruction to its snapshot.
async fn ours(client: &Client, task: &Value, case: &Case, done: &Path) -> Result<Duration> {
    let start = json!({"task_id": task, "executor": "self", "variant": case.variant()});
    let id = client.call("start_task_attempt", start).await?["attempt_id"].clone();
    loop {
        let status = client.call("get_attempt_status", json!({"attempt_id": id})).await?;
        if status["latest_snapshot_turn"] == 1 {
            break;
        }
        if status["phase"] == "settled" && status["state"] != "completed" {
            return Err(format!("it has not changed anything: {status}").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let ended: u64 = fs::read_to_string(done)?.trim().parse()?;
    let ended = UNIX_EPOCH + Duration::from_nanos(ended);
    Ok(SystemTime::now().duration_since(ended)?)
}

/// The same by git, from a clone that borrows the repository's objects.
fn floor(repo: &Path, place: &Path, case: &Case) -> Result<Duration> {
    let clone = place.join("clone");
    // What git collects in the background would be in the way of the next round.
    let clone_of = ["clone", "--quiet", "--shared", "--config=gc.auto=0"];
    run(command("git").args(clone_of).arg(repo).arg(&clone))?;
    change_in(&clone, case.files, case.commits)?;
    let begun = Instant::now();
    if case.commits {
        let fetch = ["fetch", "--quiet", "--no-auto-maintenance"];
        run(command("git").arg("-C").arg(repo).args(fetch).arg(&clone).arg("HEAD"))?;
        git(&clone, &["add", "--all"])?;
    } else {
        save(&clone)?;
    }
    let took = begun.elapsed();
    fs::remove_dir_all(&clone)?;
    Ok(took)
}

/// What the agent does; its last instruction is to write down when that was.
pub fn change(done: &Path, files: usize, commits: bool) -> Result<()> {
    change_in(Path::new("."), files, commits)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(fs::write(done, now.as_nanos().to_string())?)
}

fn change_in(worktree: &Path, files: usize, commits: bool) -> Result<()> {
    // Each time other objects, for those that are there are not transferred.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    for number in 0..files {
        let folder = worktree.join(format!("changed/{}", number / IN_FOLDER));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        let text = format!("line of file {number} at {now}\n").repeat(FILE_LINES);
        fs::write(folder.join(format!("{number}.txt")), text)?;
    }
    if commits { save(worktree) } else { Ok(()) }
}

fn save(worktree: &Path) -> Result<()> {
    git(worktree, &["add", "--all"])?;
    let name = ["-c", "user.name=Scale", "-c", "user.email=scale@localhost"];
    git(worktree, &[&name[..], &["commit", "--quiet", "--message=Changed"]].concat())
}

fn git(worktree: &Path, args: &[&str]) -> Result<()> {
    run(command("git").arg("-C").arg(worktree).args(args))
}
