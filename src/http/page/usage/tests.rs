use serde_json::json;

use super::*;
use crate::http::page::samples::{HOSTILE, OTHER, PROJECT, assert_harmless, lines, read};

fn usage(name: &str) -> Usage {
    let row = |day: u32, project: &str, name: &str, executor: &str, cost: f64| {
        json!({
            "day": day, "project_id": project, "project_name": name, "executor": executor,
            "turns": 2, "input_tokens": 1_500, "output_tokens": 500, "cost_usd": cost,
            "without_cost": u64::from(cost == 0.0) * 2,
        })
    };
    read(json!({
        "from": "2026-11-01T00:00:00.000Z", "days": 7,
        "rows": [row(0, PROJECT, name, "claude", 1.5), row(0, OTHER, "site", "codex", 0.25),
                 row(6, PROJECT, name, "codex", 0.0)],
    }))
}

#[test]
fn usage_is_drawn_and_listed() {
    insta::assert_snapshot!(lines(whole(&usage("app"), By::Project)));
}

#[test]
fn what_cost_most_comes_first() {
    let usage = usage("app");
    let names =
        |by| sums(&usage, by).into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(By::Project), ["app", "site"]);
    assert_eq!(names(By::Executor), ["claude", "codex"]);
}

#[test]
fn a_month_without_a_turn_says_so() {
    let usage = Usage { rows: vec![], ..usage("app") };
    assert!(lines(whole(&usage, By::Executor)).contains("No turn has ended"));
}

#[test]
fn what_others_write_stays_text() {
    assert_harmless(&lines(whole(&usage(HOSTILE), By::Project)));
}
