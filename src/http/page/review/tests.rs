use serde_json::json;

use super::*;
use crate::api::comments::Comment;
use crate::http::page::attempt::tests::{
    ATTEMPT, lines, now, require_harmless, sample_status, sample_timeline,
};
use crate::http::page::colours::Colours;
use crate::http::page::patch::Side;

const HOSTILE: &str = "<script>alert(1)</script>";

/// A comment on lines of `app/<script>.rs`, with where they are now.
fn comment(id: u8, state: &str, side: &str, turn: u32, last: u64, now: Option<u64>) -> Comment {
    serde_json::from_value(json!({
        "comment_id": format!("0191d8a0-0000-7000-8000-0000000000{id:02x}"),
        "path": PATH, "side": side, "first_line": last.saturating_sub(1).max(1), "last_line": last,
        "turn": turn, "blob_id": "b", "quoted": HOSTILE, "text": format!("Why {HOSTILE}?"),
        "state": state, "outdated": now != Some(last),
        "now": now.map(|line| json!({"path": PATH, "first_line": line, "last_line": line})),
        "author": "person", "review_id": null,
        "created_at": now_text(), "updated_at": now_text(),
    }))
    .unwrap()
}

const PATH: &str = "app/<script>.rs";

fn now_text() -> String {
    now().to_string()
}

fn all(comments: Vec<Comment>) -> AttemptComments {
    AttemptComments {
        attempt_id: ATTEMPT.parse().unwrap(),
        comments,
        reviews: Vec::new(),
        latest_turn: Some(2),
    }
}

/// Where a comment stands; `None`: apart from the lines.
fn stands(comment: Comment, span: Span) -> Option<(Side, u64)> {
    let all = all(vec![comment]);
    let threads = Threads::new(&all, span);
    let file = threads.of(PATH)?;
    let lines = [Side::Old, Side::New].into_iter().flat_map(|it| (0..20).map(move |at| (it, at)));
    lines.into_iter().find(|(side, line)| !file.below(*side, *line).is_empty())
}

#[test]
fn a_comment_stands_below_its_lines_where_these_are_compared() {
    let (new, old) = (Side::New, Side::Old);
    let span = |from, to| Span { from, to };
    for (name, comment, span, place) in [
        ("its own turn", comment(1, "draft", "new", 1, 5, None), span(0, Some(1)), Some((new, 5))),
        (
            "the newest turn",
            comment(1, "sent", "new", 1, 5, Some(9)),
            span(0, Some(2)),
            Some((new, 9)),
        ),
        ("now", comment(1, "sent", "new", 1, 5, Some(9)), span(0, None), Some((new, 9))),
        ("changed since", comment(1, "sent", "new", 1, 5, None), span(0, Some(2)), None),
        ("before that turn", comment(1, "sent", "new", 2, 5, Some(5)), span(0, Some(1)), None),
        (
            "what the turn found",
            comment(1, "sent", "new", 1, 5, None),
            span(1, Some(2)),
            Some((old, 5)),
        ),
        (
            "before all turns",
            comment(1, "sent", "old", 1, 5, Some(6)),
            span(0, Some(2)),
            Some((old, 6)),
        ),
        ("old side of another", comment(1, "sent", "old", 1, 5, Some(6)), span(1, Some(2)), None),
    ] {
        assert_eq!(stands(comment, span), place, "{name}");
    }
}

fn changed(path: &str, status: &str) -> ChangedFile {
    serde_json::from_value(json!({"path": path, "status": status, "added": 2, "deleted": 1}))
        .unwrap()
}

const PATCH: &str = "diff --git a/<script>.rs b/<script>.rs\nold mode 100644\nnew mode 100755\n\
    --- a/<script>.rs\n+++ b/<script>.rs\n@@ -1,3 +1,4 @@ fn <b>() {\n one\n-two <script>\n+two </td>\n+three\n four\n";

fn file<'f>(changed: &'f ChangedFile, threads: &'f Threads<'f>, patch: &str) -> File<'f> {
    let patches = patch::parse(patch).into_iter().map(|it| (it, Colours::default())).collect();
    let missing = patch.is_empty().then_some(Missing::Later);
    File { changed, patches, missing, comments: threads.of(&changed.path) }
}

