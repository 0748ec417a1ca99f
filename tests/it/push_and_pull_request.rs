//! What of an attempt's work leaves its repositories and its own branch: pushes, pull requests,
//! and what is applied to another attempt; and the branches that a person gives up.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::finish::{arguments, attempt, cut_off, finish, is_clean, refused, rests, tip, worktree};
use crate::harness::{Board, Provost, Repo};

const URL: &str = "https://forge.test/o/app.git";
const TOKEN: &str = "token-of-the-person";

/// A small GitHub and GitLab: the pull requests that it has, and the calls it got.
#[derive(Clone, Default)]
struct Forge {
    made: Arc<Mutex<Vec<Value>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Forge {
    /// Serves until the test ends; returns its URL too.
    fn started() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let forge = Self::default();
        let serving = forge.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let forge = serving.clone();
                std::thread::spawn(move || forge.serve(stream));
            }
        });
        (forge, url)
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let (mut first, mut token, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut first).ok()?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => value.clone_into(&mut token),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, answer) = self.answer(&first, &token, &body);
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", answer.len());
        write!(stream, "{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{answer}")
            .ok()
    }

    fn answer(&self, first: &str, token: &str, body: &[u8]) -> (u16, Value) {
        if !token.ends_with(TOKEN) {
            return (401, json!({"message": "Bad credentials"}));
        }
        let call = first.rsplit_once(' ').map_or(first, |(call, _)| call).to_owned();
        self.calls.lock().unwrap().push(call.clone());
        let is_ours = ["/repos/o/app/pulls", "/projects/o%2Fapp/merge_requests"];
        if !is_ours.iter().any(|path| call.contains(path)) {
            return (404, json!({"message": "Not Found"}));
        }
        let mut made = self.made.lock().unwrap();
        if call.starts_with("GET") {
            return (200, json!(*made));
        }
        let number = made.len() + 1;
        let page = format!("https://forge.test/o/app/{number}");
        let mut it: Value = serde_json::from_slice(body).unwrap();
        (it["number"], it["iid"]) = (json!(number), json!(number));
        (it["html_url"], it["web_url"]) = (json!(page), json!(page));
        if it["source_branch"].is_null() {
            let head = json!({"ref": it["head"], "repo": {"full_name": "o/app"}});
            (it["state"], it["head"], it["base"]) =
                (json!("open"), head, json!({"ref": it["base"]}));
        } else {
            (it["state"], it["source_project_id"], it["target_project_id"]) =
                (json!("opened"), json!(7), json!(7));
        }
        made.push(it.clone());
        (201, it)
    }
}

/// A home whose projects can have a remote, and a forge for it.
fn provost(kind: &str, token: &str) -> (Provost, Forge) {
    let (forge, api) = Forge::started();
    let config =
        format!("[forges.\"forge.test\"]\nkind = '{kind}'\napi = '{api}'\ntoken = '{token}'");
    let provost = Provost::new().config(&config);
    let remotes = provost.path("remotes");
    provost.person_configures(&format!(
        "[url \"{}/\"]\ninsteadOf = https://forge.test/\n",
        remotes.display()
    ));
    (provost.started(), forge)
}

/// The project's repository `app`, which has the remote.
fn board(provost: &Provost) -> (Board<'_>, Repo) {
    let repo = provost.repo("app");
    repo.git(&["remote", "add", "origin", URL]);
    let remote = provost.empty_repo("remotes/o/app.git");
    (Board::new(provost, vec![repo]), remote)
}

