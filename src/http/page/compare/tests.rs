use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::http::page::samples::{
    ATTEMPT, HOSTILE, OTHER, TASK, assert_harmless, lines, now, read, status,
};

fn changes(files: &[&str]) -> GetAttemptChangesOutput {
    let file = |path: &&str| json!({"path": path, "status": "modified", "added": 3, "deleted": 1});
    let files: Vec<Value> = files.iter().map(file).collect();
    read(json!({
        "summary": {"file_count": files.len(), "added": 3, "deleted": 1, "total_bytes": 9},
        "blocked": false, "blocked_reason": null, "files": files, "truncated": false, "hint": null,
    }))
}

fn side(id: &str, members: &Value, files: &[&str]) -> Side {
    let outcome = json!({
        "attempt_id": id, "turns": 2, "turns_ms": 90_000, "finish": "merge",
        "finish_state": "checks_failed",
        "checks": [{"name": "lint", "outcome": "passed"}, {"name": "test", "outcome": "timed_out"}],
    });
    Side {
        status: read(status(id, members)),
        outcome: Some(read(outcome)),
        changes: Some(changes(files)),
    }
}

fn task() -> TaskId {
    TASK.parse().unwrap()
}

#[test]
fn attempts_stand_side_by_side() {
    let usage = json!({"usage": {"input_tokens": 12_345, "output_tokens": 678, "cost_usd": 0.5}});
    let failed = json!({"state": "failed", "failure_summary": "exit code 3", "executor": "codex"});
    let lost = Side { changes: None, outcome: None, ..side(OTHER, &failed, &[]) };
    let sides = [side(ATTEMPT, &usage, &["app/a.rs", "app/b.rs"]), lost];
    insta::assert_snapshot!(lines(compared(task(), &sides, (2, false), now())));
}

#[test]
fn a_page_that_has_not_all_attempts_says_so() {
    let says = |total| {
        let sides = [side(ATTEMPT, &json!({}), &[])];
        let shown = compared(task(), &sides, total, now()).into_string();
        let said = shown.split("<p class=\"small muted\">").nth(1)?;
        Some(said.split('<').next().unwrap().to_owned())
    };
    assert_eq!(says((20, true)).unwrap(), "The newest 1 of more than 20.");
    assert_eq!(says((7, false)).unwrap(), "The newest 1 of 7.");
    assert_eq!(says((1, false)), None);
}

#[test]
fn files_of_several_attempts_come_first() {
    let none = json!({});
    let sides = [side(ATTEMPT, &none, &["a", "b", "c"]), side(OTHER, &none, &["c", "d"])];
    let shared = overlap(&sides);
    let paths: Vec<_> = shared.iter().map(|it| (it.path, it.count())).collect();
    assert_eq!(paths, [("c", 2), ("a", 1), ("b", 1), ("d", 1)]);
}

#[test]
fn what_others_write_stays_text() {
    let words = json!({"final_message": HOSTILE, "failure_summary": HOSTILE, "executor": HOSTILE});
    let sides = [side(ATTEMPT, &words, &[HOSTILE])];
    assert_harmless(&lines(compared(task(), &sides, (9, false), now())));
}

proptest! {
    #[test]
    fn every_change_is_in_the_overlap_once(files in prop::collection::vec(prop::collection::btree_set("[a-d]", 0..4), 1..5)) {
        let none = json!({});
        let sides: Vec<Side> = files.iter().map(|files| {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            side(ATTEMPT, &none, &files)
        }).collect();
        let shared = overlap(&sides);
        let count: usize = shared.iter().map(Shared::count).sum();
        prop_assert_eq!(count, files.iter().map(std::collections::BTreeSet::len).sum::<usize>());
        prop_assert!(shared.is_sorted_by_key(|it| std::cmp::Reverse(it.count())));
    }
}
