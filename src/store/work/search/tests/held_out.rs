//! Measures answers on held-out plans: no rule or limit was chosen on `tests/answers/held-out`.
//! `docs/workers.md` holds the figures. When a rule has been chosen with these questions in
//! view, they become a development set, and new ones take their place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::work::answer::cite::GIVEN;

macro_rules! held_out {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../../../../../tests/answers/held-out/", $name, ".md")),
            include_str!(concat!("../../../../../tests/answers/held-out/", $name, ".txt")))),*]
    };
}

const SETS: [(&str, &str, &str); 4] = held_out!("learning", "claims", "warehouse", "podcast");

const KINDS: [&str; 4] = ["stated", "reworded", "absent", "lures"];

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/workers.md");
const BEGIN: &str = "<!-- held-out figures: `UPDATE_DOCS=1 cargo test held_out` writes them -->\n";
const END: &str = "<!-- end of the held-out figures -->\n";

/// How many of how many.
#[derive(Clone, Copy, Default)]
struct Part(usize, usize);

impl Part {
    fn add(&mut self, is_part: bool) {
        *self = Self(self.0 + usize::from(is_part), self.1 + 1);
    }

    fn share(self) -> f64 {
        share(self.0, self.1)
    }

    fn cell(self) -> String {
        let Self(part, all) = self;
        if all == 0 { "-".to_owned() } else { format!("{part} of {all}") }
    }
}

#[derive(Default)]
struct Measured {
    /// Right answers of each class.
    classes: BTreeMap<Class, Part>,
    /// Sure ones of each kind of question.
    sure: BTreeMap<&'static str, Part>,
    /// Sure and right ones.
    right: BTreeMap<&'static str, Part>,
    /// Those whose right passage is among the ones shown.
    shown: BTreeMap<&'static str, Part>,
    /// Sure and right ones with an answerer that finds the right passage if it gets it.
    answerer: BTreeMap<&'static str, Part>,
}

impl Measured {
    async fn of_all() -> Self {
        let mut measured = Self::default();
        for (name, plan, questions) in SETS {
            let book = Book::of(&[(&format!("{name}.md"), plan)]).await;
            for case in Case::all(questions) {
                for piece in &case.pieces {
                    assert!(plan.contains(piece), "{piece}");
                }
                measured.add(&book, &case).await;
            }
        }
        measured
    }

    async fn add(&mut self, book: &Book, case: &Case) {
        let search = book.search(case.question, &[]).await;
        let weighed = weigh(&search);
        let is_right = weighed.best.as_ref().is_some_and(|it| case.is_right(&it.passage().text));
        let is_sure = weighed.class == Class::Sure;
        self.classes.entry(weighed.class).or_default().add(is_right);
        self.sure.entry(case.kind).or_default().add(is_sure);
        self.right.entry(case.kind).or_default().add(is_sure && is_right);
        let is_shown = search.best(SHOWN).iter().any(|hit| case.is_right(&hit.passage().quote));
        self.shown.entry(case.kind).or_default().add(is_shown);
        let is_cited = !is_sure && scripted_answerer(book, case, &search).await;
        self.answerer.entry(case.kind).or_default().add(is_sure && is_right || is_cited);
    }

    fn sure(&self) -> Part {
        self.classes.get(&Class::Sure).copied().unwrap_or_default()
    }

    fn answerable(by_kind: &BTreeMap<&'static str, Part>) -> Part {
        let (stated, reworded) = (by_kind["stated"], by_kind["reworded"]);
        Part(stated.0 + reworded.0, stated.1 + reworded.1)
    }

    fn docs(&self) -> String {
        let mut docs =
            String::from("| Class | Confidence | Best passage is right |\n|---|---|---|\n");
        for class in [Class::Sure, Class::Likely, Class::Weak, Class::None] {
            let part = self.classes.get(&class).copied().unwrap_or_default();
            let _ = writeln!(
                docs,
                "| {} | {:.2} | {} |",
                format!("{class:?}").to_lowercase(),
                class.confidence(),
                part.cell()
            );
        }
        docs.push_str(
            "\n| Questions | Sure | Sure and right | Right passage shown | Sure and right with a \
             scripted answerer |\n|---|---|---|---|---|\n",
        );
        for kind in KINDS {
            let is_answerable = ["stated", "reworded"].contains(&kind);
            let cell = |part: Part| if is_answerable { part.cell() } else { "-".to_owned() };
            let _ = writeln!(
                docs,
                "| {kind} | {} | {} | {} | {} |",
                self.sure[kind].cell(),
                cell(self.right[kind]),
                cell(self.shown[kind]),
                cell(self.answerer[kind])
            );
        }
        docs
    }
}

/// Whether an answerer that recognises the right passage makes the answer sure. One that
/// quotes what is not there never does.
async fn scripted_answerer(book: &Book, case: &Case, search: &Search) -> bool {
    let given = search.best(GIVEN);
    if let Some(first) = given.first() {
        let invented = format!("PASSAGE {}: words that no plan contains", first.id);
        assert!(book.store.cited(book.project, &invented).await.unwrap().is_none());
    }
    let Some(found) = given.iter().find(|hit| case.is_right(&hit.passage().quote)) else {
        return false;
    };
    let line = found.passage().quote.lines().find(|line| case.is_right(line)).unwrap_or_default();
    let answer = format!("I found it.\nPASSAGE {}: \"{line}\"", found.id);
    book.store.cited(book.project, &answer).await.unwrap().is_some()
}

#[tokio::test]
async fn the_published_figures_are_those_of_the_held_out_set() {
    let measured = Measured::of_all().await;
    let figures = measured.docs();
    println!("{figures}");
    let page = std::fs::read_to_string(DOCS).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (published, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOCS, format!("{before}{BEGIN}{figures}{END}{after}")).unwrap();
    } else {
        assert_eq!(published, figures, "run the test with UPDATE_DOCS=1");
    }
    for (class, part) in &measured.classes {
        let off = (class.confidence() - part.share()).abs();
        assert!(off < 0.006, "the confidence of {class:?} is not its precision: {}", part.share());
    }
    assert!(measured.sure().share() >= 0.97);
    assert!(measured.sure["stated"].share() >= 0.75);
    assert!(Measured::answerable(&measured.shown).share() >= 0.85);
    assert!(Measured::answerable(&measured.answerer).share() >= 0.9);
}
