//! `provost plan`: what is kept, what is refused, and what is asked.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Done, Provost};

/// The plan of the reference's example, with the example's path.
pub const SOURCE: &str = "Docs/Plans/my-app/plan.json";
pub const PLAN: &str = r#"{
  "planId": "my-app",
  "designChoices": {
    "navigationStyle": "Sidebar collapses to hamburger menu on mobile (< 768px breakpoint)",
    "pageLayout": "Sidebar Navigation (persistent on desktop)",
    "breakpoints": "Mobile 0-767px, Tablet 768px-1023px, Desktop 1024px+",
    "animation": "All transitions use 200ms timing function"
  }
}
"#;

/// Writes a document into a repository and adds it as version 1.0.0 of a plan.
pub fn with_plan(provost: &Provost, repo: &std::path::Path, source: &str, text: &str) -> String {
    let path = repo.join(source);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    let added = add(provost, &path, "1.0.0");
    assert_eq!(added.code, 0, "{}", added.stderr);
    path
}

fn add(provost: &Provost, path: &str, version: &str) -> Done {
    provost.verb(["plan", "add", path, "--name", "my-app", "--version", version, "--json"])
}

#[test]
fn the_same_plan_again_changes_nothing_and_another_needs_a_version_of_its_own() {
    let provost = Provost::running();
    let board = provost.board();
    let path = with_plan(&provost, &board.repo().path, SOURCE, PLAN);
    assert_eq!(add(&provost, &path, "1.0.0").json()["status"], "unchanged");
    fs::write(&path, PLAN.replace("768", "800")).unwrap();
    let refused = add(&provost, &path, "1.0.0");
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("says something else"), "{}", refused.stderr);
    let added = add(&provost, &path, "1.1.0").json();
    assert_eq!(
        (&added["status"], &added["documents"][0]["source"]),
        (&json!("added"), &json!(SOURCE))
    );
    let command =
        ["plan", "add", &path, "--name", "my-app", "--version", "1.0.0", "--replace", "--json"];
    assert_eq!(provost.verb(command).json()["status"], "replaced");
    let plans = provost.verb(["plan", "list", "--json"]).json()["plans"].clone();
    let told: Vec<(&Value, &Value)> = plans
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| (&plan["version"], &plan["is_current"]))
        .collect();
    assert_eq!(told, [(&json!("1.1.0"), &json!(true)), (&json!("1.0.0"), &json!(false))]);
}

#[test]
fn a_folder_gives_its_documents_and_bad_ones_are_told_by_name() {
    let provost = Provost::running();
    let repo = provost.board().repo().path.clone();
    let folder = repo.join("docs");
    fs::create_dir_all(folder.join("more")).unwrap();
    for (name, text) in
        [("a.md", "\u{feff}# A\r\n\r\nÜber alles.\r\n"), ("more/b.txt", "b is b."), ("c.rs", "")]
    {
        fs::write(folder.join(name), text).unwrap();
    }
    let folder_path = folder.to_str().unwrap();
    let added = add(&provost, folder_path, "1").json();
    let sources: Vec<&Value> =
        added["documents"].as_array().unwrap().iter().map(|document| &document["source"]).collect();
    assert_eq!(sources, ["docs/a.md", "docs/more/b.txt"]);
    fs::write(folder.join("bad.md"), b"ab\xff").unwrap();
    let refused = add(&provost, folder_path, "2");
    assert!(
        refused.stderr.contains("docs/bad.md") && refused.stderr.contains("byte 2"),
        "{}",
        refused.stderr
    );
    fs::write(folder.join("bad.md"), vec![b'x'; (8 << 20) + 1]).unwrap();
    let refused = add(&provost, folder_path, "2");
    assert!(refused.stderr.contains("8 MiB"), "{}", refused.stderr);
    fs::rename(folder.join("bad.md"), folder.join("bad.json")).unwrap();
    fs::write(folder.join("bad.json"), "{\"a\": ").unwrap();
    assert!(add(&provost, folder_path, "2").stderr.contains("not JSON"));
    assert_eq!(
        provost.verb(["plan", "list", "--json"]).json()["plans"].as_array().unwrap().len(),
        1
    );
}
