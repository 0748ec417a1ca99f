//! Starting, and what becomes of what could not be started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use provost_actors::event::Stream;
use provost_actors::process::records::{self, ExitRecord, Manifest, Started, StdinSource};
use provost_actors::process::{Adopted, NEVER_STARTED, SpawnError};

use crate::support::{Bench, ended, held, lines};

#[tokio::test]
async fn exit_codes_and_signals_are_distinguished() {
    let bench = Bench::new();
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 199", Some(199), None),
        ("kill -KILL $$", None, Some(9)),
        ("kill -40 $$", None, Some(40)),
    ] {
        let (dir, mut shim) = bench.run(script).await;
        let record = ended(&dir, &mut shim).await;
        assert_eq!((record.exit_code, record.exit_signal), (code, signal), "{script}");
        assert_eq!(records::read(&dir, ExitRecord::FILE).unwrap(), Some(record));
        assert!(!dir.join("sock").exists());
    }
}

#[tokio::test]
async fn who_runs_is_on_disk_before_it_runs() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("");
    let started = dir.join(Started::FILE);
    let manifest = Manifest {
        args: vec!["-c".into(), format!("echo $$; cat {}", started.display())],
        epoch: 42,
        ..manifest
    };
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    ended(&dir, &mut shim).await;
    let output = String::from_utf8(held(&dir, Stream::Stdout)).unwrap();
    let (pid, seen) = output.split_once('\n').unwrap();
    let seen: Started = serde_json::from_str(seen).unwrap();
    assert_eq!((seen.pid.to_string().as_str(), seen.epoch), (pid, 42));
    assert_eq!(shim.started, seen);
}

#[tokio::test]
async fn the_executor_gets_its_manifest_and_nothing_of_ours() {
    let bench = Bench::new();
    let script = "pwd; env | sort; trap; ls -l /proc/self/fd | grep -c socket; \
                  grep -E 'Sig(Blk|Ign)' /proc/self/status; \
                  test $(ps -o sid= -p $$) = $$ && echo leads; cat";
    let (dir, mut manifest) = bench.script(script);
    manifest.stdin = StdinSource::File;
    manifest.env.insert("SOME".into(), "thing".into());
    let mut shim = bench.spawn(&dir, &manifest, Some(b"given")).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(0));

    let output = String::from_utf8(held(&dir, Stream::Stdout)).unwrap();
    let cwd = bench.root.path().canonicalize().unwrap();
    assert!(output.starts_with(cwd.to_str().unwrap()), "{output}");
    assert!(output.contains("\nSOME=thing\n"), "{output}");
    assert!(!output.contains("CARGO"), "{output}");
    assert!(output.contains("\n0\nSigBlk:"), "a socket was inherited: {output}");
    for line in output.lines().filter_map(|line| line.strip_prefix("Sig")) {
        let (name, mask) = line.split_once(":\t").unwrap();
        // The two that the C library keeps for itself can't be set (nptl(7)).
        let mask = u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31);
        assert_eq!(mask, 0, "{name}");
    }
    assert!(output.ends_with("leads\ngiven"), "{output}");
    let mode = fs::metadata(dir.join("manifest.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn empty_input_ends_at_once() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("cat; echo done");
    let manifest = Manifest { stdin: StdinSource::Empty, ..manifest };
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    ended(&dir, &mut shim).await;
    assert_eq!(held(&dir, Stream::Stdout), b"done\n");
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_in_words_and_has_its_record() {
    let bench = Bench::new();
    let gone = Path::new("/nowhere/at-all");
    let (dir, no_program) = bench.script("");
    let no_program = Manifest { program: gone.into(), ..no_program };
    let (other, no_folder) = bench.script("");
    let no_folder = Manifest { cwd: gone.into(), ..no_folder };

    for (dir, manifest, words) in
        [(dir, no_program, "can't run /nowhere/at-all"), (other, no_folder, "can't run in")]
    {
        let error = bench.spawn(&dir, &manifest, None).await.unwrap_err();
        let SpawnError::Refused(reason) = error else { panic!("{error}") };
        assert!(reason.starts_with(words), "{reason}");
        let Adopted::Ended(record) = bench.shims.adopt(&dir).await.unwrap() else { panic!() };
        assert_eq!((record.exit_code, record.reason), (None, Some(reason)));
    }
}

#[tokio::test]
async fn nothing_runs_where_a_link_leads_out_of_the_place_that_is_asked_for() {
    let bench = Bench::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("worktrees");
    for folder in ["real/repo", "elsewhere"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    // The way to the root is the user's own affair.
    std::os::unix::fs::symlink(&root, scratch.path().join("home")).unwrap();
    let root = scratch.path().join("home");
    std::os::unix::fs::symlink("../elsewhere", root.join("real/link")).unwrap();
    let within = |below: &str| {
        let (dir, manifest) = bench.script("pwd -P");
        let cwd = root.join(below);
        (dir, Manifest { cwd, cwd_beneath: Some(root.clone()), ..manifest })
    };
    let (dir, manifest) = within("real/repo");
    ended(&dir, &mut bench.spawn(&dir, &manifest, None).await.unwrap()).await;
    assert!(held(&dir, Stream::Stdout).ends_with(b"worktrees/real/repo\n"));
    let (dir, manifest) = within("real/link");
    let error = bench.spawn(&dir, &manifest, None).await.unwrap_err();
    assert!(error.to_string().contains("a link stands on the way there"), "{error}");
}

#[tokio::test]
async fn a_folder_whose_start_was_cut_short_is_closed_for_good() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("echo ran");
    assert!(matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::NeverStarted));
    fs::create_dir(&dir).unwrap();
    records::write_durably(&dir, Manifest::FILE, &manifest).unwrap();
    for _ in 0..2 {
        assert!(matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::NeverStarted));
    }
    let record: ExitRecord = records::read(&dir, ExitRecord::FILE).unwrap().unwrap();
    assert_eq!(record.reason.as_deref(), Some(NEVER_STARTED));

    // The shim that was on its way finds the folder closed.
    let error = bench.spawn(&dir, &manifest, None).await.unwrap_err();
    assert!(matches!(error, SpawnError::Refused(_)), "{error}");
    assert_eq!(held(&dir, Stream::Stdout), b"");
}

