//! What an attempt made: its changes, its files, its patch, and where the answers
//! are kept small.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost, Repo};
use crate::hints;

const LINES: &str = "run seq 1 100 > many.txt";

/// An attempt that has ended after doing this.
fn done<'p>(board: &Board<'p>, prompt: &str) -> Attempt<'p> {
    let attempt = board.start("fake", prompt);
    assert_eq!(attempt.settled()["state"], "completed");
    attempt
}

fn ask(provost: &Provost, tool: &str, attempt: &Attempt, more: &Value) -> Value {
    provost.call(tool, &arguments(attempt, more))
}

fn arguments(attempt: &Attempt, more: &Value) -> Value {
    let mut arguments = json!({"attempt_id": attempt.id});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn paths(changes: &Value) -> Vec<&str> {
    changes["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect()
}

fn worktree(provost: &Provost, attempt: &Attempt, repo: &str) -> PathBuf {
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    let folder = branch.strip_prefix("provost/").unwrap();
    provost.home().join("worktrees").join(folder).join(repo)
}

/// Checks and applies a patch where the attempt began.
fn apply(repo: &Repo, dir: &Path, patch: &Value) {
    let file = repo.path.with_extension("patch");
    fs::write(&file, patch["patch"].as_str().unwrap()).unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    repo.git(&["-C", dir, "apply", "--check", file]);
    repo.git(&["-C", dir, "apply", file]);
}

#[test]
fn changes_files_and_patch_tell_the_same_story() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit("old.txt", &"a line to be moved\n".repeat(20));
    let attempt = done(
        &board,
        "write README.md new\nrun git commit --quiet -am x\nrun git mv old.txt new.txt\n\
         write sub/untracked.txt hello",
    );
    let changes = ask(&provost, "get_attempt_changes", &attempt, &json!({}));
    assert_eq!(
        changes["files"],
        json!([
            {"path": "app/README.md", "status": "modified", "added": 1, "deleted": 1},
            {"path": "app/new.txt", "status": "renamed", "added": 0, "deleted": 0},
            {"path": "app/sub/untracked.txt", "status": "added", "added": 1, "deleted": 0},
        ])
    );
    let bytes = "new\n".len() + 20 * "a line to be moved\n".len() + "hello\n".len();
    let summary = json!({"file_count": 3, "added": 2, "deleted": 1, "total_bytes": bytes});
    assert_eq!(changes["summary"], summary);
    assert_eq!((&changes["blocked"], &changes["hint"]), (&json!(false), &Value::Null));

    let file =
        ask(&provost, "get_attempt_file", &attempt, &json!({"path": "app/sub/untracked.txt"}));
    assert_eq!((&file["content"], &file["encoding"]), (&json!("hello\n"), &json!("utf-8")));
    assert_eq!((&file["start_line"], &file["end_line"]), (&json!(1), &json!(1)));
    assert_eq!((&file["truncated"], &file["next_offset"]), (&json!(false), &Value::Null));

    let one = ask(&provost, "get_attempt_patch", &attempt, &json!({"paths": ["app/new.txt"]}));
    assert!(one["patch"].as_str().unwrap().contains("rename from old.txt"), "{one}");
    let all = json!({"paths": paths(&changes)});
    let patch = ask(&provost, "get_attempt_patch", &attempt, &all);
    assert_eq!(patch["files"], changes["files"]);
    apply(board.repo(), &board.repo().path, &patch);
    assert_eq!(fs::read_to_string(board.repo().path.join("README.md")).unwrap(), "new\n");
    assert!(!board.repo().path.join("old.txt").exists());
}

#[test]
fn several_repositories_are_distinguished_and_patched_side_by_side() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = done(&board, "write front/x.txt one\nwrite back/README.md two");
    let changes = ask(&provost, "get_attempt_changes", &attempt, &json!({}));
    assert_eq!(paths(&changes), ["front/x.txt", "back/README.md"]);
    let patch = ask(&provost, "get_attempt_patch", &attempt, &json!({"paths": paths(&changes)}));
    let text = patch["patch"].as_str().unwrap();
    assert!(text.contains("+++ b/front/x.txt") && text.contains("--- a/back/README.md"), "{text}");
    let beside = board.repo().path.parent().unwrap();
    apply(board.repo(), beside, &patch);
    assert_eq!(fs::read_to_string(beside.join("front/x.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(beside.join("back/README.md")).unwrap(), "two\n");
    // A path without its repository is led to the right one.
    for (tool, field) in [("get_attempt_file", "path"), ("get_attempt_patch", "paths")] {
        let path = if field == "path" { json!("x.txt") } else { json!(["x.txt"]) };
        let refusal = provost.refusal(tool, &arguments(&attempt, &json!({field: path})));
        assert_eq!(refusal["code"], "file_not_found");
        assert_eq!(refusal["details"]["nearest"], "front/x.txt");
    }
}

#[test]
fn guard_blocks_file_list_and_force_bypasses_guard() {
    for guard in ["changes_max_files = 1", "changes_max_lines = 99", "changes_max_bytes = 200"] {
        let provost = Provost::new().config(&format!("[guards]\n{guard}")).started();
        let attempt = done(&provost.board(), &format!("{LINES}\nwrite b.txt b"));
        let blocked = ask(&provost, "get_attempt_changes", &attempt, &json!({}));
        assert_eq!(blocked["blocked"], true, "{guard}");
        assert_eq!(blocked["blocked_reason"], "threshold_exceeded");
        assert_eq!((&blocked["files"], &blocked["summary"]["file_count"]), (&json!([]), &json!(2)));
        let forced = hints::go_on(&json!({}), &blocked);
        assert_eq!(forced, json!({"force": true}));
        let forced = ask(&provost, "get_attempt_changes", &attempt, &json!({"force": true}));
        assert_eq!((&forced["blocked"], &forced["blocked_reason"]), (&json!(false), &Value::Null));
        assert_eq!(paths(&forced), ["app/b.txt", "app/many.txt"]);
        assert_eq!(forced["summary"], blocked["summary"]);
    }
}

#[test]
fn a_forced_list_ends_at_5000_files_and_says_so() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "run mkdir d; cd d; seq 1 5100 | xargs touch");
    let forced = ask(&provost, "get_attempt_changes", &attempt, &json!({"force": true}));
    assert_eq!(forced["summary"]["file_count"], 5100);
    assert_eq!((paths(&forced).len(), &forced["truncated"]), (5000, &json!(true)));
    assert!(forced["hint"].is_string());
}

#[test]
fn artifact_retrieval_is_size_bounded() {
    let provost = Provost::new()
        .config("[guards]\nfile_max_bytes = 1000\npatch_max_bytes = 2000\npatch_max_paths = 2")
        .started();
    let attempt = done(
        &provost.board(),
        &format!("{LINES}\nwrite b.txt b\nrun seq 1 2000 > giant.txt\nrun seq 1 90 > c.txt"),
    );
    let file = |more: &Value| ask(&provost, "get_attempt_file", &attempt, more);
    let patch = |more: &Value| ask(&provost, "get_attempt_patch", &attempt, more);
    let over = file(&json!({"path": "app/giant.txt", "max_bytes": 1001}));
    assert_eq!(
        (&over["blocked"], &over["blocked_reason"]),
        (&json!(true), &json!("size_exceeded"))
    );
    let page = file(&hints::go_on(&json!({"path": "app/giant.txt"}), &over));
    assert_eq!((&page["blocked"], &page["next_offset"]), (&json!(false), &json!(1000)));

    let over = patch(&json!({"paths": ["app/b.txt"], "max_bytes": 2001}));
    assert_eq!(over["blocked_reason"], "size_exceeded");
    let many = patch(&json!({"paths": ["app/b.txt", "app/c.txt", "app/many.txt"]}));
    assert_eq!((&many["blocked_reason"], &many["patch"]), (&json!("too_many_paths"), &json!("")));
    // A longer file than any patch may be is not even read.
    let giant = patch(&json!({"paths": ["app/giant.txt"]}));
    assert_eq!((&giant["blocked"], &giant["omitted"]), (&json!(true), &json!(["app/giant.txt"])));

    // What doesn't fit is left out whole, and the hint gets it.
    let some = json!({"paths": ["app/many.txt", "app/b.txt"], "max_bytes": 300});
    let small = patch(&some);
    assert_eq!((paths(&small), &small["truncated"]), (vec!["app/b.txt"], &json!(true)));
    assert_eq!(small["omitted"], json!(["app/many.txt"]));
    let rest = patch(&hints::go_on(&some, &small));
    assert_eq!((paths(&rest), &rest["omitted"]), (vec!["app/many.txt"], &json!([])));
}

#[test]
fn a_hint_asks_for_no_fewer_bytes_than_the_call_did() {
    let provost = Provost::running();
    let attempt =
        done(&provost.board(), &format!("{LINES}\nrun for n in 1 2 3; do cp many.txt $n; done"));
    let some = json!({"paths": ["app/1", "app/2", "app/3", "app/many.txt"], "max_bytes": 1500});
    let some = ask(&provost, "get_attempt_patch", &attempt, &some);
    assert_eq!((paths(&some), &some["truncated"]), (vec!["app/1", "app/2"], &json!(true)));
    assert!(some["hint"].as_str().unwrap().ends_with("and max_bytes = 1500."), "{some}");
}

#[test]
fn too_many_paths_block_however_many_they_are() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "write b.txt b");
    for count in [101, 5000] {
        let many = json!({"paths": vec!["app/b.txt"; count]});
        let many = ask(&provost, "get_attempt_patch", &attempt, &many);
        assert_eq!(many["blocked_reason"], "too_many_paths");
        let hint = many["hint"].as_str().unwrap();
        assert!(
            hint.starts_with("Call get_attempt_patch again with paths, 100 at most."),
            "{hint}"
        );
    }
}

