//! Secrets: what a shim is handed, what it spools, and what stays of it when it dies.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use nix::libc::SIGKILL;
use provost_actors::event::Stream;
use provost_actors::process::proc::{self, Stat};
use provost_actors::process::records::Manifest;
use provost_actors::process::{Adopted, Shim, ShimEvent};
use provost_actors::secret::{SecretNames, Secrets};

use crate::rescue::{alone, kill_shim, rescue, shim_pid};
use crate::spool::{SmallDisk, ended_after_stalls, private_kib};
use crate::support::{Bench, covered, ended, event, exited, held, lines, spooled, until};

const SECRET: &str = "sesame-open-1234567890";

/// A script whose `A_TOKEN` is the secret.
fn script(bench: &Bench, script: &str) -> (PathBuf, Manifest, Secrets) {
    let (dir, mut manifest) = bench.script(script);
    manifest.env.insert("A_TOKEN".into(), SECRET.into());
    let names = SecretNames(SecretNames::DEFAULT.map(str::to_owned).into());
    let secrets = names.take_out(&mut manifest.env, &BTreeMap::new(), &[]);
    manifest.secrets = secrets.names();
    (dir, manifest, secrets)
}

async fn run(bench: &Bench, text: &str) -> (PathBuf, Shim) {
    let (dir, manifest, secrets) = script(bench, text);
    let shim = bench.shims.spawn(&dir, &manifest, None, &secrets).await.unwrap();
    (dir, shim)
}

/// What numbered lines with the secret become.
fn redacted(numbers: RangeInclusive<u32>) -> String {
    let lines: Vec<String> = numbers.map(|i| format!("{i} [redacted:A_TOKEN]\n")).collect();
    lines.concat()
}

#[track_caller]
fn shows_nothing(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // A socket can't be read, and holds nothing.
        let bytes = fs::read(&path).unwrap_or_default();
        let shows = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!shows, "{}", path.display());
    }
}

#[tokio::test]
async fn the_executor_has_its_secret_and_no_file_and_no_shim_does() {
    let bench = Bench::new();
    let (dir, mut shim) = run(&bench, "echo ${#A_TOKEN}; env | sort; env >&2; read l").await;
    let written = lines(&dir, 2).await;
    assert_eq!(written[..2], [SECRET.len().to_string(), "A_TOKEN=[redacted:A_TOKEN]".to_owned()]);
    until("stderr has it", || {
        let text = held(&dir, Stream::Stderr);
        String::from_utf8_lossy(&text).contains("[redacted:A_TOKEN]")
    })
    .await;
    let shim_pid = Stat::of(shim.started.pid).unwrap().ppid;
    let has = |pid: i32| proc::environ(pid).windows(SECRET.len()).any(|p| p == SECRET.as_bytes());
    assert!(has(shim.started.pid) && !has(shim_pid));
    shim.control.close_stdin().await.unwrap();
    ended(&dir, &mut shim).await;
    shows_nothing(&dir);
}

#[tokio::test]
async fn a_shim_that_is_not_handed_the_secrets_runs_nothing() {
    let bench = Bench::new();
    let (dir, manifest, _) = script(&bench, "echo ran");
    bench.spawn(&dir, &manifest, None).await.unwrap_err();
    assert_eq!(spooled(&dir, Stream::Stdout), 0);
}

#[tokio::test]
async fn half_a_secret_is_held_back_until_it_is_whole_or_over() {
    let bench = Bench::new();
    let text = "half=$(echo $A_TOKEN | cut -c1-9); printf %s \"> $half\"; read l; \
                printf %s \"${A_TOKEN#$half}\"; printf %s \"$half\"; printf %s \"$half\" >&2; exit 3";
    let (dir, mut shim) = run(&bench, text).await;
    until("it has begun", || spooled(&dir, Stream::Stdout) == 2).await;
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    let record = ended(&dir, &mut shim).await;
    let expected = format!("> [redacted:A_TOKEN]{}", &SECRET[..9]);
    assert_eq!(held(&dir, Stream::Stdout), expected.as_bytes());
    assert_eq!(held(&dir, Stream::Stderr), &SECRET.as_bytes()[..9]);
    assert_eq!(record.exit_code, Some(3));
    assert_eq!((record.stdout_bytes, record.stderr_bytes), (expected.len() as u64, 9));
}

#[tokio::test]
async fn a_leaders_record_covers_what_was_held_back_though_its_children_live() {
    let bench = Bench::new();
    let text = "printf %s \"$(echo $A_TOKEN | cut -c1-9)\"; sleep 600 & exit 0";
    let (dir, mut shim) = run(&bench, text).await;
    assert_eq!(exited(&mut shim).await.stdout_bytes, 9);
    assert_eq!(held(&dir, Stream::Stdout), &SECRET.as_bytes()[..9]);
    shim.control.kill_tree().await.unwrap();
}

