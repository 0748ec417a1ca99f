//! Modes of Provost's own folders: no box keeps an agent from changing them, so they are put right.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{can_hold, ran};
use crate::harness::{Provost, Web, is_root, left_out, wait_until};

fn mode(provost: &Provost, below: &str) -> u32 {
    let found = fs::symlink_metadata(provost.home().join(below)).unwrap();
    found.permissions().mode() & 0o777
}

#[test]
fn what_an_agent_does_to_the_modes_of_the_home_is_put_right() {
    if !can_hold() {
        return;
    }
    let provost = super::provost().started();
    let board = provost.board();
    let home = provost.home().display().to_string();
    let changes = [
        ("chmod 0755", "", 0o700),
        ("chmod 0", "run", 0o700),
        ("chmod 0777", "attempts", 0o700),
        ("chmod 0", "worktrees", 0o700),
        ("chmod 0", "provost.db", 0o600),
        ("chmod 0", "config.toml", 0o600),
        ("chmod 0", "", 0o700),
    ];
    for (chmod, below, right) in changes {
        // Which of them comes last depends on the others: as root none of them stops anything.
        ran(&board, "boxed", &[format!("{chmod} {home}/{below}")]);
        let done = provost.verb(["ps"]);
        assert_eq!(done.code, 0, "{chmod} {below}: {done:?}");
        assert_eq!(mode(&provost, below) & right, right, "{chmod} {below}");
        assert_eq!(mode(&provost, ""), 0o700);
    }
    // The daemon does so by itself as well.
    ran(&board, "boxed", &[format!("chmod 0755 {home}")]);
    wait_until("the home is private again", || mode(&provost, "") == 0o700);
}

#[test]
fn a_home_that_its_owner_can_not_enter_is_opened_again() {
    if !is_root() && left_out("it takes root to become another user") {
        return;
    }
    let provost = Provost::new().unprivileged().started();
    let spoil = |below: &str| {
        let path = provost.home().join(below);
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    };
    for folders in [&["attempts", "run", ""][..], &["run"], &[""]] {
        for folder in folders {
            spoil(folder);
        }
        let output = provost.verb(["ps"]);
        assert_eq!(output.code, 0, "{folders:?}: {output:?}");
    }
    assert_eq!(provost.verb(["shutdown"]).code, 0);
    for it in ["provost.db", "attempts", "run", ""] {
        spoil(it);
    }
    let output = provost.verb(["doctor"]);
    assert!(output.stdout.contains("is closed to its owner (mode 0)"), "{output:?}");
    provost.verb(["doctor", "--fix"]);
    for below in ["provost.db", "attempts", "run", ""] {
        assert_eq!(mode(&provost, below) & 0o600, 0o600, "{below}");
    }
    for it in ["provost.db", "attempts", "run", ""] {
        spoil(it);
    }
    let output = provost.verb(["ps"]);
    assert_eq!(output.code, 0, "a new start: {output:?}");
}

#[test]
fn a_token_that_others_could_read_is_renewed() {
    if !can_hold() {
        return;
    }
    let provost = super::provost().started();
    let board = provost.board();
    let before = Web::of(&provost);
    assert_eq!(before.get("/").status, 200);
    let token = || fs::read_to_string(provost.home().join("http-token")).unwrap();
    let known = token();
    let command = format!("chmod 0644 {}/http-token", provost.home().display());
    let results = ran(&board, "boxed", &[command]);
    assert_eq!(results[0].0, 0, "{results:?}");
    wait_until("there is another token", || token() != known);
    assert_eq!(mode(&provost, "http-token"), 0o600);
    wait_until("the old one is of no use", || before.get("/").status == 401);
    assert_eq!(Web::of(&provost).get("/").status, 200);
    // While no daemon runs, the next one does it.
    let known = token();
    provost.kill();
    let path = provost.home().join("http-token");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    provost.start();
    wait_until("there is a third one", || token() != known);
    assert_eq!(mode(&provost, "http-token"), 0o600);
}