fn sample(layout: Layout) -> String {
    let (status, timeline, forms) = (sample_status(), sample_timeline(), Forms::fixed("/x"));
    let listed = [
        changed(PATH, "modified"),
        changed("app/<b>.svg", "added"),
        changed("app/huge", "deleted"),
        changed("app/later", "modified"),
    ];
    let changes: GetAttemptChangesOutput = serde_json::from_value(json!({
        "summary": {"file_count": 4, "added": 8, "deleted": 4, "total_bytes": 9},
        "blocked": false, "blocked_reason": null, "files": listed, "truncated": false, "hint": null,
        "merged": [{"repo_name": "app", "branch": "<b>", "commit": "c1", "merged_as": "c2"}],
    }))
    .unwrap();
    let comments = all(vec![
        comment(1, "draft", "new", 2, 2, Some(2)),
        comment(2, "addressed", "new", 1, 3, None),
        comment(3, "resolved", "old", 2, 2, Some(2)),
    ]);
    let span = Span { from: 0, to: Some(2) };
    let threads = Threads::new(&comments, span);
    let mut files: Vec<File<'_>> = vec![
        file(&changes.files[0], &threads, PATCH),
        file(&changes.files[1], &threads, ""),
        file(&changes.files[2], &threads, ""),
    ];
    files[2].missing = Some(Missing::TooLong);
    let reader = Reader { attempt: ATTEMPT.parse().unwrap(), forms: &forms, now: now() };
    let review = Review {
        status: &status,
        timeline: &timeline,
        changes: &changes,
        comments: &comments,
        threads: &threads,
        shown: Shown { reader, span, layout },
        files,
        first: 0,
    };
    let markup = lines(&page::page(&review));
    require_harmless(&markup);
    markup
}

#[test]
fn the_page_of_a_review() {
    insta::assert_snapshot!(sample(Layout::Unified));
    let beside = sample(Layout::Split);
    assert!(beside.contains("diff beside") && !beside.contains("diff unified"));
}

#[test]
fn rows_beyond_a_bound_come_later() {
    let added: Vec<String> = (0..ROWS + 5).map(|number| format!("+line {number}\n")).collect();
    let added = added.concat();
    let count = ROWS + 5;
    let text = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{count} @@\n{added}");
    let (changed, comments) = (changed("app/x", "added"), all(Vec::new()));
    let threads = Threads::new(&comments, Span::default());
    let file = file(&changed, &threads, &text);
    let forms = Forms::fixed("/x");
    let reader = Reader { attempt: ATTEMPT.parse().unwrap(), forms: &forms, now: now() };
    let shown = Shown { reader, span: Span::default(), layout: Layout::Unified };
    let first = shown.file(&file, 3).into_string();
    assert_eq!(first.matches("<tr").count(), ROWS + 2);
    assert!(first.contains("Show 5 more rows") && first.contains("from_row=1000"), "{first:.300}");
    let rest = shown.body(&file, 3, ROWS..ROWS * 2).into_string();
    assert!(
        rest.contains("line 1004") && !rest.contains("line 999") && !rest.contains("more rows")
    );
}

#[test]
fn a_patch_belongs_to_the_file_that_is_listed() {
    let patch = |path: &str| patch::FilePatch { new_path: path.to_owned(), ..Default::default() };
    for (listed, path, is_it) in [
        ("app/src/x", "src/x", true),
        ("app/src/x", "app/src/x", true),
        ("app/src/x", "x", false),
        ("app/a b", "a b", true),
        (r#""app/caf\351""#, r#""caf\351""#, true),
    ] {
        assert_eq!(files::is_of(&patch(path), listed), is_it, "{listed} {path}");
    }
}

#[test]
fn only_pictures_have_a_type() {
    assert_eq!(files::picture_type("a/B.PNG"), Some("image/png"));
    assert_eq!(files::picture_type("a.svg"), Some("image/svg+xml"));
    for other in ["x.html", "png", "x.svgz", "x.png.html", "a.xml"] {
        assert_eq!(files::picture_type(other), None, "{other}");
    }
}
