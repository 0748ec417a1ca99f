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
    assert_eq!(refused.code, 5, "{}", refused.stdout);
    assert!(refused.stderr.contains("another content"), "{}", refused.stderr);
    let added = add(&provost, &path, "1.1.0").json();
    assert_eq!(
        (&added["status"], &added["documents"][0]["source"]),
        (&json!("added"), &json!(SOURCE))
    );
    let command =
        ["plan", "add", &path, "--name", "my-app", "--version", "1.0.0", "--replace", "--json"];
    assert_eq!(provost.verb(command).json()["status"], "replaced");
    let plans = provost.verb(["plan", "list", "--json"]).json()["plans"].clone();
    let versions: Vec<(&Value, &Value)> = plans
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| (&plan["version"], &plan["is_current"]))
        .collect();
    assert_eq!(versions, [(&json!("1.1.0"), &json!(true)), (&json!("1.0.0"), &json!(false))]);
}

#[test]
fn a_folder_gives_its_documents_and_bad_ones_are_reported_by_name() {
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
        refused.stderr.contains("docs/bad.md") && refused.stderr.contains("byte offset 2"),
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

#[test]
fn a_plan_is_removed_version_by_version_or_whole_and_answers_stay() {
    let provost = Provost::running();
    let repo = provost.board().repo().path.clone();
    let path = with_plan(&provost, &repo, SOURCE, PLAN);
    fs::write(&path, PLAN.replace("768", "900")).unwrap();
    assert_eq!(add(&provost, &path, "2").code, 0);
    let mut worker = provost.worker(&repo);
    let ask = json!({"question": "Should sidebar collapse on mobile?"});
    let quote = |answer: &Value| answer["result"]["evidence"]["exactQuote"].to_string();
    assert!(quote(&worker.ask("askQuestion", &ask)).contains("900px"));
    worker.ask("askQuestion", &json!({"question": "Which animation library?"}));
    assert_eq!(provost.verb(["answer", "Q-001", "GSAP"]).code, 0);

    let removed = provost.verb(["plan", "remove", "my-app", "--version", "2"]);
    assert_eq!((removed.code, removed.stdout.as_str()), (0, "my-app 2 was removed\n"));
    assert!(quote(&worker.ask("askQuestion", &ask)).contains("768px"), "the one before");
    for (name, version) in [("my-app", "2"), ("other", "1.0.0")] {
        let refused = provost.verb(["plan", "remove", name, "--version", version]);
        assert_eq!(refused.code, 4);
        assert!(refused.stderr.contains("There is no version"), "{}", refused.stderr);
        assert!(refused.stderr.contains("provost plan list"), "{}", refused.stderr);
    }
    assert_eq!(add(&provost, &path, "3").code, 0);
    let removed = provost.verb(["plan", "remove", "my-app", "--json"]).json();
    assert_eq!(removed, json!({"name": "my-app", "versions": ["1.0.0", "3"]}));
    assert_eq!(provost.verb(["plan", "list", "--json"]).json()["plans"], json!([]));
    let answer = worker.ask("askQuestion", &json!({"question": "Which animation library?"}));
    assert_eq!(answer["result"]["answerFromPlan"], "GSAP", "{answer}");
    assert_eq!(add(&provost, &path, "1.0.0").json()["status"], "added", "as if it never was");
}

#[test]
fn a_plan_needs_a_name_that_can_be_shown_and_each_file_is_taken_once() {
    let provost = Provost::running();
    let repo = provost.board().repo().path.clone();
    let path = repo.join("a.md");
    fs::write(&path, "# A\n\nIt is said.\n").unwrap();
    fs::write(repo.join("empty.md"), "# Nothing\n").unwrap();
    let path = path.to_str().unwrap();
    for (name, version, said) in [
        ("", "1", "name is blank"),
        (" ", "1", "name is blank"),
        ("a", "", "version is blank"),
        ("a\nb", "1", "name has control characters"),
        ("a", "\u{1b}[1m", "version has control characters"),
    ] {
        let refused = provost.verb(["plan", "add", path, "--name", name, "--version", version]);
        assert_eq!(refused.code, 1, "{name:?} {version:?}");
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let folder = repo.to_str().unwrap();
    let empty = repo.join("empty.md");
    let added = provost.verb([
        "plan",
        "add",
        path,
        path,
        folder,
        empty.to_str().unwrap(),
        "--name",
        "a",
        "--version",
        "1",
    ]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_eq!(added.stdout.matches("a.md: 1 section\n").count(), 1, "{}", added.stdout);
    assert!(added.stderr.contains("warning: empty.md has no section"), "{}", added.stderr);
}