#[test]
fn what_is_no_text_and_what_is_too_long_are_shown_by_their_size() {
    let provost = Provost::new().config("[guards]\nfile_max_bytes = 10").started();
    let attempt = done(&provost.board(), "run printf 'a\\0b' > nul; seq 1 100 > many.txt");
    let file = |more: &Value| ask(&provost, "get_attempt_file", &attempt, more);
    let nul = file(&json!({"path": "app/nul"}));
    assert_eq!((&nul["content"], &nul["encoding"]), (&json!("YQBi"), &json!("base64")));
    let over = file(&json!({"path": "app/many.txt", "max_bytes": 11}));
    assert_eq!((&over["blocked_reason"], &over["content"]), (&json!("size_exceeded"), &json!("")));
    assert_eq!(over["size_bytes"], 292);
    let missing = arguments(&attempt, &json!({"path": "app/none", "max_bytes": 11}));
    assert_eq!(provost.refusal("get_attempt_file", &missing)["code"], "file_not_found");
}

#[test]
fn a_file_is_read_page_by_page_as_the_hints_say() {
    let provost = Provost::running();
    let attempt = done(
        &provost.board(),
        "run seq 1 10000 > lines.txt\nrun printf '%040000d' 0 > line.txt\n\
         run printf 'a\\377' > latin.txt",
    );
    for (mut more, whole) in [
        ("lines.txt", (1..=10_000).fold(String::new(), |text, n| text + &format!("{n}\n"))),
        ("line.txt", "0".repeat(40_000)),
    ]
    .iter()
    .flat_map(|(name, whole)| {
        let path = format!("app/{name}");
        let by_lines = json!({"path": path, "start_line": 1});
        [(json!({"path": path}), whole.clone()), (by_lines, whole.clone())]
    }) {
        let mut read = String::new();
        loop {
            let page = ask(&provost, "get_attempt_file", &attempt, &more);
            let content = page["content"].as_str().unwrap();
            assert!(content.len() <= 16_384 && !content.is_empty());
            read.push_str(content);
            if page["truncated"] == false {
                break;
            }
            more = hints::go_on(&more, &page);
        }
        assert_eq!(read, whole);
    }
    let file = |more: &Value| ask(&provost, "get_attempt_file", &attempt, more);
    let some = file(&json!({"path": "app/lines.txt", "start_line": 500, "line_count": 2}));
    assert_eq!((&some["content"], &some["end_line"]), (&json!("500\n501\n"), &json!(501)));
    assert_eq!(some["truncated"], false);
    let beyond = file(&json!({"path": "app/lines.txt", "offset": 1_000_000_000}));
    assert_eq!((&beyond["content"], &beyond["next_offset"]), (&json!(""), &Value::Null));
    let latin = file(&json!({"path": "app/latin.txt"}));
    assert_eq!((&latin["content"], &latin["encoding"]), (&json!("Yf8="), &json!("base64")));
}

