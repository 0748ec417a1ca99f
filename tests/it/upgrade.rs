//! A board that a version before this one has made, and what brings it up to date. They need a server,
//! which `.ci/postgres COMMAND` gives them.

use std::process::Stdio;
use std::thread;

use crate::harness::Provost;
use crate::harness::postgres::{database, of_a_former_build, rows};

const RECORDED: &str = "SELECT CAST(version AS text) FROM _sqlx_migrations ORDER BY version";

fn host(url: &str, name: &str) -> Provost {
    let config =
        format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n");
    Provost::new().config(&config)
}

#[test]
fn one_of_two_migrations_at_once_changes_a_board_and_a_killed_one_or_a_new_home_leaves_it() {
    let Some(url) = database("upgrade_it") else { return };
    of_a_former_build(&url);
    let killed = host(&url, "a").variable("PROVOST_FAILPOINT", "migration.written");
    let killed = killed.command(&["cluster", "migrate"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let (b, c) = (host(&url, "b"), host(&url, "c"));
    let refused = b.fails_to_start();
    assert!(refused.stderr.contains("run `provost cluster migrate`"), "{refused:?}");
    assert_eq!(rows(&url, RECORDED), ["35", "36"]);
    let both = thread::scope(|scope| {
        [&b, &c]
            .map(|home| scope.spawn(|| home.verb(["cluster", "migrate"])))
            .map(|it| it.join().unwrap())
    });
    for migrated in both {
        assert_eq!(migrated.code, 0, "{migrated:?}");
        assert!(migrated.stdout.contains("that of this version"), "{migrated:?}");
    }
    assert_eq!(rows(&url, RECORDED), ["36"]);
    b.start();
    assert_eq!(b.board().start("fake", "say done").settled()["state"], "completed");
}
