//! A board that a version before this one has made, and what brings it up to date. They need a server,
//! which `.ci/postgres COMMAND` gives them.

use std::process::Stdio;
use std::thread;

use crate::harness::Provost;
use crate::harness::postgres::{database, of_the_version_before, rows};

const NEWEST: &str = "SELECT CAST(max(version) AS text) FROM _sqlx_migrations";

fn host(url: &str, name: &str) -> Provost {
    let config =
        format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n");
    Provost::new().config(&config)
}

#[test]
fn one_of_two_migrations_at_once_changes_a_board_and_a_killed_one_or_a_new_home_leaves_it() {
    let Some(url) = database("upgrade_it") else { return };
    let [before, newest] = of_the_version_before(&url);
    let killed = host(&url, "a").variable("PROVOST_FAILPOINT", "migration.written");
    let killed = killed.command(&["cluster", "migrate"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let (b, c) = (host(&url, "b"), host(&url, "c"));
    let refused = b.fails_to_start();
    assert!(refused.stderr.contains("run `provost cluster migrate`"), "{refused:?}");
    assert_eq!(rows(&url, NEWEST), [before.to_string()]);
    let both = thread::scope(|scope| {
        [&b, &c]
            .map(|home| scope.spawn(|| home.verb(["cluster", "migrate"])))
            .map(|it| it.join().unwrap())
    });
    for migrated in both {
        assert_eq!(migrated.code, 0, "{migrated:?}");
        assert!(migrated.stdout.contains("that of this version"), "{migrated:?}");
    }
    assert_eq!(rows(&url, NEWEST), [newest.to_string()]);
    b.start();
    assert_eq!(b.board().start("fake", "say done").settled()["state"], "completed");
}