#[test]
fn no_path_leads_out_of_the_worktree() {
    let provost = Provost::running();
    let secret = provost.path("secret");
    fs::write(&secret, "secret").unwrap();
    let attempt = done(
        &provost.board(),
        &format!(
            "run ln -s {0} link; ln -s {1} dir; mkfifo fifo; ln -s README.md inside",
            secret.display(),
            secret.parent().unwrap().display()
        ),
    );
    for out in [
        "/etc/passwd",
        "app/../../../secret",
        "../secret",
        "app/.git",
        "app/.GIT/config",
        "app/link",
        "app/dir/secret",
    ] {
        let file = ask(&provost, "get_attempt_file", &attempt, &json!({"path": out}));
        assert_eq!(file["blocked_reason"], "path_outside_workspace", "{out}: {file}");
        assert_eq!(file["content"], "");
    }
    for odd in ["app", "app/fifo"] {
        let file = ask(&provost, "get_attempt_file", &attempt, &json!({"path": odd}));
        assert_eq!(file["blocked_reason"], "not_a_file", "{odd}");
    }
    let inside = ask(&provost, "get_attempt_file", &attempt, &json!({"path": "app/inside"}));
    assert_eq!(inside["content"], "a scratch repository\n");
    let patch = ask(&provost, "get_attempt_patch", &attempt, &json!({"paths": ["../x"]}));
    assert_eq!(patch["blocked_reason"], "path_outside_workspace");
    let missing = arguments(&attempt, &json!({"path": "app/none"}));
    assert_eq!(provost.refusal("get_attempt_file", &missing)["code"], "file_not_found");
    // The error names a superfluous slash, if there is something without it.
    let file = ask(&provost, "get_attempt_file", &attempt, &json!({"path": "/app/README.md"}));
    assert_eq!(file["hint"], "Call get_attempt_file again with path = \"app/README.md\".");
    let paths = json!({"paths": ["/app/inside", "app/link"]});
    let patch = ask(&provost, "get_attempt_patch", &attempt, &paths);
    let hint = "Call get_attempt_patch again with paths = [\"app/inside\",\"app/link\"].";
    assert_eq!(patch["hint"], hint);
}