#[test]
fn a_push_reaches_the_recorded_remote_and_nothing_of_the_repository_runs() {
    let (provost, _forge) = provost("github", TOKEN);
    let (board, remote) = board(&provost);
    let repo = board.repo();
    let one = attempt(&board, "write new.txt text");
    let ran = provost.path("ran");
    let hook = repo.path.join(".git/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let elsewhere = format!("url.{}/.insteadOf", provost.path("elsewhere").display());
    repo.git(&["config", &elsewhere, "https://forge.test/"]);
    repo.git(&["config", "credential.helper", &format!("!touch {}", ran.display())]);

    let done = finish(&provost, &one, "push", &json!({"branch": "work"}));
    assert_eq!(
        (&done["state"], &done["repos"][0]["pushed_to"]),
        (&json!("done"), &json!("origin/work"))
    );
    let commit = tip(&remote, "work");
    assert_eq!(done["repos"][0]["commit"], commit);
    is_clean(repo, &one);
    // Somebody else pushes to it.
    let other = attempt(&board, "write other.txt text");
    let refusal = refused(&provost, &other, "push", &json!({"branch": "work"}));
    assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
    assert!(refusal["hint"].as_str().unwrap().starts_with("Merge the remote's"), "{refusal}");
    assert_eq!(tip(&remote, "work"), commit);
    let forced = json!({"branch": "work", "force_with_lease": true});
    let done = finish(&provost, &other, "push", &forced);
    assert_eq!(done["repos"][0]["commit"], tip(&remote, "work"));
    assert!(!ran.exists(), "a hook or a helper ran");

    let pushed = provost.verb(["push", &one.id]);
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let branch = one.started["workspace_branch"].as_str().unwrap();
    assert!(pushed.stdout.contains(&format!("app pushed to origin/{branch}")), "{pushed:?}");
    assert_eq!(tip(&remote, branch), commit);
}

#[test]
fn a_remote_that_leads_elsewhere_is_pushed_to_only_on_a_persons_word() {
    let (provost, _forge) = provost("github", TOKEN);
    let (board, _) = board(&provost);
    let repo = board.repo();
    let one = attempt(&board, "write new.txt text");
    let ran = provost.path("ran");
    let helper = format!("ext::sh -c touch% {}", ran.display());
    repo.git(&["remote", "set-url", "origin", &helper]);
    let refusal = refused(&provost, &one, "push", &json!({}));
    assert_eq!(refusal["code"], "not_permitted");
    assert!(refusal["message"].as_str().unwrap().contains("transport helper"), "{refusal}");
    let other = provost.path("other.git");
    repo.git(&["init", "--quiet", "--bare", other.to_str().unwrap()]);
    repo.git(&["remote", "set-url", "origin", other.to_str().unwrap()]);
    let refusal = refused(&provost, &one, "push", &json!({}));
    assert_eq!(refusal["code"], "not_permitted");
    assert!(refusal["hint"].as_str().unwrap().contains("provost repo remotes"), "{refusal}");
    let none = refused(&provost, &one, "push", &json!({"remote": "upstream"}));
    assert_eq!(none["details"]["remotes"], json!(["origin"]));
    let shown = provost.verb(["repo", "remotes", "--project", "scratch"]);
    assert!(shown.stdout.contains(URL), "{shown:?}");
    let recorded = provost.verb(["repo", "remotes", "--project", "scratch", "--yes"]);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    assert_eq!(finish(&provost, &one, "push", &json!({}))["state"], "done");
    assert!(!ran.exists());
}

#[test]
fn a_pull_request_is_made_once_on_github_and_on_gitlab() {
    for kind in ["github", "gitlab"] {
        let (provost, forge) = provost(kind, TOKEN);
        let (board, remote) = board(&provost);
        let one = attempt(&board, "write new.txt text\nsay all is done");
        let done = finish(&provost, &one, "create_pr", &json!({}));
        assert_eq!(done["state"], "done", "{kind}: {done}");
        let made = &done["repos"][0]["pull_request"];
        assert_eq!(made, &json!({"url": "https://forge.test/o/app/1", "number": 1}));
        let again = finish(&provost, &one, "create_pr", &json!({}));
        assert_eq!(&again["repos"][0]["pull_request"], made, "{kind}");
        let all = forge.made.lock().unwrap().clone();
        assert_eq!((all.len(), &all[0]["title"]), (1, &json!("do something")), "{kind}");
        let text = if kind == "github" { &all[0]["body"] } else { &all[0]["description"] };
        assert!(text.as_str().unwrap().contains("all is done"), "{kind}: {text}");
        let branch = one.started["workspace_branch"].as_str().unwrap();
        assert_eq!(done["repos"][0]["commit"], tip(&remote, branch));
        let output = provost.verb(["pr", &one.id]);
        assert!(output.stdout.contains("pull request 1: https://forge.test/o/app/1"), "{output:?}");
    }
}

#[test]
fn a_pull_request_that_can_not_be_made_says_why_and_shows_no_token() {
    let (provost, _forge) = provost("github", "wrong-token");
    let (board, remote) = board(&provost);
    let one = attempt(&board, "write new.txt text");
    let refusal = refused(&provost, &one, "create_pr", &json!({}));
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("401") && message.contains("Bad credentials"), "{refusal}");
    assert!(!refusal.to_string().contains("wrong-token"), "{refusal}");
    assert!(!provost.said().contains("wrong-token"));
    assert!(!provost.verb(["config", "show", "--json"]).stdout.contains("wrong-token"));
    let branch = one.started["workspace_branch"].as_str().unwrap();
    tip(&remote, branch);
    board.repo().git(&["remote", "add", "bare", remote.path.to_str().unwrap()]);
    provost.verb(["repo", "remotes", "--project", "scratch", "--yes"]);
    let refusal = refused(&provost, &one, "create_pr", &json!({"remote": "bare"}));
    assert_eq!(refusal["details"]["path"], "remote");
    let nothing = attempt(&board, "say nothing to do");
    let refusal = refused(&provost, &nothing, "create_pr", &json!({}));
    assert!(refusal["message"].as_str().unwrap().contains("changed nothing"), "{refusal}");
}

