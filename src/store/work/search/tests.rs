//! What the search finds, and what is answered from it. `tests/answers` (without `held-out`) and
//! `tests/nearest` are the development sets: rules and limits were chosen on them.

mod held_out;

use provost_actors::gateway::NewRepo;

use super::*;
use crate::store::{NewDocument, NewPlan, scratch};
use crate::work::answer::SHOWN;
use crate::work::answer::{Answer, Class, weigh};

/// A project with a plan.
struct Book {
    store: Store,
    project: ProjectId,
    _folder: tempfile::TempDir,
}

impl Book {
    async fn of(documents: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = scratch::open(folder.path()).await;
        let repo = NewRepo {
            name: "app".to_owned(),
            path: "/src/app".to_owned(),
            default_target_branch: "main".to_owned(),
            remotes: std::collections::BTreeMap::new(),
        };
        let project = store.create_project(None, "app", &[repo]).await.unwrap().value.project_id;
        let document = |(source, text): &(&str, &str)| {
            NewDocument::parse((*source).to_owned(), (*text).to_owned()).unwrap()
        };
        let plan = NewPlan {
            name: "plan".to_owned(),
            version: "1".to_owned(),
            documents: documents.iter().map(document).collect(),
            replaces: false,
        };
        store.add_plan(project, &plan).await.unwrap();
        Self { store, project, _folder: folder }
    }

    async fn search(&self, question: &str, names: &[&str]) -> Search {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.store.search_plans(self.project, question, &names, &[]).await.unwrap()
    }

    async fn ask(&self, question: &str) -> Answer {
        Answer::of_plan(&self.search(question, &[]).await)
    }

    async fn quotes(&self, question: &str, names: &[&str]) -> Vec<String> {
        let best = self.search(question, names).await.best(SHOWN).into_iter();
        best.map(|hit| hit.passage().quote.clone()).collect()
    }
}

/// A question of a test set: `kind | question | a piece of the right quote || another`.
struct Case {
    kind: &'static str,
    question: &'static str,
    pieces: Vec<&'static str>,
}

impl Case {
    fn all(text: &'static str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let case = |line: &'static str| {
            let mut parts = line.split(" | ");
            let (kind, question) = (parts.next().unwrap(), parts.next().unwrap());
            let pieces = parts.next().map(|it| it.split("||").collect()).unwrap_or_default();
            Self { kind, question, pieces }
        };
        lines.map(case).collect()
    }

    fn is_right(&self, text: &str) -> bool {
        self.pieces.iter().any(|piece| text.contains(piece))
    }
}

/// A document of a development set, and its questions.
macro_rules! development {
    ($plan:literal, $questions:literal) => {
        (
            vec![("plan.md", include_str!(concat!("../../../../tests/", $plan, ".md")))],
            include_str!(concat!("../../../../tests/", $questions)),
        )
    };
}

fn share(part: usize, all: usize) -> f64 {
    f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(all.max(1)).unwrap())
}

#[tokio::test]
async fn on_the_development_sets_what_is_sure_is_right() {
    let (mut sure, mut right, mut stated, mut stated_sure) = (0, 0, 0, 0);
    let (mut reworded, mut shown) = (0, 0);
    for (documents, questions) in [
        (
            vec![
                ("plan.md", include_str!("../../../../tests/answers/plan.md")),
                ("design.json", include_str!("../../../../tests/answers/design.json")),
                ("notes.txt", include_str!("../../../../tests/answers/notes.txt")),
            ],
            include_str!("../../../../tests/answers/questions.txt"),
        ),
        development!("answers/development/payments", "answers/development/payments.txt"),
        development!("answers/development/firmware", "answers/development/firmware.txt"),
        development!("answers/development/hospital", "answers/development/hospital.txt"),
        development!("answers/development/game", "answers/development/game.txt"),
        development!("nearest/bikes", "nearest/bikes-more.txt"),
        development!("nearest/library", "nearest/library-more.txt"),
    ] {
        let book = Book::of(&documents).await;
        for case in Case::all(questions) {
            let search = book.search(case.question, &[]).await;
            let weighed = weigh(&search);
            let is_sure = weighed.class == Class::Sure;
            let is_right = weighed.best.is_some_and(|best| case.is_right(&best.passage().quote));
            (sure, right) = (sure + usize::from(is_sure), right + usize::from(is_sure && is_right));
            if is_sure && !is_right {
                println!("wrong: {}", case.question);
            }
            if case.kind == "stated" {
                (stated, stated_sure) = (stated + 1, stated_sure + usize::from(is_sure));
            } else if case.kind == "reworded" {
                let is_right = |hit: &Hit| case.is_right(&hit.passage().quote);
                let is_shown = search.best(SHOWN).iter().any(is_right);
                (reworded, shown) = (reworded + 1, shown + usize::from(is_shown));
            }
            let answer = Answer::of_plan(&search);
            assert_eq!(answer.uncertainty.is_some(), !answer.is_sure(), "{}", case.question);
            assert_eq!(answer.text.is_some(), answer.evidence.is_some());
        }
    }
    println!("right of sure: {right} of {sure}; sure of stated: {stated_sure} of {stated}");
    println!("shown of reworded: {shown} of {reworded}");
    assert!(share(right, sure) >= 0.95 && share(stated_sure, stated) >= 0.8);
    assert!(share(shown, reworded) >= 0.65);
}

