use proptest::prelude::*;
use provost_actors::event::Timestamp;
use provost_actors::ids::CommentId;

use super::*;
use crate::api::comments::{CommentState, CurrentLines};

fn span(first: u64, count: u64) -> Span {
    Span { first, count }
}

/// An edit: so many lines stay, so many go, so many come.
type Edit = (u64, u64, u64);

/// A text of different lines, what edits make of it, and what differs.
fn edited(edits: &[Edit], rest: u64) -> (Vec<u64>, Vec<u64>, Difference) {
    let (mut old, mut new, mut hunks) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = 0..;
    let mut take =
        |count: u64| names.by_ref().take(usize::try_from(count).unwrap()).collect::<Vec<u64>>();
    let line = |text: &[u64]| text.len() as u64 + 1;
    for (stay, go, come) in edits {
        let same = take(*stay);
        old.extend(&same);
        new.extend(same);
        hunks.push(Hunk { old: span(line(&old), *go), new: span(line(&new), *come) });
        old.extend(take(*go));
        new.extend(take(*come));
    }
    let same = take(rest);
    old.extend(&same);
    new.extend(same);
    (old, new, Difference::Lines(hunks))
}

fn those(text: &[u64], lines: Span) -> &[u64] {
    let first = usize::try_from(lines.first - 1).unwrap();
    &text[first..first + usize::try_from(lines.count).unwrap()]
}

/// Lines of a text of so many.
fn lines_of(all: usize, at: u64, count: u64) -> Option<Span> {
    let all = all as u64;
    let first = at.checked_rem(all)?;
    Some(span(first + 1, count.min(all - first)))
}

/// Edits as git tells them apart: lines stay between them, and each changes something.
fn edits() -> impl Strategy<Value = (Vec<Edit>, u64)> {
    let edit = (1..4u64, 0..3u64, 0..3u64).prop_filter("changes something", |it| it.1 + it.2 > 0);
    let first = (0..2u64).prop_map(|less| 1 - less);
    (proptest::collection::vec(edit, 0..6), first, 0..4u64).prop_map(|(mut edits, first, rest)| {
        if let Some(edit) = edits.first_mut() {
            edit.0 = first;
        }
        (edits, rest)
    })
}

proptest! {
    #[test]
    fn lines_are_found_again_exactly_where_all_of_them_are_still_together(
        (edits, rest) in edits(), at in 0..30u64, count in 1..8u64,
    ) {
        let (old, new, difference) = edited(&edits, rest);
        let Some(lines) = lines_of(old.len(), at, count) else { return Ok(()) };
        let wanted = those(&old, lines);
        let there = new.windows(wanted.len()).position(|some| some == wanted);
        let found = difference.moved(lines);
        prop_assert_eq!(found.map(|it| it.first - 1), there.map(|it| it as u64));
        prop_assert_eq!(found.is_some(), !difference.is_touched(lines));
        prop_assert!(found.is_none_or(|found| found.count == lines.count));
    }

    #[test]
    fn in_place_of_lines_stand_those_that_stayed_and_what_replaced_others(
        (edits, rest) in edits(), at in 0..30u64, count in 0..8u64,
    ) {
        let (old, new, difference) = edited(&edits, rest);
        let Some(lines) = lines_of(old.len(), at, count) else { return Ok(()) };
        let image = those(&new, difference.image(lines));
        let mut stayed = those(&old, lines).iter().filter(|line| new.contains(line));
        prop_assert!(stayed.all(|line| image.contains(line)), "{image:?}");
        let known = |line: &&u64| old.contains(line) && !those(&old, lines).contains(line);
        prop_assert_eq!(image.iter().find(known), None, "no other old lines");
    }

    #[test]
    fn a_fence_outlasts_whatever_is_quoted(quoted in "[`~a\n]{0,40}") {
        let comment = Comment { quoted: quoted.clone(), ..comment("app/a", 1, "text") };
        let text = prompt(None, &[comment]);
        let (_, rest) = text.split_once("\n### app/a:1\n").unwrap();
        let fence: String = rest.chars().take_while(|letter| *letter == '`').collect();
        let inside = rest.strip_prefix(&format!("{fence}\n")).unwrap();
        let end = inside.find(&format!("\n{fence}\n")).unwrap();
        prop_assert_eq!(&inside[..end], quoted.as_str());
        prop_assert!(fence.len() >= 3 && !quoted.contains(&fence));
    }
}

