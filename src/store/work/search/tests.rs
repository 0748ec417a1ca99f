//! How often the passage that answers a question is among those that are shown, on questions
//! in other words than the plan's.

use provost_actors::gateway::NewRepo;

use super::*;
use crate::store::{NewDocument, NewPlan, TimesToLive};
use crate::work::plan::{self, Format};

/// A plan, its questions, and the share of them whose answer must be shown. `README.md` names
/// the share that was measured.
type Case = (&'static str, &'static str, f64);

/// Asked as somebody asks who has not read the plan; nothing was fitted to it.
const REWORDED: Case = (
    include_str!("../../../../tests/nearest/bikes.md"),
    include_str!("../../../../tests/nearest/bikes.txt"),
    0.7,
);

/// Asked so that the plan's own words are avoided. The words near in meaning were gathered with
/// these questions in view, so what they measure is what that brought.
const AVOIDING: Case = (
    include_str!("../../../../tests/nearest/library.md"),
    include_str!("../../../../tests/nearest/library.txt"),
    0.8,
);

struct Book {
    store: Store,
    project: ProjectId,
    _folder: tempfile::TempDir,
}

impl Book {
    async fn of(source: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("provost.db");
        let store = Store::open(&path, TimesToLive::default()).await.unwrap();
        let repo = NewRepo {
            name: "app".to_owned(),
            path: "/src/app".to_owned(),
            default_target_branch: "main".to_owned(),
        };
        let project = store.create_project(None, "app", &[repo]).await.unwrap().value.project_id;
        let sections = plan::sections(Format::of(source), text).unwrap();
        let document = NewDocument::new(source.to_owned(), text.to_owned(), sections).unwrap();
        let plan = NewPlan {
            name: "plan".to_owned(),
            version: "1".to_owned(),
            documents: vec![document],
            replaces: false,
        };
        store.add_plan(project, &plan).await.unwrap();
        Self { store, project, _folder: folder }
    }

    async fn nearest(&self, question: &str, terms: &[&str]) -> Vec<Near> {
        let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).collect();
        self.store.nearest_passages(self.project, question, &terms).await.unwrap()
    }
}

fn share(shown: usize, of: usize) -> f64 {
    f64::from(u32::try_from(shown).unwrap()) / f64::from(u32::try_from(of).unwrap())
}

/// The share of questions whose answer is shown, each a line `question | piece of the quote`.
async fn shown(book: &Book, questions: &[(&str, Vec<&str>)]) -> f64 {
    let mut right = 0;
    for (question, pieces) in questions {
        let near = book.nearest(question, &[]).await;
        assert!(near.len() <= nearest::SHOWN);
        let is_right = |near: &Near| pieces.iter().any(|piece| near.quote.contains(piece));
        if near.iter().any(is_right) {
            right += 1;
        } else {
            println!("not shown: {question}");
        }
    }
    println!("shown: {right} of {}", questions.len());
    share(right, questions.len())
}

#[tokio::test]
async fn the_passage_that_answers_a_reworded_question_is_among_the_nearest() {
    for (plan, questions, floor) in [REWORDED, AVOIDING] {
        let book = Book::of("plan.md", plan).await;
        let lines = questions.lines().filter(|line| !line.starts_with('#'));
        let questions: Vec<(&str, Vec<&str>)> = lines
            .map(|line| {
                let (question, piece) = line.split_once(" | ").unwrap();
                assert!(plan.contains(piece), "{piece}");
                (question, vec![piece])
            })
            .collect();
        assert!(questions.len() >= 40);
        let share = shown(&book, &questions).await;
        assert!(share >= floor, "{share}");
    }
}

#[tokio::test]
async fn a_section_that_the_asker_names_is_shown_whatever_its_words() {
    let book = Book::of("a.md", "# Red\n\nMenus open.\n\n# Blue\n\nDoors open late.\n").await;
    let quotes = |near: Vec<Near>| near.into_iter().map(|near| near.quote).collect::<Vec<_>>();
    assert_eq!(quotes(book.nearest("When do doors open?", &["red"]).await)[0], "Menus open.");
    assert_eq!(quotes(book.nearest("Why?", &["Red", "\"("]).await), ["Menus open."]);
    assert_eq!(book.nearest("Quux?", &["green"]).await, []);
}

#[tokio::test]
async fn a_composed_letter_finds_a_decomposed_one() {
    let text = "# Place\n\nWe meet in the cafe\u{301} downstairs.\n\n# Other\n\nNo.\n";
    let book = Book::of("a.md", text).await;
    let near = book.nearest("Which caf\u{e9}?", &[]).await;
    assert_eq!(near[0].quote, "We meet in the cafe\u{301} downstairs.", "verbatim");
    assert_eq!((near[0].lines, near[0].section.as_str()), ([3, 3], "Place"));
}

#[tokio::test]
async fn plans_of_an_older_index_are_indexed_anew() {
    let book = Book::of("plan.md", REWORDED.0).await;
    let before = book.nearest("Which map library does the app use?", &[]).await;
    assert!(!before.is_empty());
    let all = "SELECT rowid FROM plan_passages";
    for statement in ["DELETE FROM plan_passages", "UPDATE plans SET index_version = 0"] {
        sqlx::query(statement).execute(&book.store.writer).await.unwrap();
    }
    let left: Vec<i64> = sqlx::query_scalar(all).fetch_all(&book.store.reader).await.unwrap();
    assert_eq!((left.len(), book.store.renew_plans().await.unwrap()), (0, 1));
    assert_eq!(book.nearest("Which map library does the app use?", &[]).await, before);
    assert_eq!(book.store.renew_plans().await.unwrap(), 0);
    assert_eq!(book.store.remove_plan(book.project, "plan", None).await.unwrap(), ["1"]);
    let left: Vec<i64> = sqlx::query_scalar(all).fetch_all(&book.store.reader).await.unwrap();
    assert_eq!(left.len(), 0, "with the plan goes its index");
}
