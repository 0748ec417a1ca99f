//! Comments on the lines that an attempt changed: drafted, sent as one follow-up, and followed
//! through the turns that come after.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Answer, Attempt, PLAIN, Provost, run_until};

/// An executor that runs its prompt; of a review, it does what this file says.
const EDITOR: &str = r#"case "$PROVOST_PROMPT" in
*'### app/'*) echo review >> "$PROVOST_HOME/reviews"; . "$PROVOST_HOME/then" ;;
*) eval "$PROVOST_PROMPT" ;;
esac"#;

fn editor() -> Provost {
    let provost = Provost::new().executor("editor", PLAIN, EDITOR).started();
    then(&provost, "true");
    provost
}

/// What the next review makes the executor do.
fn then(provost: &Provost, script: &str) {
    fs::write(provost.home().join("then"), script).unwrap();
}

fn reviews(provost: &Provost) -> usize {
    fs::read_to_string(provost.home().join("reviews")).unwrap_or_default().lines().count()
}

fn with(attempt: &Attempt, action: &str, more: &Value) -> Value {
    let mut arguments = json!({"attempt_id": attempt.id, "action": action});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn call(provost: &Provost, attempt: &Attempt, action: &str, more: &Value) -> Value {
    provost.call("comment_on_changes", &with(attempt, action, more))
}

fn add(provost: &Provost, attempt: &Attempt, more: &Value) -> String {
    let added = call(provost, attempt, "add", more);
    added["comments"][0]["comment_id"].as_str().unwrap().to_owned()
}

fn list(provost: &Provost, attempt: &Attempt) -> Vec<Value> {
    let listed = call(provost, attempt, "list", &json!({}));
    listed["comments"].as_array().unwrap().clone()
}

fn states(provost: &Provost, attempt: &Attempt) -> Vec<String> {
    let listed = list(provost, attempt);
    listed.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
}

/// Makes a call twice, by a daemon that dies at a failpoint and by the next one.
fn cut_off(provost: &Provost, failpoint: &str, arguments: &Value) -> Answer {
    provost.kill();
    provost.start_to_die_at(failpoint);
    let mut client = provost.connect();
    let id = client.begin("comment_on_changes", arguments);
    assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
    let before = client.outcome(id);
    provost.start();
    let after = provost.answer("comment_on_changes", arguments);
    assert!(!after.is_error, "{failpoint}: {}", after.text);
    let again = provost.answer("comment_on_changes", arguments);
    assert!(again.is_deduplicated, "{failpoint}");
    for answer in before.iter().chain([&again]) {
        assert_eq!(answer.text, after.text, "{failpoint}");
    }
    after
}

#[test]
fn drafts_become_one_follow_up_and_are_followed_until_they_are_resolved() {
    let provost = editor();
    let board = provost.board();
    board.repo().commit("a.txt", "one\ntwo\nthree\nfour\nfive\n");
    let first = "printf 'zero\\none\\ntwo\\nthree\\nfour\\n' > a.txt; echo made > b.txt";
    let attempt = board.start("editor", first);
    attempt.saved(1);

    let two = json!({"path": "app/a.txt", "line": 3, "text": "In capitals."});
    let gone = json!({"path": "app/a.txt", "line": 5, "side": "old", "text": "Why?"});
    let made = json!({"path": "app/b.txt", "line": 1, "text": "?"});
    add(&provost, &attempt, &two);
    add(&provost, &attempt, &gone);
    let third = add(&provost, &attempt, &made);
    let four = add(&provost, &attempt, &json!({"path": "app/a.txt", "line": 5, "text": "-"}));
    call(&provost, &attempt, "edit", &json!({"comment_id": third, "text": "Name it."}));
    call(&provost, &attempt, "remove", &json!({"comment_id": four}));
    let drafts = list(&provost, &attempt);
    let quoted: Vec<&Value> = drafts.iter().map(|it| &it["quoted"]).collect();
    assert_eq!(quoted, ["two", "five", "made"]);
    assert!(drafts.iter().all(|it| it["state"] == "draft" && it["outdated"] == false));

    // The turn changes one of the lines, and moves another.
    then(
        &provost,
        "printf 'new\\nzero\\none\\nTWO\\nthree\\nfour\\n' > a.txt; echo x | cat - b.txt > c; mv c b.txt",
    );
    let submit = json!({"text": "Nearly there.", "request_id": "one"});
    let submit = with(&attempt, "submit", &submit);
    let sent = cut_off(&provost, "follow_up.committed", &submit).output();
    assert_eq!(sent["review"]["comment_count"], 3);
    assert_ne!(sent["review"]["execution_process_id"], Value::Null);
    attempt.saved(2);
    assert_eq!(reviews(&provost), 1);
    let prompts = attempt.said("user_message");
    assert_eq!(prompts.len(), 2);
    assert!(prompts[1].starts_with("Nearly there.\n\n## app/a.txt\n\n### app/a.txt:3\n"));
    assert!(prompts[1].contains("### app/b.txt:1\n```\nmade\n```\nName it."), "{}", prompts[1]);

    let after = list(&provost, &attempt);
    assert_eq!(states(&provost, &attempt), ["addressed", "delivered", "delivered"]);
    assert_eq!((&after[0]["outdated"], &after[0]["now"]), (&json!(true), &Value::Null));
    let moved = json!({"path": "app/b.txt", "first_line": 2, "last_line": 2});
    assert_eq!((&after[2]["outdated"], &after[2]["now"]), (&json!(true), &moved));
    assert_eq!(after[1]["outdated"], false, "the base is as it was");
    let refusal = provost.refusal(
        "comment_on_changes",
        &with(&attempt, "edit", &json!({"comment_id": third, "text": "late"})),
    );
    assert_eq!(refusal["code"], "invalid_argument");
    for comment in &after {
        let resolve = json!({"comment_id": comment["comment_id"]});
        let resolved = call(&provost, &attempt, "resolve", &resolve)["comments"][0].clone();
        let of = |it: &Value| (it["outdated"].clone(), it["now"].clone());
        assert_eq!(of(&resolved), of(comment), "it says where the lines are");
    }
    assert_eq!(states(&provost, &attempt), ["resolved"; 3]);
    let refusal = provost.refusal("comment_on_changes", &with(&attempt, "submit", &json!({})));
    assert!(refusal["error"].as_str().unwrap().contains("no drafts"), "{refusal}");
}

#[test]
fn a_submit_cut_off_between_any_two_steps_sends_one_follow_up() {
    let provost = editor();
    let attempt = provost.board().start("editor", "echo made > b.txt");
    let steps = [
        "comment.written",
        "follow_up.written",
        "follow_up.committed",
        "comment_on_changes.answering",
        "log.begun",
        "shim.spawned",
        "running.committed",
        "settled.written",
        "snapshot.written",
    ];
    for (n, failpoint) in steps.into_iter().enumerate() {
        attempt.saved(u32::try_from(n).unwrap() + 1);
        let text = format!("change it, {n}");
        let draft = json!({"path": "app/b.txt", "line": 1, "text": text, "request_id": text});
        let draft = with(&attempt, "add", &draft);
        if failpoint == "comment.written" {
            cut_off(&provost, failpoint, &draft);
        } else {
            provost.call("comment_on_changes", &draft);
        }
        then(&provost, &format!("echo {n} > b.txt"));
        let submit = with(&attempt, "submit", &json!({"request_id": text}));
        let refused = provost.refusal("comment_on_changes", &submit);
        assert_eq!(refused["code"], "idempotency_conflict", "{failpoint}");
        let submit = with(&attempt, "submit", &json!({"request_id": failpoint}));
        if failpoint == "comment.written" {
            provost.call("comment_on_changes", &submit);
        } else {
            cut_off(&provost, failpoint, &submit);
        }
        attempt.saved(u32::try_from(n).unwrap() + 2);
        assert_eq!(states(&provost, &attempt), vec!["addressed"; n + 1], "{failpoint}");
        assert_eq!(attempt.said("user_message").len(), n + 2, "{failpoint}");
        assert_eq!(reviews(&provost), n + 1, "{failpoint}");
    }
}

#[test]
fn comments_of_a_follow_up_that_is_dropped_are_drafts_again() {
    let provost = editor();
    let attempt = provost.board().start("editor", "echo made > b.txt");
    attempt.saved(1);
    let gate = provost.path("gate");
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": run_until(&gate)
        .trim_start_matches("run ")});
    provost.call("follow_up", &send);
    attempt.in_phase("running");
    add(&provost, &attempt, &json!({"path": "b.txt", "line": 1, "text": "why?"}));
    let sent = call(&provost, &attempt, "submit", &json!({"request_id": "one"}));
    assert_eq!(sent["review"]["execution_process_id"], Value::Null);
    assert_eq!(states(&provost, &attempt), ["sent"]);
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "cancel"}));
    assert_eq!(states(&provost, &attempt), ["draft"]);
    call(&provost, &attempt, "submit", &json!({"request_id": "two"}));
    // A stop holds the queue; what waits is not lost.
    attempt.stop();
    assert_eq!(states(&provost, &attempt), ["sent"]);
    fs::write(gate, "").unwrap();
    let queue = json!({"attempt_id": attempt.id, "action": "queue", "prompt": "true"});
    provost.call("follow_up", &queue);
    attempt.until("all turns have ended", |status| {
        status["phase"] == "settled" && attempt.said("user_message").len() == 4
    });
    assert_eq!(states(&provost, &attempt), ["delivered"]);
    assert_eq!(reviews(&provost), 1);
}