#[test]
fn deleted_lines_leave_a_gap_that_is_followed() {
    let deleted = Difference::Lines(vec![Hunk { old: span(3, 2), new: span(3, 0) }]);
    let gap = deleted.image(span(3, 2));
    assert_eq!((gap, deleted.moved(span(3, 2))), (span(3, 0), None));
    let below = Difference::Lines(vec![Hunk { old: span(9, 1), new: span(9, 1) }]);
    assert!(!below.is_touched(gap));
    let back = Difference::Lines(vec![Hunk { old: span(3, 0), new: span(3, 2) }]);
    assert!(back.is_touched(gap));
    assert_eq!(back.image(gap), span(3, 2));
}

#[test]
fn lines_are_addressed_only_by_the_reviews_own_turns() {
    let change = |first| Difference::Lines(vec![Hunk { old: span(first, 1), new: span(first, 2) }]);
    let course = |to_turn: Difference, by_turns: Option<Difference>| {
        let to_now = by_turns.clone().unwrap_or_else(|| to_turn.clone());
        let course = Course { to_now, changed: span(5, 1), to_turn, by_turns };
        course.standing(span(5, 1))
    };
    let none = Difference::NONE;
    let is_addressed = |to_turn, by_turns| course(to_turn, by_turns).is_addressed;
    assert!(is_addressed(none.clone(), Some(change(5))));
    assert!(!is_addressed(change(5), Some(none.clone())), "an earlier turn changed it");
    assert!(!is_addressed(change(5), None), "its turn has not ended");
    assert!(is_addressed(change(5), Some(change(6))), "what replaced it was changed");
    assert!(!is_addressed(none.clone(), Some(change(6))));
    assert!(is_addressed(none, Some(Difference::All)), "the file is gone");
    let moved = course(Difference::NONE, Some(change(1)));
    assert_eq!(moved, LinePosition { now: Some(span(6, 1)), is_addressed: false });
}

#[test]
fn lines_are_quoted_as_far_as_there_is_room() {
    assert_eq!(quoted(b"a\nb\r\nc", span(2, 2)).unwrap(), "b\nc");
    assert_eq!(quoted(b"a\nb\n", span(2, 2)), Err(2));
    assert_eq!(quoted(b"", span(1, 1)), Err(0));
    let long = "x\n".repeat(100);
    assert_eq!(quoted(long.as_bytes(), span(1, 90)).unwrap().lines().count(), QUOTED_LINES);
    let wide = "ä".repeat(9000);
    assert_eq!(quoted(wide.as_bytes(), span(1, 1)).unwrap().chars().count(), QUOTED_CHARS);
}

fn comment(path: &str, first_line: u64, text: &str) -> Comment {
    Comment {
        comment_id: CommentId::new(),
        path: path.to_owned(),
        side: Side::New,
        first_line,
        last_line: first_line,
        turn: 1,
        blob_id: String::new(),
        quoted: format!("line {first_line}"),
        text: text.to_owned(),
        state: CommentState::Draft,
        outdated: false,
        now: None,
        author: "person".to_owned(),
        review_id: None,
        created_at: Timestamp::now(),
        updated_at: Timestamp::now(),
    }
}

#[test]
fn the_prompt_has_each_comment_with_its_place_file_by_file() {
    let moved = CurrentLines { path: "app/b".to_owned(), first_line: 12, last_line: 14 };
    let comments = [
        Comment { last_line: 3, outdated: true, now: Some(moved), ..comment("app/b", 1, "Moved.") },
        comment("app/a", 9, "Name it.\n"),
        Comment { side: Side::Old, ..comment("app/a", 2, "Why did this go?") },
        Comment { last_line: 90, ..comment("app/c\n", 4, "Too long.") },
        Comment { outdated: true, ..comment("app/d", 7, "Is it right now?") },
    ];
    insta::assert_snapshot!(prompt(Some("Nearly there.\n"), &comments));
    let plain = prompt(None, &comments[1..2]);
    assert!(plain.starts_with("Please address these review comments on your changes.\n\n## app/a"));
}
