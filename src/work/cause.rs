//! The likeliest cause of a test failure: from its own text, from how the test
//! stood before, from what the task changed, and from failures that were like it.
//! Pure, and a rule of thumb: what it says is where to look first.

use serde_json::Value;

/// Most of the reporter's own guesses that become steps.
const GUESSES: usize = 5;

/// How the test stood before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Passed,
    NeverPassed,
    Flaky,
}

/// What is known about a failure.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    pub test_name: &'a str,
    pub test_file: &'a str,
    pub error: &'a str,
    pub assertion: Option<&'a str>,
    pub expected: Option<&'a Value>,
    pub actual: Option<&'a Value>,
    pub before: Before,
    /// What the reporter takes for possible.
    pub guesses: &'a [String],
    /// What the task's last report says it changed.
    pub changed: &'a [String],
    /// Failures like this one, the newest first.
    pub earlier: &'a [Earlier],
}

/// A failure that was like this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Such as `FAIL-001`.
    pub handle: String,
    /// It was the same test; else another one with the same error.
    pub is_same_test: bool,
    /// What ended it, if anything did.
    pub end: Option<End>,
}

/// The investigation that ended a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Such as `TASK-012`.
    pub task: String,
    /// What its report says was done.
    pub summary: Option<String>,
}

/// Where to look first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analysis {
    pub likeliest: String,
    pub steps: Vec<String>,
}

/// The kinds of errors, apart by blank lines: the name; what it is, as the end of "The error
/// …"; where to look first; its words in lower case, separated by `|`. The first kind with a word
/// in the text wins: a program that does not compile has no assertion, and one that panics
/// because a file is missing needs the file.
const KINDS: &str = include_str!("causes.txt");

/// What an error's text shows it to be.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    is: &'static str,
    step: &'static str,
    words: &'static str,
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        KINDS.split("\n\n").filter_map(|kind| {
            let mut lines = kind.lines();
            let mut next = || lines.next();
            Some(Self { name: next()?, is: next()?, step: next()?, words: next()? })
        })
    }

    fn of(evidence: &Evidence<'_>) -> Option<Self> {
        let text = [evidence.error, evidence.assertion.unwrap_or_default()].join("\n");
        let text = text.to_lowercase();
        let has_word = |kind: &Self| kind.words.split('|').any(|word| text.contains(word));
        let has_values = evidence.assertion.is_some()
            || (evidence.expected.is_some() && evidence.actual.is_some());
        let by_values = |kind: &Self| has_values && kind.name == "assertion";
        Self::all().find(has_word).or_else(|| Self::all().find(by_values))
    }

    /// It comes from where the test runs as often as from the code.
    fn is_of_surroundings(self) -> bool {
        matches!(self.name, "permission" | "network" | "exhausted")
    }
}

/// The likeliest cause, and what to do about it.
pub fn analyse(evidence: &Evidence<'_>) -> Analysis {
    let kind = Kind::of(evidence);
    Analysis { likeliest: likeliest(evidence, kind), steps: steps(evidence, kind) }
}

fn likeliest(evidence: &Evidence<'_>, kind: Option<Kind>) -> String {
    let name = evidence.test_name;
    let ended = evidence.earlier.iter().find(|it| it.is_same_test && it.end.is_some());
    let cause = if let Some((earlier, end)) = ended.and_then(|it| Some((it, it.end.as_ref()?))) {
        let how = end.summary.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
        format!(
            "The failure {} of the same test is back: {}{how} did not end it.",
            earlier.handle, end.task
        )
    } else if evidence.before == Before::Flaky {
        format!("{name} looks flaky: shared state, order or timing is the likelier cause.")
    } else if kind.is_some_and(Kind::is_of_surroundings) {
        "What the test runs in is likelier than the code under test.".to_owned()
    } else if evidence.before == Before::Passed && !evidence.changed.is_empty() {
        format!(
            "{name} passed before, so the task's own change is likeliest: {}.",
            evidence.changed.join(", ")
        )
    } else if evidence.before == Before::Passed {
        format!("{name} passed before, so what the task changed since is likeliest.")
    } else if let Some(earlier) = evidence.earlier.first() {
        format!("A cause that it shares with {}, which failed in the same way.", earlier.handle)
    } else {
        format!(
            "{name} never passed, so either what it tests is not done or the test itself is wrong."
        )
    };
    let is = kind.map_or("does not show its kind", |kind| kind.is);
    format!("{cause} The error {is}{}.", values(evidence))
}

/// Both values of an assertion, where they are short enough to be read in passing.
fn values(evidence: &Evidence<'_>) -> String {
    match (evidence.expected, evidence.actual) {
        (Some(expected), Some(actual)) => {
            let short = |value: &Value| provost_actors::text::cut(value.to_string(), 80);
            format!(": {} instead of {}", short(actual), short(expected))
        }
        _ => String::new(),
    }
}

