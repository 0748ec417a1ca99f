use serde_json::json;

use super::*;
use crate::http::page::samples::{HOSTILE, assert_harmless, lines, read as from};

fn executors(text: &str) -> Vec<ExecutorSummary> {
    let missing = json!({
        "executor": "codex", "protocol": "codex", "version": null, "variants": [],
        "default_variant": null, "supports_mcp": false, "available": false,
        "unavailable_reason": text, "install": text, "supports_resume": false,
        "supports_interrupt": false, "supports_approvals": false, "note": text, "stand_in": true,
    });
    let there = json!({
        "executor": "claude", "protocol": "claude", "version": "2.0.1", "variants": ["fast", "slow"],
        "default_variant": "fast", "supports_mcp": true, "available": true,
        "unavailable_reason": null, "install": null, "supports_resume": true,
        "supports_interrupt": true, "supports_approvals": true, "note": null, "stand_in": false,
    });
    from(json!([there, missing]))
}

fn projects(text: &str) -> Vec<Project> {
    let repo = json!({
        "repo_name": "app", "path": "/src/app", "branch": "main", "commit": "c0ffee",
        "settings": [{"key": "setup.command", "value": text, "origin": "provost.toml:3"}],
        "commands": text, "hash": "1", "is_trusted": false,
    });
    let repos = vec![("app".to_owned(), "/src/app".to_owned(), "main".to_owned())];
    vec![
        Project { name: "app".into(), repos, provisioned: Ok(vec![from(repo)]) },
        Project { name: "lost".into(), repos: vec![], provisioned: Err(Some(text.to_owned())) },
    ]
}

fn findings(text: &str) -> Vec<Finding> {
    let of = |status: &str| json!({"name": "git", "status": status, "message": text, "hint": text});
    from(json!([of("ok"), of("warn"), of("fail")]))
}

#[test]
fn settings_say_what_runs_and_what_applies() {
    let info = json!({"version": "0.1.0", "pid": 7, "home": "/home/p/.provost", "path": "/usr/bin",
        "running": 2, "queued": 1});
    let info: Info = from(info);
    let sections = [
        whole(&Ok(info)),
        executor_table(&executors("not found"), &BTreeMap::from([("claude".to_owned(), true)])),
        project_list(&projects("make setup")),
        finding_list(Ok(findings("it is old"))),
        finding_list(Err(None)),
    ];
    insta::assert_snapshot!(sections.map(lines).join("\n\n"));
}

#[test]
fn only_another_user_reads_that_the_page_is_not_for_them() {
    let shown = |why: Option<&str>| {
        let why = why.map(str::to_owned);
        let lost = Project { name: "lost".into(), repos: vec![], provisioned: Err(why.clone()) };
        [whole(&Err(why.clone())), project_list(&[lost]), finding_list(Err(why))].map(lines)
    };
    let failed = shown(Some("the doctor can't be run"));
    assert!(failed.iter().all(|it| it.contains("can't be run") && !it.contains("own user")));
    assert!(shown(None).iter().all(|it| it.contains("Only the daemon's own user")));
}

#[test]
fn what_others_write_stays_text() {
    assert_harmless(&lines(executor_table(&executors(HOSTILE), &BTreeMap::new())));
    assert_harmless(&lines(finding_list(Ok(findings(HOSTILE)))));
    assert_harmless(&lines(finding_list(Err(Some(HOSTILE.to_owned())))));
    assert_harmless(&lines(project_list(&projects(HOSTILE))));
}
