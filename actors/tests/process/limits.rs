//! Limits as the shim keeps them, and the cgroup that may hold them.

use std::fs;

use nix::libc::SIGKILL;
use provost_actors::limits::{Hold, Limits};
use provost_actors::process::LOST;
use provost_actors::process::cgroup::{self, Cgroup};
use provost_actors::process::identity::Process;
use provost_actors::process::proc;

use crate::support::{Bench, ended, lines, until};

/// Leaves a child that nothing leads to: a session, a parent and an environment
/// of its own.
const LOST_CHILD: &str = r#"
import os, sys, time
os.write(1, open("/proc/self/cgroup", "rb").read().split(b"0::")[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c",
            "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"], {})
    os._exit(0)
time.sleep(600)
"#;

#[tokio::test]
async fn nothing_leaves_a_cgroup_even_when_shim_and_daemon_are_gone() {
    let Ok(base) = cgroup::base() else {
        eprintln!("no cgroup v2 can be made here: not tried");
        return;
    };
    let bench = Bench::new();
    let (dir, mut manifest) = bench.script("");
    manifest.program = "/usr/bin/env".into();
    manifest.args = vec!["python3".into(), "-c".into(), LOST_CHILD.into()];
    manifest.limits = Limits { memory_bytes: 1 << 40, processes: 1000, ..Limits::default() };
    let cgroup = Cgroup::named(&base, &manifest.process_id.to_string());
    manifest.cgroup = Some(cgroup.clone());
    let shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    assert!(shim.started.limits.iter().all(|applied| applied.hold != Hold::No));

    let written = lines(&dir, 2).await;
    assert!(written[0].ends_with(&format!("provost-{}", manifest.process_id)), "{written:?}");
    let lost = Process::of(written[1].parse().unwrap()).unwrap();
    assert!(proc::environ(lost.pid).is_empty());
    assert_eq!(cgroup.members().len(), 2);

    let leader = Process::of(shim.started.pid).unwrap();
    let shim_pid = proc::Stat::of(leader.pid).unwrap().ppid;
    let shim_itself = Process::of(shim_pid).unwrap();
    drop(shim);
    shim_itself.signal(SIGKILL);
    until("the shim is dead", || !shim_itself.is_alive()).await;
    assert!(lost.is_alive());
    bench.shims.sweep(&dir, LOST).await.unwrap();
    assert!(!lost.is_alive() && !leader.is_alive());
    assert!(!fs::exists(base.join(format!("provost-{}", manifest.process_id))).unwrap());
}

#[tokio::test]
async fn a_cgroup_goes_with_its_process() {
    let Ok(base) = cgroup::base() else {
        eprintln!("no cgroup v2 can be made here: not tried");
        return;
    };
    let bench = Bench::new();
    let (dir, mut manifest) = bench.script("setsid sleep 600 & sleep 600");
    manifest.limits = Limits { processes: 1000, ..Limits::default() };
    let cgroup = Cgroup::named(&base, &manifest.process_id.to_string());
    manifest.cgroup = Some(cgroup.clone());
    let mut shim = bench.spawn(&dir, &manifest, None).await.unwrap();
    until("all are in it", || cgroup.members().len() == 3).await;
    let report = shim.control.kill_tree().await.unwrap();
    assert_eq!((report.signalled, report.survivors), (3, vec![]));
    ended(&dir, &mut shim).await;
    assert!(!fs::exists(base.join(format!("provost-{}", manifest.process_id))).unwrap());
}