#[test]
fn paths_that_are_not_changed_are_named_beside_the_rest() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "write new.txt x");
    let both = json!({"paths": ["app/new.txt", "app/README.md", "nowhere"]});
    let patch = ask(&provost, "get_attempt_patch", &attempt, &both);
    assert_eq!(paths(&patch), ["app/new.txt"]);
    assert_eq!(patch["omitted"], json!(["app/README.md", "nowhere"]));
    assert!(patch["hint"].as_str().unwrap().contains("not changed"));
    assert_eq!((&patch["blocked"], &patch["truncated"]), (&json!(false), &json!(false)));
    let none = arguments(&attempt, &json!({"paths": ["app/README.md"]}));
    assert_eq!(provost.refusal("get_attempt_patch", &none)["code"], "file_not_found");
}

#[test]
fn a_target_branch_that_is_gone_or_rewritten_hides_no_changes() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let attempt = done(&board, "write a.txt a\nrun git add a.txt; git commit --quiet --message a");
    let changes = arguments(&attempt, &json!({}));
    repo.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    repo.commit("b", "b");
    repo.git(&["branch", "-D", "main"]);
    assert_eq!(paths(&provost.call("get_attempt_changes", &changes)), ["app/a.txt"]);
    repo.git(&["branch", "--force", "main", "fresh"]);
    assert_eq!(paths(&provost.call("get_attempt_changes", &changes)), ["app/a.txt"]);
}

