//! The likeliest cause of a test failure: from its text, from whether the test passed before, from what the
//! task changed, and from similar failures. Pure. It is a rule of thumb: it says where to look first.

use provost_actors::ids::{TaskId, TicketId};
use serde::Deserialize;
use serde_json::Value;

use crate::api::worker::failure::{PreviousStatus, ReportTestFailureInput, RootCause};

/// How many guesses of the worker become steps.
const GUESSES: usize = 5;

/// An earlier failure that is similar to this one.
#[derive(Clone, Debug, Deserialize)]
pub struct Earlier {
    /// Such as `FAIL-001`.
    pub handle: String,
    /// `true`: it was the same test; `false`: another test with the same error.
    pub is_same_test: bool,
    /// Id and handle of its investigation, if that is still open.
    pub investigation: Option<(TaskId, String)>,
    /// How its investigation ended; `None`: it has none, or it is still open.
    pub end: Option<End>,
    /// Id and handle of its alert, if that is still open.
    pub alert: Option<(TicketId, String)>,
}

/// An investigation that is done.
#[derive(Clone, Debug, Deserialize)]
pub struct End {
    /// The handle of the investigation.
    pub task: String,
    /// What the newest report on it says was done.
    pub summary: Option<String>,
}

/// The kinds of errors, separated by blank lines. Each has four lines: its name; the end of the sentence "The
/// error …"; where to look first; its words in lower case, separated by `|`. The first kind with a word in
/// the text counts: a program that does not compile reaches no assertion, and one that panics because a file
/// is missing needs the file.
const KINDS: &str = include_str!("causes.txt");

#[derive(Clone, Copy, Debug)]
struct CauseKind {
    name: &'static str,
    is: &'static str,
    step: &'static str,
    words: &'static str,
}

impl CauseKind {
    fn all() -> impl Iterator<Item = Self> {
        KINDS.split("\n\n").filter_map(|kind| {
            let mut lines = kind.lines();
            let mut next = || lines.next();
            Some(Self { name: next()?, is: next()?, step: next()?, words: next()? })
        })
    }

    fn of(failure: &ReportTestFailureInput) -> Option<Self> {
        let details = &failure.failure_details;
        let assertion = details.failed_assertion.as_deref();
        let text = format!("{}\n{}", &*details.error, assertion.unwrap_or_default());
        let text = text.to_lowercase();
        let has_word = |kind: &Self| kind.words.split('|').any(|word| text.contains(word));
        let has_values = assertion.is_some()
            || (details.expected_value.is_some() && details.actual_value.is_some());
        let by_values = |kind: &Self| has_values && kind.name == "assertion";
        Self::all().find(has_word).or_else(|| Self::all().find(by_values))
    }

    /// Whether the surroundings of the test cause such errors as often as the code.
    fn is_of_surroundings(self) -> bool {
        matches!(self.name, "permission" | "network" | "exhausted")
    }
}

/// The likeliest cause, and what to do about it. `changed` are the files that the task's last report names;
/// `earlier` has the newest failure first.
pub fn analyse(
    failure: &ReportTestFailureInput,
    changed: &[String],
    earlier: &[Earlier],
) -> RootCause {
    let kind = CauseKind::of(failure);
    RootCause {
        likeliest_cause: likeliest(failure, changed, earlier, kind),
        suggested_investigation: steps(failure, changed, earlier, kind),
    }
}

fn likeliest(
    failure: &ReportTestFailureInput,
    changed: &[String],
    earlier: &[Earlier],
    kind: Option<CauseKind>,
) -> String {
    let (name, before) = (&*failure.test_name, failure.previous_status);
    let ended = earlier.iter().filter(|it| it.is_same_test);
    let mut ended = ended.filter_map(|it| Some((it, it.end.as_ref()?)));
    let cause = if let Some((earlier, end)) = ended.next() {
        let how = end.summary.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
        format!(
            "The failure {} of the same test is back: {}{how} did not end it.",
            earlier.handle, end.task
        )
    } else if before == PreviousStatus::Flaky {
        format!("{name} looks flaky: shared state, order or timing is the likelier cause.")
    } else if kind.is_some_and(CauseKind::is_of_surroundings) {
        "What the test runs in is likelier than the code under test.".to_owned()
    } else if before == PreviousStatus::PassingBefore && !changed.is_empty() {
        format!(
            "{name} passed before, so the task's own change is likeliest: {}.",
            changed.join(", ")
        )
    } else if before == PreviousStatus::PassingBefore {
        format!("{name} passed before, so what the task changed since is likeliest.")
    } else if let Some(earlier) = earlier.first() {
        format!("A cause that it shares with {}, which failed in the same way.", earlier.handle)
    } else {
        format!(
            "{name} never passed, so either what it tests is not done or the test itself is wrong."
        )
    };
    let is = kind.map_or("does not show its kind", |kind| kind.is);
    format!("{cause} The error {is}{}.", values(failure))
}