#[tokio::test]
async fn one_folder_never_runs_twice() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("echo ran; cat");
    let first = bench.spawn(&dir, &manifest, None).await.unwrap();
    lines(&dir, 1).await;
    let second = bench.spawn(&dir, &manifest, None).await.unwrap();
    assert_eq!(second.started, first.started, "it attaches to what runs");
    first.control.kill_tree().await.unwrap();
    assert_eq!(held(&dir, Stream::Stdout), b"ran\n");
}

#[tokio::test]
async fn a_shim_runs_with_sixteen_descriptors_and_under_a_long_path() {
    let wrapper = tempfile::tempdir().unwrap();
    let program = wrapper.path().join("limited");
    let shim = env!("CARGO_BIN_EXE_provost-test-shim");
    fs::write(&program, format!("#!/bin/sh\nulimit -n 16\nexec {shim} \"$@\"\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();

    let bench = Bench::with_shim(program);
    let (_, manifest) = bench.script("ulimit -n; (setsid sleep 600 &); cat; exit 4");
    let dir = bench.root.path().join("long".repeat(40)).join("er".repeat(40));
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    let second = bench.shims.adopt(&dir).await.unwrap();
    assert_eq!(lines(&dir, 1).await, ["16"]);
    shim.control.close_stdin().await.unwrap();
    drop(second);
    assert_eq!(crate::support::exited(&mut shim).await.exit_code, Some(4));
    let report = shim.control.kill_tree().await.unwrap();
    assert_eq!((report.signalled, report.survivors.len()), (1, 0));
}

#[tokio::test]
async fn a_shim_whose_folder_has_been_deleted_ends_with_its_executor() {
    let bench = Bench::new();
    let (dir, mut shim) = bench.run("exec sleep 1000").await;
    fs::remove_dir_all(&dir).unwrap();
    shim.control.kill_tree().await.unwrap();
    ended(&dir, &mut shim).await;
}

#[tokio::test]
async fn a_start_that_was_given_up_can_be_made_again() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("echo once");
    fs::create_dir(&dir).unwrap();
    records::write_durably(&dir, Manifest::FILE, &manifest).unwrap();
    assert!(matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::NeverStarted));
    bench.spawn(&dir, &manifest, None).await.unwrap_err();
    bench.shims.reopen(&dir).await.unwrap();
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(0));
    // A second one finds that it has run, and how it ended; it runs nothing.
    let mut again = bench.spawn(&dir, &manifest, None).await.unwrap();
    assert_eq!(ended(&dir, &mut again).await.exit_code, Some(0));
    assert_eq!(held(&dir, Stream::Stdout), b"once\n");
}

#[tokio::test]
async fn a_late_shim_that_is_being_refused_does_not_keep_a_folder_closed() {
    let bench = Bench::new();
    let (dir, manifest) = bench.script("echo once");
    fs::create_dir(&dir).unwrap();
    records::write_durably(&dir, Manifest::FILE, &manifest).unwrap();
    assert!(matches!(bench.shims.adopt(&dir).await.unwrap(), Adopted::NeverStarted));
    // As it does from the moment it comes to the moment it has seen the record.
    let lock = fs::File::options().write(true).open(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let (shims, folder) = (bench.shims.clone(), dir.clone());
    let mut reopening = tokio::spawn(async move { shims.reopen(&folder).await });
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut reopening).await;
    assert!(waited.is_err(), "it is not done while the lock is held");
    drop(lock);
    reopening.await.unwrap().unwrap();
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    assert_eq!(ended(&dir, &mut shim).await.exit_code, Some(0));
}