#[test]
fn an_orphan_in_the_worktree_is_compared_with_where_the_attempt_began() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = done(
        &board,
        "run git checkout --quiet --orphan fresh; git commit --quiet --message x; echo x > new.txt",
    );
    let changes = provost.call("get_attempt_changes", &arguments(&attempt, &json!({})));
    assert_eq!(changes["summary"]["file_count"], 1, "{changes}");
    assert_eq!(changes["files"][0]["path"], "app/new.txt");
}

#[test]
fn a_worktree_or_a_repository_that_is_gone_is_an_error() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = done(&board, "write a.txt a");
    let worktree = worktree(&provost, &attempt, "app");
    let aside = provost.path("aside");
    let calls = [
        ("get_attempt_changes", json!({})),
        ("get_attempt_patch", json!({"paths": ["app/a.txt"]})),
        ("get_attempt_file", json!({"path": "app/a.txt"})),
    ];
    fs::rename(&worktree, &aside).unwrap();
    for (tool, more) in &calls {
        let refusal = provost.refusal(tool, &arguments(&attempt, more));
        assert_eq!(refusal["code"], "workspace_failed", "{tool}: {refusal}");
        assert!(refusal["hint"].as_str().unwrap().contains("start_task_attempt"));
    }
    fs::rename(&aside, &worktree).unwrap();
    fs::rename(&board.repo().path, &aside).unwrap();
    for (tool, more) in &calls[..2] {
        let refusal = provost.refusal(tool, &arguments(&attempt, more));
        assert_eq!(refusal["code"], "workspace_failed", "{tool}: {refusal}");
    }
    fs::rename(&aside, &board.repo().path).unwrap();
    assert_eq!(ask(&provost, "get_attempt_patch", &attempt, &calls[1].1)["omitted"], json!([]));
}

#[test]
fn an_attempt_that_waits_for_its_turn_has_no_changes() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let first = board.start("fake", "hang");
    let second = board.start("fake", "say never");
    second.in_phase("queued");
    let changes = ask(&provost, "get_attempt_changes", &second, &json!({}));
    assert_eq!((&changes["files"], &changes["blocked"]), (&json!([]), &json!(false)));
    for (tool, more) in [
        ("get_attempt_file", json!({"path": "app/README.md"})),
        ("get_attempt_patch", json!({"paths": ["app/README.md"]})),
    ] {
        let refusal = provost.refusal(tool, &arguments(&second, &more));
        assert_eq!(refusal["code"], "file_not_found");
    }
    second.stop();
    first.stop();
}

#[test]
fn the_verb_shows_the_patch_and_else_the_table() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = done(&board, &format!("{LINES}\nwrite b.txt b"));
    let shown = provost.verb(["diff", &attempt.id]);
    assert_eq!(shown.code, 0, "{shown:?}");
    apply(board.repo(), &board.repo().path, &json!({"patch": shown.stdout}));
    let one = provost.verb(["diff", &attempt.id, "app/b.txt"]).stdout;
    assert!(one.contains("+b\n") && !one.contains("many.txt") && !one.contains('\u{1b}'), "{one}");
    let table = provost.verb(["diff", &attempt.id, "--stat"]).stdout;
    assert!(table.contains("app/many.txt") && table.contains("2 files changed"), "{table}");
    let json = provost.verb(["diff", &attempt.id, "--json"]).json();
    assert_eq!(json["summary"]["file_count"], 2);
    assert_eq!(provost.verb(["diff", &attempt.id, "app/none"]).code, 4);
}

