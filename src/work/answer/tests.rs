//! Holds the confidence to what it is meant as, on questions with known answers.

use std::collections::HashSet;

use super::*;
use crate::work::plan::{self, Format};

const PLAN: [(&str, &str); 3] = [
    ("plan.md", include_str!("../../../tests/answers/plan.md")),
    ("design.json", include_str!("../../../tests/answers/design.json")),
    ("notes.txt", include_str!("../../../tests/answers/notes.txt")),
];
const QUESTIONS: &str = include_str!("../../../tests/answers/questions.txt");

struct Case {
    kind: &'static str,
    question: &'static str,
    /// Any of these is in a right quote.
    right: Vec<&'static str>,
}

fn cases() -> Vec<Case> {
    let lines = QUESTIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let mut parts = line.split(" | ");
            let (kind, question) = (parts.next().unwrap(), parts.next().unwrap());
            let right = parts.next().map(|right| right.split("||").collect()).unwrap_or_default();
            Case { kind, question, right }
        })
        .collect()
}

/// A plan to be asked: its sections, and in how many a stem stands.
struct Book {
    sections: Vec<Section>,
    places: Vec<Place>,
    stems: Vec<HashSet<String>>,
}

impl Book {
    fn of(documents: &[(&str, &str)]) -> Self {
        let (mut sections, mut places) = (Vec::new(), Vec::new());
        for (source, text) in documents {
            for section in plan::sections(Format::of(source), text).unwrap() {
                sections.push(section);
                places.push(Place { source: (*source).to_owned(), version: "1".to_owned() });
            }
        }
        let stems = |section: &Section| {
            let headings = [section.heading.as_str(), &section.above];
            headings.into_iter().chain(section.said()).flat_map(words::stems).collect()
        };
        let stems = sections.iter().map(stems).collect();
        Self { sections, places, stems }
    }

    fn ask(&self, question: &str, focus: &Focus) -> Told {
        let count = |stem: &str| self.stems.iter().filter(|stems| stems.contains(stem)).count();
        let asked = Asked::new(question, self.sections.len() as u64, |stem| count(stem) as u64);
        let (sections, places) = (self.sections.clone(), self.places.clone());
        let search = Search { asked, sections, places, is_empty: false };
        tell(&search, &find(&search, focus))
    }
}

fn quote(told: &Told) -> &str {
    told.evidence.as_ref().and_then(|evidence| evidence.exact_quote.as_deref()).unwrap_or_default()
}

#[test]
fn a_confidence_is_about_the_share_of_answers_that_are_right() {
    let book = Book::of(&PLAN);
    let mut buckets = [(0, 0); 4];
    let (mut absent, mut absent_sure, mut stated, mut stated_sure) = (0, 0, 0, 0);
    for case in cases() {
        let told = book.ask(case.question, &Focus::default());
        let is_right = case.right.iter().any(|right| quote(&told).contains(right));
        let bucket = match told.confidence {
            c if c < 0.4 => 0,
            c if c < SURE => 1,
            c if c < 0.9 => 2,
            _ => 3,
        };
        buckets[bucket].1 += 1;
        buckets[bucket].0 += i32::from(is_right);
        let is_sure = i32::from(told.confidence >= SURE);
        if case.kind == "absent" {
            absent += 1;
            absent_sure += is_sure;
        } else if case.kind == "stated" {
            stated += 1;
            stated_sure += is_sure;
        }
        if is_sure == 0 && case.kind == "stated" {
            println!("modest: {:.2} {} -> {}", told.confidence, case.question, quote(&told));
        }
        if is_sure == 1 && !is_right {
            println!("wrong: {:.2} {} -> {}", told.confidence, case.question, quote(&told));
        }
    }
    println!("right of all, by confidence (below 0.4, 0.7, 0.9, and above): {buckets:?}");
    println!(
        "sure though absent: {absent_sure} of {absent}; sure and stated: {stated_sure} of {stated}"
    );
    let share = |(right, all): (i32, i32)| f64::from(right) / f64::from(all.max(1));
    let sure = (buckets[2].0 + buckets[3].0, buckets[2].1 + buckets[3].1);
    assert!(share(sure) >= 0.9, "{buckets:?}");
    assert!(share((absent_sure, absent)) <= 0.05, "{absent_sure} of {absent}");
    assert!(share((stated_sure, stated)) >= 0.8, "modest where it need not be");
    assert!(buckets.map(share).is_sorted(), "more confidence is more truth: {buckets:?}");
}

#[test]
fn below_the_mark_it_is_told_what_is_missing_and_above_it_nothing_is() {
    let book = Book::of(&PLAN);
    for case in cases() {
        let told = book.ask(case.question, &Focus::default());
        assert_eq!(told.uncertainty.is_some(), told.confidence < SURE, "{}", case.question);
        assert_eq!(told.answer.is_some(), told.evidence.is_some());
        assert!(told.answer.is_some() || told.confidence < 0.4, "{}", case.question);
    }
    let told = book.ask("How long is a refresh token valid?", &Focus::default());
    assert!(told.uncertainty.unwrap().contains("\"refresh\""));
    let told = book.ask("Should Harbor allow overbooking in the high season?", &Focus::default());
    assert!(told.uncertainty.unwrap().contains("leaves this open"));
}