#[tokio::test]
async fn shims_killed_again_and_again_show_no_secret_and_lose_no_byte() {
    let _turn = alone().await;
    let bench = Bench::new();
    let text = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo $i $A_TOKEN; echo $i $A_TOKEN >&2; \
                done; read l; exit 21";
    let (dir, manifest, secrets) = script(&bench, text);
    // Many segments, and all of them kept.
    let manifest = Manifest { spool_max_bytes: 2 << 20, ..manifest };
    let mut shim = bench.shims.spawn(&dir, &manifest, None, &secrets).await.unwrap();
    for round in 1..=20 {
        until("it goes on", || spooled(&dir, Stream::Stdout) >= round * 20_000).await;
        let pid = shim_pid(&dir);
        kill_shim(&mut shim, pid).await;
        shim = rescue(&bench, &dir, shim).await;
        if round % 5 == 0 {
            // A daemon's restart: the next one gets all that it needs from the shim.
            drop(shim);
            let Adopted::Live(again) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
            shim = again;
        }
    }
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    let record = ended(&dir, &mut shim).await;
    assert_eq!((record.exit_code, record.exit_signal), (Some(21), None));
    let expected = redacted(1..=30_000);
    for stream in [Stream::Stdout, Stream::Stderr] {
        assert!(held(&dir, stream) == expected.as_bytes(), "{stream:?}");
        assert_eq!(covered(&dir, stream), expected.len() as u64);
    }
    shows_nothing(&dir);
}

#[tokio::test]
async fn half_a_secret_outlives_the_shim_that_held_it_back() {
    let _turn = alone().await;
    let bench = Bench::new();
    let text =
        "half=$(echo $A_TOKEN | cut -c1-9); printf %s \"> $half\"; read l; echo ${A_TOKEN#$half}";
    let (dir, mut shim) = run(&bench, text).await;
    for _ in 0..3 {
        until("it has begun", || spooled(&dir, Stream::Stdout) == 2).await;
        let pid = shim_pid(&dir);
        pid.signal(SIGKILL);
        while event(&mut shim).await != ShimEvent::Closed {}
        shim = rescue(&bench, &dir, shim).await;
    }
    shim.control.write_stdin(b"\n".to_vec()).await.unwrap();
    ended(&dir, &mut shim).await;
    assert_eq!(held(&dir, Stream::Stdout), b"> [redacted:A_TOKEN]\n");
}

#[tokio::test]
async fn on_a_full_disk_what_is_to_be_redacted_waits_as_well() {
    let disk = tempfile::tempdir().unwrap();
    let Some(_mounted) = SmallDisk::mount(disk.path()) else {
        eprintln!("not checked: only root may mount a small disk");
        return;
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();

    let _turn = alone().await;
    let bench = Bench::new();
    let text = "seq -f \"%.0f $A_TOKEN\" 1 40000; printf %s $A_TOKEN | cut -c1-9 >&2; exit 8";
    let (_, manifest, secrets) = script(&bench, text);
    let dir = disk.path().join("process");
    let mut shim = bench.shims.spawn(&dir, &manifest, None, &secrets).await.unwrap();
    let ShimEvent::Stalled(reason) = event(&mut shim).await else { panic!("not stalled") };
    assert!(reason.contains("No space"), "{reason}");
    // What was on its way is not the dead shim's alone.
    let pid = shim_pid(&dir);
    kill_shim(&mut shim, pid).await;
    let mut shim = rescue(&bench, &dir, shim).await;
    fs::remove_file(&ballast).unwrap();

    assert_eq!(ended_after_stalls(&mut shim).await, Some(8));
    let expected = redacted(1..=40_000);
    assert!(held(&dir, Stream::Stdout) == expected.as_bytes());
    assert_eq!(covered(&dir, Stream::Stdout), expected.len() as u64);
    assert_eq!(held(&dir, Stream::Stderr), [&SECRET.as_bytes()[..9], b"\n"].concat());
}

#[tokio::test]
async fn a_shim_with_secrets_stays_small() {
    let bench = Bench::new();
    let text = "yes \"$A_TOKEN\" | head -c 10000000; echo end >&2; read l";
    let (dir, shim) = run(&bench, text).await;
    until("all is spooled", || held(&dir, Stream::Stderr) == b"end\n").await;
    let shim_pid = Stat::of(shim.started.pid).unwrap().ppid;
    until("it is small", || private_kib(shim_pid) <= 3 * 1024).await;
    shim.control.kill_tree().await.unwrap();
}
