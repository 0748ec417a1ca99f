use serde_json::json;

use super::*;
use crate::http::page::samples::{
    HOSTILE, PROJECT, assert_harmless, attempt, lines, now, read, task,
};

fn card(why: Option<Why>, has_attempt: bool) -> Card {
    Card { task: task("Mend the roof"), why, attempt: has_attempt.then(|| attempt("failed")) }
}

fn board(cards: impl Fn(Column) -> Vec<Card>) -> Board {
    let column = |column| {
        let cards = cards(column);
        BoardColumn { column, total: cards.len() + 3, skipped: 0, cards }
    };
    Board { columns: Column::ALL.map(column).into() }
}

fn projects() -> Projects {
    let of = |id: &str, name: &str| json!({"project_id": id, "name": name, "created_at": now(), "updated_at": now()});
    let other = "0192f0c1-2345-7abc-8def-0000000000dd";
    Projects(read(json!([of(PROJECT, "app"), of(other, "site")])))
}

fn shown(board: &Board, asked: &Asked) -> String {
    lines(whole(&projects(), board, asked, &Forms::fixed("/board"), now()))
}

#[test]
fn a_board_has_its_columns_and_a_form_for_a_new_task() {
    let board = board(|column| match column {
        Column::Waiting => vec![card(Some(Why::Dependencies), false)],
        Column::NeedsYou => vec![card(Some(Why::Failed), true)],
        _ => vec![],
    });
    insta::assert_snapshot!(shown(&board, &Asked::default()));
}

#[test]
fn the_rest_of_a_column_is_on_pages_of_its_own() {
    let whole = board(|_| vec![card(None, false)]);
    let column = whole.columns[0].clone();
    let asked = Asked { column: Some(Column::Waiting), skip: CARDS, ..Asked::default() };
    let rest = Board { columns: vec![BoardColumn { skipped: CARDS, total: 200, ..column }] };
    let shown = shown(&rest, &asked);
    assert!(shown.contains("href=\"/board?column=waiting&amp;skip=0\""), "{shown}");
    assert!(shown.contains("href=\"/board?column=waiting&amp;skip=31\""), "{shown}");
    assert!(shown.contains("169 more"));
}

#[test]
fn cards_are_dropped_only_where_a_status_says_it() {
    let shown = shown(&board(|_| vec![]), &Asked::default());
    let drops: Vec<_> =
        shown.split("data-drop=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert_eq!(drops, ["todo", "inreview", "done"]);
}

#[test]
fn what_others_write_stays_text() {
    let board = board(|_| {
        let mut card = card(Some(Why::Failed), true);
        (card.task.title, card.task.handle) = (HOSTILE.to_owned(), HOSTILE.to_owned());
        card.task.waits_for = vec![HOSTILE.to_owned()];
        card.attempt.as_mut().unwrap().failure_summary = Some(HOSTILE.to_owned());
        vec![card]
    });
    assert_harmless(&shown(&board, &Asked::default()));
}

#[test]
fn every_reason_has_its_words() {
    let all = [
        Why::Dependencies,
        Why::Slot,
        Why::Host,
        Why::Disk,
        Why::Quota,
        Why::Stopped,
        Why::Discarded,
        Why::Blocked,
        Why::Paused,
        Why::Rework,
        Why::Checks,
        Why::Finish,
        Why::Proposed,
        Why::Asks,
        Why::ChecksFailed,
        Why::Failed,
        Why::QuotaAsks,
        Why::Conflict,
        Why::Merged,
    ];
    assert!(all.iter().all(|why| !reason_of(*why).is_empty()));
}