#[test]
fn a_person_reviews_by_the_command_line() {
    let provost = editor();
    let board = provost.board();
    let attempt = board.start("editor", "printf 'a\\nb\\n' > b.txt");
    attempt.saved(1);
    let id = attempt.id.as_str();
    let added = provost.verb(["review", "add", id, "app/b.txt:1-2", "Sort them."]);
    assert_eq!(added.code, 0, "{added:?}");
    let listed = provost.verb(["--json", "review", "list", id]).json();
    let comment = &listed["comments"][0];
    assert_eq!((&comment["author"], &comment["quoted"]), (&json!("person"), &json!("a\nb")));
    let comment = comment["comment_id"].as_str().unwrap();
    assert_eq!(provost.verb(["review", "edit", id, comment, "Sort."]).code, 0);
    let beyond = provost.verb(["review", "add", id, "app/b.txt:3", "x"]);
    assert!(beyond.code != 0 && beyond.stderr.contains("has 2 lines"), "{beyond:?}");
    let sent = provost.verb(["review", "submit", id, "-m", "Please."]);
    assert!(sent.stdout.contains("1 comment sent: a turn has begun"), "{sent:?}");
    attempt.saved(2);
    let end = &comment[comment.len() - 8..];
    assert_eq!(provost.verb(["review", "resolve", id, end]).code, 0);
    let none = provost.verb(["review", "list", id]);
    assert!(none.stdout.contains("no comment is open"), "{none:?}");
}