/// The expected and the actual value of an assertion, cut to be read in passing; empty if one is missing.
fn values(failure: &ReportTestFailureInput) -> String {
    let details = &failure.failure_details;
    match (&details.expected_value, &details.actual_value) {
        (Some(expected), Some(actual)) => {
            let short = |value: &Value| provost_actors::text::cut(value.to_string(), 80);
            format!(": {} instead of {}", short(actual), short(expected))
        }
        _ => String::new(),
    }
}

fn steps(
    failure: &ReportTestFailureInput,
    changed: &[String],
    earlier: &[Earlier],
    kind: Option<CauseKind>,
) -> Vec<String> {
    let (name, file) = (&*failure.test_name, &*failure.test_file);
    let mut steps = vec![format!("Run {name} of {file} alone, and read the whole error.")];
    steps.extend(kind.map(|kind| kind.step.to_owned()));
    match failure.previous_status {
        PreviousStatus::PassingBefore if changed.is_empty() => {
            steps.push("Find the commit since which it fails (git bisect).".to_owned());
        }
        PreviousStatus::PassingBefore => {
            steps.push(format!("Read what changed in {}.", changed.join(", ")));
        }
        PreviousStatus::Flaky => {
            steps.push(
                "Run it many times, alone and with the others, and in another order.".to_owned(),
            );
        }
        PreviousStatus::NeverPassed => {}
    }
    for earlier in earlier.iter().take(3) {
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
    let guesses = failure.cause_possibility.iter().flat_map(|guesses| guesses.iter());
    steps.extend(guesses.take(GUESSES).map(|guess| format!("Rule out or prove: {}", &**guess)));
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn failure(error: &str) -> ReportTestFailureInput {
        serde_json::from_value(json!({
            "taskId": "TASK-001", "testName": "adds", "testFile": "tests/sum.rs",
            "failureDetails": {"error": error}, "previousStatus": "never_passed",
            "needsInvestigation": false, "actionNeeded": "",
        }))
        .unwrap()
    }

    #[test]
    fn an_error_is_recognized_by_its_own_words() {
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
            let found = CauseKind::of(&failure(error)).map_or("unknown", |kind| kind.name);
            assert_eq!(found, kind, "{error}");
        }
        let mut by_values = failure("no");
        by_values.failure_details.expected_value = Some(json!(1));
        by_values.failure_details.actual_value = Some(json!(2));
        assert_eq!(CauseKind::of(&by_values).unwrap().name, "assertion");
    }

    #[test]
    fn what_passed_before_is_laid_to_the_change_that_the_task_made() {
        let changed = ["src/sum.rs".to_owned()];
        let mut failure = failure("assertion failed");
        failure.previous_status = PreviousStatus::PassingBefore;
        failure.failure_details.expected_value = Some(json!("#fff"));
        failure.failure_details.actual_value = Some(json!("#000"));
        let cause = analyse(&failure, &changed, &[]);
        let likeliest = &cause.likeliest_cause;
        assert!(likeliest.contains("own change is likeliest: src/sum.rs."), "{likeliest}");
        assert!(likeliest.ends_with("\"#000\" instead of \"#fff\"."), "{likeliest}");
        let step = "Read what changed in src/sum.rs.".to_owned();
        assert!(cause.suggested_investigation.contains(&step));
    }

    #[test]
    fn surroundings_are_likelier_than_a_change_where_the_error_tells_of_them() {
        let changed = ["src/sum.rs".to_owned()];
        let mut failure = failure("ECONNREFUSED");
        failure.previous_status = PreviousStatus::PassingBefore;
        let likeliest = analyse(&failure, &changed, &[]).likeliest_cause;
        assert!(likeliest.starts_with("What the test runs in"), "{likeliest}");
    }

    #[test]
    fn a_failure_that_is_back_names_what_did_not_end_it() {
        let end = End { task: "TASK-012".to_owned(), summary: Some("Raised the limit".to_owned()) };
        let earlier = |handle: &str, is_same_test, end| Earlier {
            handle: handle.to_owned(),
            is_same_test,
            investigation: None,
            end,
            alert: None,
        };
        let earlier = [earlier("FAIL-004", false, None), earlier("FAIL-003", true, Some(end))];
        let mut failure = failure("timed out");
        failure.cause_possibility = serde_json::from_value(json!(["the clock"])).unwrap();
        let cause = analyse(&failure, &[], &earlier);
        assert!(cause.likeliest_cause.contains("FAIL-003"), "{}", cause.likeliest_cause);
        assert!(cause.likeliest_cause.contains("TASK-012 (Raised the limit) did not end it"));
        assert_eq!(
            cause.suggested_investigation[2..],
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
            error in "x.{0,200}", guesses in proptest::collection::vec("x.{0,20}", 0..9),
        ) {
            let mut failure = failure(&error);
            failure.cause_possibility = serde_json::from_value(json!(guesses)).unwrap();
            let cause = analyse(&failure, &[], &[]);
            prop_assert!(cause.likeliest_cause.ends_with('.'));
            prop_assert!((1..=2 + GUESSES).contains(&cause.suggested_investigation.len()));
        }
    }
}