#[tokio::test]
async fn the_passage_that_answers_a_reworded_question_is_among_the_nearest() {
    let bikes = include_str!("../../../../tests/nearest/bikes.md");
    let book = Book::of(&[("bikes.md", bikes)]).await;
    let (mut shown, mut all) = (0, 0);
    for line in include_str!("../../../../tests/nearest/bikes.txt").lines().skip(1) {
        let (question, piece) = line.split_once(" | ").unwrap();
        assert!(bikes.contains(piece), "{piece}");
        let quotes = book.quotes(question, &[]).await;
        assert!(quotes.len() <= SHOWN);
        let is_shown = quotes.iter().any(|quote| quote.contains(piece));
        (shown, all) = (shown + usize::from(is_shown), all + 1);
    }
    println!("shown: {shown} of {all}");
    assert!(share(shown, all) >= 0.9);
}

#[tokio::test]
async fn the_example_of_the_reference_is_answered_as_it_says() {
    let plan = "{\n  \"designChoices\": {\n    \"navigationStyle\": \"Sidebar collapses to hamburger menu on mobile (< 768px breakpoint)\",\n    \"pageLayout\": \"Sidebar Navigation (persistent on desktop)\",\n    \"animation\": \"All transitions use 200ms timing function\"\n  }\n}\n";
    let book = Book::of(&[("Docs/Plans/my-app/plan.json", plan)]).await;
    let names = ["responsive-design", "mobile"];
    let answer = Answer::of_plan(&book.search("Should sidebar collapse on mobile?", &names).await);
    assert!(answer.confidence >= 0.9, "{answer:?}");
    let evidence = answer.evidence.unwrap();
    assert_eq!(evidence.section, "designChoices.navigationStyle");
    assert_eq!(evidence.line_numbers, Some([3, 3]));
    assert!(answer.related.iter().any(|related| related.contains("persistent on desktop")));
    let answer = book.ask("What animation library should I use?").await;
    assert!(answer.confidence < 0.5 && answer.text.is_none(), "{answer:?}");
    assert!(answer.uncertainty.unwrap().contains("does not mention \"library\""));
}

#[tokio::test]
async fn a_plan_that_contradicts_itself_is_not_sure() {
    let text =
        "# A\n\nThe request timeout is 30 seconds.\n\n# B\n\nThe request timeout is 60 seconds.\n";
    let book = Book::of(&[("a.md", text)]).await;
    let question = "What is the request timeout?";
    let answer = book.ask(question).await;
    assert!(!answer.is_sure());
    assert!(answer.uncertainty.unwrap().contains("60 seconds"), "the other passage is shown");
    let named = Answer::of_plan(&book.search(question, &["b"]).await);
    assert_eq!(named.text.as_deref(), Some("The request timeout is 60 seconds."));
    assert!(named.is_sure(), "{named:?}");
}