#[test]
fn a_push_and_a_pull_request_cut_off_anywhere_are_made_once() {
    let (provost, forge) = provost("github", TOKEN);
    let (board, remote) = board(&provost);
    for failpoint in [
        "finish.committed",
        "commit.moved",
        "finish_step.committed",
        "push.next",
        "push.done",
        "finish_step.written@2",
        "finish_step.committed@2",
        "pull_request.made",
        "finish_step.written@3",
        "finish_end.committed",
    ] {
        forge.made.lock().unwrap().clear();
        let one = attempt(&board, &format!("write {failpoint} text"));
        let create = arguments(&one, "create_pr", &json!({"request_id": failpoint}));
        let done = cut_off(&provost, failpoint, &create).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        assert_eq!(done["repos"][0]["pull_request"]["number"], 1, "{failpoint}");
        assert_eq!(forge.made.lock().unwrap().len(), 1, "{failpoint}");
        let branch = one.started["workspace_branch"].as_str().unwrap();
        assert_eq!(done["repos"][0]["commit"], tip(&remote, branch), "{failpoint}");
        is_clean(board.repo(), &one);
    }
}

#[test]
fn work_is_applied_to_another_attempt_whose_worktree_follows() {
    let provost = Provost::running();
    let board = provost.board();
    let (one, other) = (attempt(&board, "write a.txt a"), attempt(&board, "write b.txt b"));
    let onto = json!({"into": other.id});
    let done = finish(&provost, &one, "apply_to", &onto);
    assert_eq!(done["state"], "done", "{done}");
    let branch = other.started["workspace_branch"].as_str().unwrap();
    assert_eq!(done["repos"][0]["target_branch"], branch);
    assert_eq!(done["repos"][0]["target_after"], tip(board.repo(), branch));
    let there = worktree(&other);
    assert_eq!(fs::read_to_string(there.join("a.txt")).unwrap().trim(), "a");
    let status = board.repo().git(&["-C", there.to_str().unwrap(), "status", "--porcelain"]);
    assert_eq!(status, "?? b.txt", "its own work stays as it was");
    assert_eq!(finish(&provost, &other, "merge", &json!({}))["state"], "done");
    assert!(board.repo().path.join("a.txt").exists());

    for (into, code) in [(one.id.as_str(), "invalid_argument"), ("main", "invalid_argument")] {
        let refusal = refused(&provost, &one, "apply_to", &json!({"into": into}));
        assert_eq!((&refusal["code"], &refusal["details"]["path"]), (&json!(code), &json!("into")));
    }
    let lacking = refused(&provost, &one, "apply_to", &json!({}));
    assert_eq!(lacking["code"], "missing_required");
    let running = board.start("fake", "say up\nhang");
    running.has_said("up");
    let refusal = refused(&provost, &one, "apply_to", &json!({"into": running.id}));
    assert_eq!(refusal["code"], "attempt_running", "{refusal}");
    running.stop();
    let applied = provost.verb(["apply", &one.id, &running.id]);
    assert_eq!(applied.code, 0, "{applied:?}");
}