#[test]
fn files_under_a_filter_of_the_persons_own_look_changed_only_when_they_are() {
    let provost = Provost::running();
    let filter = "[filter \"up\"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n";
    provost.person_configures(filter);
    let board = provost.board();
    board.repo().commit(".gitattributes", "*.t filter=up\n");
    board.repo().commit("a.t", "text\n");
    // What is written again is as fresh as the index: git looks into it.
    let same = done(&board, "run git checkout --quiet HEAD -- . && touch a.t");
    let changes = ask(&provost, "get_attempt_changes", &same, &json!({}));
    assert_eq!(changes["files"], json!([]), "{changes}");
    let changed = done(&board, "run echo more >> a.t");
    let paths = json!({"paths": ["app/a.t"]});
    let patch = ask(&provost, "get_attempt_patch", &changed, &paths);
    assert!(patch["patch"].as_str().unwrap().contains("+MORE"), "{patch}");
}

#[test]
fn a_name_that_the_table_quotes_is_one_that_the_verb_takes() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "run printf x > \"$(printf 'a\\tb\\nc\\033')\"");
    let table = provost.verb(["diff", &attempt.id, "--stat"]).stdout;
    let name = r#""app/a\011b\012c\033""#;
    assert!(table.contains(name), "{table}");
    let patch = provost.verb(["diff", &attempt.id, name]);
    assert!(patch.code == 0 && patch.stdout.contains("+x"), "{patch:?}");
}

#[test]
fn in_its_only_repository_a_path_needs_no_repository_and_a_slip_is_named() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "write more.txt more\nwrite app/more.txt deep");
    for (path, shown, content) in [
        ("more.txt", "app/more.txt", "more\n"),
        ("app/more.txt", "app/more.txt", "more\n"),
        ("app/app/more.txt", "app/app/more.txt", "deep\n"),
        ("README.md", "app/README.md", "a scratch repository\n"),
    ] {
        let file = ask(&provost, "get_attempt_file", &attempt, &json!({"path": path}));
        assert_eq!((&file["path"], &file["content"]), (&json!(shown), &json!(content)), "{path}");
    }
    let patch = ask(&provost, "get_attempt_patch", &attempt, &json!({"paths": ["more.txt"]}));
    assert_eq!(paths(&patch), ["app/more.txt"]);
    assert!(provost.verb(["diff", &attempt.id, "more.txt"]).stdout.contains("+more"));
    for given in ["a/app/more.txt", "b/more.txt", "app/mroe.txt", "MORE.txt"] {
        let patch = arguments(&attempt, &json!({"paths": [given]}));
        let refusal = provost.refusal("get_attempt_patch", &patch);
        assert_eq!(refusal["details"]["nearest"], "app/more.txt", "{given}: {refusal}");
        let file =
            provost.refusal("get_attempt_file", &arguments(&attempt, &json!({"path": given})));
        assert_eq!(file["details"]["nearest"], "app/more.txt", "{given}: {file}");
    }
}

#[test]
fn a_folder_is_answered_with_what_it_has() {
    let provost = Provost::running();
    let attempt = done(&provost.board(), "write d/b b\nwrite d/a/x x");
    for (folder, names, file) in [
        ("app/d", "a/, b.", "\"app/d/b\""),
        ("d", "a/, b.", "\"app/d/b\""),
        ("app", "README.md, d/.", "\"app/README.md\""),
    ] {
        let answer = ask(&provost, "get_attempt_file", &attempt, &json!({"path": folder}));
        assert_eq!(answer["blocked_reason"], "not_a_file", "{answer}");
        let hint = answer["hint"].as_str().unwrap();
        assert!(hint.ends_with(names) && hint.contains(file), "{hint}");
    }
}