#[tokio::test]
async fn what_is_open_rejected_or_struck_out_is_not_sure() {
    let text = "# Look\n\n~~The color is green.~~ The color is purple.\n\n# Rejected\n\nData lies in \
                MongoDB.\n\n# Questions\n\nDo the doors open late?\n";
    let book = Book::of(&[("a.md", text)]).await;
    let answer = book.ask("What is the color?").await;
    assert_eq!(answer.text.as_deref(), Some("The color is purple."), "{answer:?}");
    assert!(!answer.is_sure());
    assert!(!book.ask("Where does data lie?").await.is_sure());
    let answer = book.ask("Do the doors open late?").await;
    assert_eq!(answer.text, None);
    assert!(answer.uncertainty.unwrap().contains("leaves this open"));
}

#[tokio::test]
async fn guidance_is_what_the_section_says_under_that_name() {
    let text = "# Sidebar\n\nThe sidebar collapses on mobile.\n\n- Animation: slides out in 200 ms\n- Accessibility: the button has a label\n\n```css\n.sidebar { display: none; }\n```\n";
    let book = Book::of(&[("a.md", text)]).await;
    let guidance = book.ask("Does the sidebar collapse on mobile?").await.guidance.unwrap();
    assert_eq!(guidance.animation.as_deref(), Some("slides out in 200 ms"));
    assert_eq!(guidance.accessibility.as_deref(), Some("the button has a label"));
    assert_eq!(guidance.implementation, None);
    assert_eq!(guidance.examples["css"], ".sidebar { display: none; }");
}

#[tokio::test]
async fn a_section_that_the_asker_names_is_shown_whatever_its_words() {
    let book = Book::of(&[("a.md", "# Red\n\nMenus open.\n\n# Blue\n\nDoors open late.\n")]).await;
    assert_eq!(book.quotes("When do doors open?", &["red"]).await[0], "Menus open.");
    assert_eq!(book.quotes("Why?", &["Red", "\"("]).await, ["Menus open."]);
    assert!(book.quotes("Quux?", &["green"]).await.is_empty());
}

#[tokio::test]
async fn words_are_found_in_other_normal_forms_and_languages() {
    let text = "# CallerLocation\n\nWe meet in the cafe\u{301} downstairs.\n\n# Fristen\n\nProtokolle werden 14 \
                Tage aufbewahrt.\n\n# \u{691c}\u{7d22}\n\n\u{691c}\u{7d22}\u{306f}OpenSearch\u{3067}\
                \u{52d5}\u{304d}\u{307e}\u{3059}\u{3002}\n";
    let book = Book::of(&[("a.md", text)]).await;
    for (question, quote) in [
        ("Which caf\u{e9}?", "We meet in the cafe\u{301} downstairs."),
        ("Which CAFE?", "We meet in the cafe\u{301} downstairs."),
        ("Wie lange werden Protokolle aufbewahrt?", "Protokolle werden 14 Tage aufbewahrt."),
        (
            "\u{691c}\u{7d22}\u{306f}\u{4f55}\u{3067}\u{3059}\u{304b}",
            "\u{691c}\u{7d22}\u{306f}OpenSearch\u{3067}\u{52d5}\u{304d}\u{307e}\u{3059}\u{3002}",
        ),
    ] {
        assert_eq!(book.quotes(question, &[]).await[0], quote, "verbatim");
    }
}

#[tokio::test]
async fn plans_of_an_older_index_are_indexed_again() {
    let book = Book::of(&[("plan.md", include_str!("../../../../tests/nearest/bikes.md"))]).await;
    let question = "Which map library does the app use?";
    let before = book.quotes(question, &[]).await;
    assert!(!before.is_empty());
    let all = "SELECT rowid FROM plan_passages";
    for statement in ["DELETE FROM plan_passages", "UPDATE plans SET index_version = 0"] {
        book.store.change(statement, ()).await;
    }
    let left =
        async || -> Vec<i64> { book.store.read(async |db| db.all(all, ()).await).await.unwrap() };
    assert_eq!((left().await.len(), book.store.renew_plans().await.unwrap()), (0, 1));
    assert_eq!(book.quotes(question, &[]).await, before);
    assert_eq!(book.store.renew_plans().await.unwrap(), 0);
    assert_eq!(book.store.remove_plan(book.project, "plan", None).await.unwrap(), ["1"]);
    assert_eq!(left().await.len(), 0, "with the plan goes its index");
}
