//! The pages of an attempt and of its review, from outside: what a reviewer sees and sends.

use serde_json::json;

use crate::harness::{Attempt, PLAIN, Provost, Web, eventually};

const SHELL: &str = "exec sh -c \"$(cat)\"";

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// What follows it in a prompt is no script.
const SECOND: &str = "sed -i 's/two/zwei/' code.rs; exit 0";

fn first() -> String {
    let lines = "one\\nlet two = 2;\\nthree\\n";
    format!(
        "echo 'I wrote **code**'; echo fault >&2; printf '{lines}' > code.rs; \
         printf '<svg/>' > x.svg; printf x > evil.html; echo {PIXEL} | base64 -d > p.png; \
         rm README.md; seq 1 3000 > long.txt"
    )
}

fn settled_turn(attempt: &Attempt<'_>, turn: u32) {
    attempt.settled();
    attempt.saved(turn);
}

#[test]
fn a_reviewer_reads_comments_and_sees_what_became_of_it() {
    let provost = Provost::new().executor("sh", PLAIN, SHELL).started();
    let board = provost.board();
    let web = Web::of(&provost);
    let attempt = board.start("sh", &first());
    settled_turn(&attempt, 1);
    let base = format!("/attempts/{}", attempt.id);
    let page = |path: &str| {
        let page = web.get(&format!("{base}{path}"));
        assert_eq!(page.status, 200, "{path}: {page:?}");
        page.body
    };

    let whole = page("");
    for part in ["Turn 1", "completed", "Review changes", "data-log="] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    let did = page("/turns/1/entries");
    assert!(did.contains("I wrote <strong>code</strong>"), "{did}");
    assert!(
        page("/turns?after=0").contains("turn-1") && page("/processes").contains("Nothing runs")
    );
    let log = page("/log?tab=errors");
    assert!(!log.contains("I wrote"), "{log}");
    assert!(page("/log?tab=raw&before=1").contains("data-index=\"0\""));

    let review = page("/review");
    for part in ["app/code.rs", "app/long.txt", "Show 2000 more rows", "app/p.png", "D</span>"] {
        assert!(review.contains(part), "{part}: {review}");
    }
    let add = json!({
        "attempt_id": attempt.id, "action": "add", "path": "app/code.rs", "line": 2, "text": "Why <b>2</b>?",
    });
    let added = web.call("comment_on_changes", &add);
    assert_eq!(added.status, 200, "{added:?}");
    let shown = page("/review/file?from_turn=0&to_turn=1&path=app%2Fcode.rs");
    let (before, after) = shown.split_once("class=\"comment\"").unwrap();
    assert!(before.contains("two") && !before.contains("three"), "below its line: {shown}");
    assert!(after.contains("draft") && !shown.contains("<b>2"), "{shown}");
    assert!(page("/review/bar?turn=1").contains("Submit 1 comment"));

    let submit = json!({
        "attempt_id": attempt.id, "action": "submit", "text": SECOND, "request_id": "once",
    });
    for _ in 0..2 {
        assert_eq!(web.call("comment_on_changes", &submit).status, 200);
    }
    settled_turn(&attempt, 2);
    assert_eq!(attempt.status()["latest_snapshot_turn"], 2, "one follow-up");
    let bar = eventually("the comment is addressed", || {
        Some(page("/review/bar?turn=1")).filter(|bar| bar.contains("1 addressed"))
    });
    assert!(bar.contains("Another turn has ended"), "{bar}");
    let turn = page("/review?from_turn=1&to_turn=2&layout=split");
    assert!(turn.contains("zwei") && !turn.contains("long.txt"), "{turn}");

    let merged = web.call(
        "finish_attempt",
        &json!({"attempt_id": attempt.id, "action": "merge", "strategy": "squash"}),
    );
    assert_eq!(merged.json()["state"], "done", "{merged:?}");
    assert!(page("/facts").contains("Merge") && page("/review/bar").contains("done"));
}

#[test]
fn only_changed_pictures_are_served_as_files() {
    let provost = Provost::new().executor("sh", PLAIN, SHELL).started();
    let board = provost.board();
    let web = Web::of(&provost);
    let attempt = board.start("sh", &first());
    settled_turn(&attempt, 1);
    for turns in ["from_turn=0", "from_turn=0&to_turn=1"] {
        let blob = |path: &str, side: &str| {
            web.get(&format!(
                "/attempts/{}/review/blob?{turns}&side={side}&path={path}",
                attempt.id
            ))
        };
        let picture = blob("app%2Fp.png", "new");
        assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
        let svg = blob("app%2Fx.svg", "new");
        assert_eq!(svg.body, "<svg/>");
        let policy = svg.header("content-security-policy").unwrap();
        assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(svg.header("x-content-type-options"), Some("nosniff"));
        for (path, side) in [
            ("p.png", "old"),
            ("evil.html", "new"),
            ("..%2F..%2Fx.png", "new"),
            ("%2Fetc%2Fx.png", "new"),
            (".git%2Fx.png", "new"),
            ("none.png", "new"),
        ] {
            let page = blob(&format!("app%2F{path}"), side);
            assert_eq!(page.status, 404, "{path}: {page:?}");
        }
    }
    let text = web.get(&format!("/attempts/{}/review/text?path=app%2Flong.txt", attempt.id));
    assert!(text.body.contains("start_line=1001"), "{text:?}");
}