#[test]
fn work_that_is_applied_is_applied_once_also_when_it_is_cut_off() {
    let provost = Provost::running();
    let board = provost.board();
    let other = attempt(&board, "write b.txt b");
    let branch = other.started["workspace_branch"].as_str().unwrap();
    for (n, failpoint) in [
        "finish.committed",
        "finish_step.committed",
        "advance.locked",
        "advance.switched",
        "advance.moved",
        "advance.kept",
        "finish_step.committed@4",
        "finish_end.committed",
    ]
    .iter()
    .enumerate()
    {
        let one = attempt(&board, &format!("write file{n} text"));
        let more = json!({"request_id": failpoint, "into": other.id});
        let done = cut_off(&provost, failpoint, &arguments(&one, "apply_to", &more)).output();
        assert_eq!(done["state"], "done", "{failpoint}: {done}");
        assert!(worktree(&other).join(format!("file{n}")).exists(), "{failpoint}");
        assert_eq!(done["repos"][0]["target_after"], tip(board.repo(), branch), "{failpoint}");
        let there = worktree(&other);
        let status = board.repo().git(&["-C", there.to_str().unwrap(), "status", "--porcelain"]);
        assert_eq!(status, "?? b.txt", "{failpoint}");
    }
    let send = json!({"attempt_id": other.id, "action": "send", "prompt": "write late.txt x"});
    provost.call("follow_up", &send);
    assert_eq!(other.settled()["state"], "completed", "its worktrees came back");
}

#[test]
fn a_person_gives_up_the_branch_too_also_afterwards() {
    let provost = Provost::running();
    let board = provost.board();
    let (one, other) = (attempt(&board, "write a.txt a"), attempt(&board, "write b.txt b"));
    rests(&provost, &one);
    let committed = finish(&provost, &one, "commit", &json!({"message": "Given"}));
    let commit = committed["repos"][0]["commit"].as_str().unwrap();
    let message = board.repo().git(&["log", "-1", "--format=%B", commit]);
    let expected = format!("Given\n\nProvost-Attempt: {}\nAgent: fake", one.id);
    assert_eq!(message.trim(), expected);
    let done = provost.verb(["rm", &one.id, "--branch"]);
    assert_eq!(done.code, 0, "{done:?}");
    let kept = format!("refs/provost/branches/{}", one.id);
    assert_eq!(board.repo().git(&["rev-parse", &kept]), commit, "only the branch had it");
    assert!(done.stdout.contains("app has no branch of it any more"), "{done:?}");
    assert_eq!(board.repo().attempt_branches().len(), 1);
    rests(&provost, &other);
    assert_eq!(
        finish(&provost, &other, "discard", &json!({}))["repos"][0]["branch_deleted"],
        false
    );
    assert_eq!(board.repo().attempt_branches().len(), 1, "a tool leaves it");
    let done = provost.verb(["rm", &other.id, "--branch"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(board.repo().attempt_branches().is_empty());
}