fn steps(evidence: &Evidence<'_>, kind: Option<Kind>) -> Vec<String> {
    let mut steps = vec![format!(
        "Run {} of {} alone, and read the whole error.",
        evidence.test_name, evidence.test_file
    )];
    steps.extend(kind.map(|kind| kind.step.to_owned()));
    match evidence.before {
        Before::Passed if evidence.changed.is_empty() => {
            steps.push("Find the commit since which it fails (git bisect).".to_owned());
        }
        Before::Passed => {
            steps.push(format!("Read what changed in {}.", evidence.changed.join(", ")));
        }
        Before::Flaky => {
            steps.push(
                "Run it many times, alone and with the others, and in another order.".to_owned(),
            );
        }
        Before::NeverPassed => {}
    }
    for earlier in evidence.earlier.iter().take(3) {
        steps.push(match &earlier.end {
            Some(End { task, summary: Some(summary) }) => {
                format!("Read {}, which {task} ended: {summary}", earlier.handle)
            }
            Some(End { task, summary: None }) => {
                format!("Read {}, which {task} ended.", earlier.handle)
            }
            None => format!("Read {}, which nothing has ended yet.", earlier.handle),
        });
    }
    let guesses = evidence.guesses.iter().take(GUESSES);
    steps.extend(guesses.map(|guess| format!("Rule out or prove: {guess}")));
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn evidence(error: &str) -> Evidence<'_> {
        Evidence {
            test_name: "adds",
            test_file: "tests/sum.rs",
            error,
            assertion: None,
            expected: None,
            actual: None,
            before: Before::NeverPassed,
            guesses: &[],
            changed: &[],
            earlier: &[],
        }
    }

    #[test]
    fn an_error_is_told_by_its_own_words() {
        for (error, kind) in [
            ("AssertionError: expected 3 to equal 4", "assertion"),
            ("assertion `left == right` failed\n  left: 1\n right: 2", "assertion"),
            ("Test timed out after 5000ms; expected it to end", "timeout"),
            ("thread 'x' panicked at src/a.rs:1: index out of bounds", "crash"),
            ("thread 'x' panicked at 'boom'", "crash"),
            ("TypeError: Cannot read properties of undefined (reading 'a')", "crash"),
            ("Error: Cannot find module './colors'", "missing"),
            (
                "called `Result::unwrap()` on Err(Os { code: 2, No such file or directory })",
                "missing",
            ),
            ("EACCES: permission denied, open '/etc/x'", "permission"),
            ("connect ECONNREFUSED 127.0.0.1:5432", "network"),
            ("FATAL ERROR: JavaScript heap out of memory", "exhausted"),
            ("error[E0425]: cannot find value `x` in this scope", "compile"),
            ("SyntaxError: Unexpected token '}'", "compile"),
            ("Snapshot `renders 1` mismatched", "snapshot"),
            ("boom", "unknown"),
        ] {
            let found = Kind::of(&evidence(error)).map_or("unknown", |kind| kind.name);
            assert_eq!(found, kind, "{error}");
        }
        let by_values =
            Evidence { expected: Some(&json!(1)), actual: Some(&json!(2)), ..evidence("no") };
        assert_eq!(Kind::of(&by_values).unwrap().name, "assertion");
    }

    #[test]
    fn what_passed_before_is_laid_to_the_change_that_the_task_made() {
        let changed = ["src/sum.rs".to_owned()];
        let analysis = analyse(&Evidence {
            before: Before::Passed,
            changed: &changed,
            expected: Some(&json!("#fff")),
            actual: Some(&json!("#000")),
            ..evidence("assertion failed")
        });
        assert!(
            analysis.likeliest.contains("own change is likeliest: src/sum.rs."),
            "{}",
            analysis.likeliest
        );
        assert!(
            analysis.likeliest.ends_with("\"#000\" instead of \"#fff\"."),
            "{}",
            analysis.likeliest
        );
        assert!(analysis.steps.iter().any(|step| step == "Read what changed in src/sum.rs."));
    }

    #[test]
    fn surroundings_are_likelier_than_a_change_where_the_error_tells_of_them() {
        let changed = ["src/sum.rs".to_owned()];
        let analysis = analyse(&Evidence {
            before: Before::Passed,
            changed: &changed,
            ..evidence("ECONNREFUSED")
        });
        assert!(analysis.likeliest.starts_with("What the test runs in"), "{}", analysis.likeliest);
    }

    #[test]
    fn a_failure_that_is_back_names_what_did_not_end_it() {
        let end = End { task: "TASK-012".to_owned(), summary: Some("Raised the limit".to_owned()) };
        let earlier = [
            Earlier { handle: "FAIL-004".to_owned(), is_same_test: false, end: None },
            Earlier { handle: "FAIL-003".to_owned(), is_same_test: true, end: Some(end) },
        ];
        let guesses = ["the clock".to_owned()];
        let analysis =
            analyse(&Evidence { earlier: &earlier, guesses: &guesses, ..evidence("timed out") });
        assert!(analysis.likeliest.contains("FAIL-003"), "{}", analysis.likeliest);
        assert!(analysis.likeliest.contains("TASK-012 (Raised the limit) did not end it"));
        assert_eq!(
            analysis.steps[2..],
            [
                "Read FAIL-004, which nothing has ended yet.",
                "Read FAIL-003, which TASK-012 ended: Raised the limit",
                "Rule out or prove: the clock",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_failure_has_a_cause_and_a_step(
            error in ".{0,200}", guesses in proptest::collection::vec(".{0,20}", 0..9),
        ) {
            let analysis = analyse(&Evidence { guesses: &guesses, ..evidence(&error) });
            prop_assert!(analysis.likeliest.ends_with('.'));
            prop_assert!((1..=2 + GUESSES).contains(&analysis.steps.len()));
        }
    }
}
