//! A worktree with many ignored files, on a file system that shares blocks: what it costs beside
//! a bare `git worktree add` that writes as many files. Needs root and mkfs.xfs or mkfs.btrfs for
//! a file system of its own in a loop device; without them it says so and measures nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Result;
use crate::scratch::{Scratch, command, run};

/// Size of the file system's image; sparse.
const IMAGE_BYTES: u64 = 4 << 30;
/// Files in one folder.
const IN_FOLDER: usize = 100;
const TRIES: usize = 5;
/// At most so many times the cost of a bare `git worktree add`, with [`MANY`] files or more; with
/// few, the start of an agent alone costs more.
const BOUND: f64 = 1.3;
const MANY: usize = 20_000;

pub async fn measure(files: usize) -> Result<()> {
    let image = tempfile::tempdir()?;
    let Some(mount) = Mount::make(image.path())? else { return Ok(()) };
    // All that is made from here on lies in the file system.
    tempfile::env::override_temp_dir(&mount.0).map_err(|before| {
        format!("the folder for scratch files is {} already", before.display())
    })?;
    let provisioned = provisioned(files).await?;
    let bare = bare(&mount.0.join("bare"), files)?;
    let ratio = provisioned.as_secs_f64() / bare.as_secs_f64();
    println!("| {files} files | |\n|---|---|");
    println!("| bare `git worktree add` of as many tracked files | {} ms |", bare.as_millis());
    println!("| worktree with as many ignored files, cloned | {} ms |", provisioned.as_millis());
    println!("| ratio (at most {BOUND} from {MANY} files on) | {ratio:.2} |");
    if files >= MANY && ratio > BOUND {
        Err(format!("{ratio:.2} is more than {BOUND}").into())
    } else {
        Ok(())
    }
}

/// The median of the time from a start until its files are there.
async fn provisioned(files: usize) -> Result<Duration> {
    let config = "[projects.scale.repos.repo]\ncopy = ['/ignored/']\n";
    let scratch = Scratch::make_with(TRIES, &["tick"], config)?;
    let repo = scratch.repo();
    fs::write(repo.join(".git/info/exclude"), "/ignored/\n")?;
    write_files(&repo.join("ignored"), files)?;
    let client = scratch.client().await?;
    let task = scratch.task(&client).await?;
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let begun = Instant::now();
        let start = json!({"task_id": task, "executor": "self"});
        let id = client.call("start_task_attempt", start).await?["attempt_id"].clone();
        let copied = loop {
            let status = client.call("get_attempt_status", json!({"attempt_id": id})).await?;
            if status["phase"] == "running" {
                break status["provision"]["repos"]["repo"]["copied"].clone();
            }
            if status["phase"] == "settled" {
                return Err(format!("it did not start: {status}").into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        all.push(begun.elapsed());
        if copied["cloned"] != files {
            return Err(format!("not all were cloned: {copied}").into());
        }
        client.call("stop_attempt", json!({"attempt_id": id, "force": true})).await?;
    }
    Ok(median(all))
}

/// The median of a bare `git worktree add`.
fn bare(repo: &Path, files: usize) -> Result<Duration> {
    fs::create_dir(repo)?;
    let git = |args: &[&str]| {
        let name = ["-c", "user.name=Scale", "-c", "user.email=scale@localhost"];
        run(command("git").arg("-C").arg(repo).args(name).args(args))
    };
    git(&["init", "--quiet"])?;
    write_files(&repo.join("tracked"), files)?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message=files"])?;
    let mut all = Vec::new();
    for number in 0..TRIES {
        let begun = Instant::now();
        git(&["worktree", "add", "--quiet", "--detach", &format!("../bare-{number}")])?;
        all.push(begun.elapsed());
    }
    Ok(median(all))
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

fn write_files(folder: &Path, files: usize) -> Result<()> {
    for number in 0..files {
        let inner = folder.join(format!("{}", number / IN_FOLDER));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(&inner)?;
        }
        fs::write(inner.join(format!("{number}.js")), format!("module {number}\n").repeat(200))?;
    }
    Ok(())
}

/// A file system in an image. Dropped, it is unmounted.
struct Mount(PathBuf);

impl Mount {
    fn make(place: &Path) -> Result<Option<Self>> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: a loop-mounted file system needs root");
            return Ok(None);
        }
        let (image, at) = (place.join("image"), place.join("mount"));
        fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
        fs::create_dir(&at)?;
        let has_made = |program: &str, quiet: &str| {
            command(program).arg(quiet).arg(&image).status().is_ok_and(|status| status.success())
        };
        if !has_made("mkfs.xfs", "-q") && !has_made("mkfs.btrfs", "-q") {
            println!("skipped: mkfs.xfs or mkfs.btrfs is needed");
            return Ok(None);
        }
        if run(command("mount").args(["-o", "loop"]).args([&image, &at])).is_err() {
            println!("skipped: a loop device can't be mounted here");
            return Ok(None);
        }
        Ok(Some(Self(at)))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run(command("umount").arg("--lazy").arg(&self.0));
    }
}