#[test]
fn the_example_of_the_reference_is_answered_as_it_says() {
    let plan = "{\n  \"designChoices\": {\n    \"navigationStyle\": \"Sidebar collapses to hamburger menu on mobile (< 768px breakpoint)\",\n    \"pageLayout\": \"Sidebar Navigation (persistent on desktop)\",\n    \"animation\": \"All transitions use 200ms timing function\"\n  }\n}\n";
    let book = Book::of(&[("Docs/Plans/my-app/plan.json", plan)]);
    let focus = Focus {
        terms: vec!["responsive-design".to_owned(), "mobile".to_owned()],
        ..Focus::default()
    };
    let told = book.ask("Should sidebar collapse on mobile?", &focus);
    assert!(told.confidence >= 0.9, "{told:?}");
    let evidence = told.evidence.unwrap();
    assert_eq!(evidence.section, "designChoices.navigationStyle");
    assert_eq!(evidence.line_numbers, Some([3, 3]));
    assert!(told.related.iter().any(|related| related.contains("persistent on desktop")));
    let told = book.ask("What animation library should I use?", &Focus::default());
    assert!(told.confidence < 0.5, "{told:?}");
    assert!(told.answer.is_none() && told.uncertainty.is_some());
}

#[test]
fn a_plan_that_contradicts_itself_is_not_sure() {
    let book = Book::of(&[(
        "a.md",
        "# A\n\nThe request timeout is 30 seconds.\n\n# B\n\nThe request timeout is 60 seconds.\n",
    )]);
    let told = book.ask("What is the request timeout?", &Focus::default());
    assert!(told.confidence < SURE);
    assert!(told.uncertainty.unwrap().contains("says otherwise"), "and the other is shown");
}

#[test]
fn two_statements_that_part_in_a_word_are_not_sure() {
    let book = Book::of(&[(
        "a.md",
        "# Menu\n\nThe side menu is open by default.\n\n# Views\n\nThe side menu is closed by default.\n",
    )]);
    let told = book.ask("Is the side menu open or closed by default?", &Focus::default());
    assert!(told.confidence < SURE, "{told:?}");
    let told = book.ask("How is the side menu by default?", &Focus::default());
    assert!(told.confidence < SURE && told.uncertainty.unwrap().contains("says otherwise"));
}

#[test]
fn a_comparison_turned_round_is_not_sure() {
    let text = "# Refunds\n\nRefunds under 500 euro are approved by the accountant.\n";
    let book = Book::of(&[("a.md", text)]);
    let told = book.ask("Who approves refunds under 500 euro?", &Focus::default());
    assert!(told.confidence >= SURE, "{told:?}");
    let told = book.ask("Who approves refunds over 500 euro?", &Focus::default());
    assert!(told.confidence < SURE, "{told:?}");
    assert!(told.uncertainty.unwrap().contains("says over, and the plan speaks of under"));
}

#[test]
fn things_that_changed_places_are_not_sure() {
    let text =
        "# Order\n\nMercury depends on Venus.\n\n# Parser\n\nThe parser converts YAML to TOML.\n";
    let book = Book::of(&[("a.md", text)]);
    for (question, is_sure) in [
        ("Does Mercury depend on Venus?", true),
        ("Does Venus depend on Mercury?", false),
        ("Does the parser convert YAML to TOML?", true),
        ("Does the parser convert TOML to YAML?", false),
    ] {
        let told = book.ask(question, &Focus::default());
        assert_eq!(told.confidence >= SURE, is_sure, "{told:?}");
        assert_eq!(told.uncertainty.is_some_and(|it| it.contains("other way round")), !is_sure);
    }
}

#[test]
fn what_is_so_answers_before_what_is_not_and_what_is_struck_out_does_not() {
    let text = "# Database\n\nWe use PostgreSQL 16. Do not use MySQL as the database.\n\n# Look\n\n\
                ~~The color is green.~~ The color is purple.\n";
    let book = Book::of(&[("a.md", text)]);
    let told = book.ask("Which database do we use?", &Focus::default());
    assert_eq!(told.answer.as_deref(), Some("We use PostgreSQL 16."), "{told:?}");
    let told = book.ask("Which database do we not use?", &Focus::default());
    assert_eq!(told.answer.as_deref(), Some("Do not use MySQL as the database."), "{told:?}");
    let told = book.ask("What is the color?", &Focus::default());
    assert_eq!(told.answer.as_deref(), Some("The color is purple."), "{told:?}");
    assert_eq!(quote(&told), "~~The color is green.~~ The color is purple.");
}

#[test]
fn what_the_section_says_is_not_told_as_missing() {
    let text = "# Tools\n\nThe version is told by a flag. It takes git 2.31 or later.\n";
    let book = Book::of(&[("a.md", text)]);
    let told = book.ask("Which git version has the flag?", &Focus::default());
    let uncertainty = told.uncertainty.unwrap();
    assert!(uncertainty.contains("Only its section speaks of \"git\""), "{uncertainty}");
    assert!(!uncertainty.contains("says nothing"), "{uncertainty}");
    let told = book.ask("Which git version is needed?", &Focus::default());
    assert_eq!(told.answer.as_deref(), Some("It takes git 2.31 or later."), "{told:?}");
    assert!(told.uncertainty.is_none_or(|it| !it.contains("says nothing")));
}

#[test]
fn guidance_is_what_the_section_says_under_that_name() {
    let text = "# Sidebar\n\nThe sidebar collapses on mobile.\n\n- Animation: slides out in 200 ms\n- Accessibility: the button has a label\n\n```css\n.sidebar { display: none; }\n```\n";
    let told =
        Book::of(&[("a.md", text)]).ask("Does the sidebar collapse on mobile?", &Focus::default());
    let guidance = told.guidance.unwrap();
    assert_eq!(guidance.animation.as_deref(), Some("slides out in 200 ms"));
    assert_eq!(guidance.accessibility.as_deref(), Some("the button has a label"));
    assert_eq!(guidance.implementation, None);
    assert_eq!(guidance.examples["css"], ".sidebar { display: none; }");
}
