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
fn one_of_those_that_start_at_once_brings_a_board_up_to_date_and_one_that_is_killed_leaves_it() {
    let Some(url) = database("upgrade_it") else { return };
    let [before, newest] = of_the_version_before(&url);
    let killed = host(&url, "a").variable("PROVOST_FAILPOINT", "migration.written");
    let killed = killed.command(&["cluster", "migrate"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    assert_eq!(rows(&url, NEWEST), [before.to_string()]);
    let (b, c) = (host(&url, "b"), host(&url, "c"));
    let migrated = thread::scope(|scope| {
        let starting = scope.spawn(|| b.start());
        let migrated = c.verb(["cluster", "migrate"]);
        starting.join().unwrap();
        migrated
    });
    assert_eq!(migrated.code, 0, "{migrated:?}");
    assert!(migrated.stdout.contains("that of this version"), "{migrated:?}");
    assert_eq!(rows(&url, NEWEST), [newest.to_string()]);
    let board = b.board();
    assert_eq!(board.start("fake", "say done").settled()["state"], "completed");
}
