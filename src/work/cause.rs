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

/// What is known of a failure.
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

/// What an error's text shows it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Compile,
    Missing,
    Permission,
    Network,
    Exhausted,
    Timeout,
    Snapshot,
    Crash,
    Assertion,
    Unknown,
}

/// Words of each kind, lower case. The first line with one of its words in the text
/// wins: a program that does not compile has no assertion, and one that panics for
/// want of a file wants the file.
const WORDS: &[(Kind, &[&str])] = &[
    (
        Kind::Compile,
        &[
            "syntaxerror",
            "syntax error",
            "could not compile",
            "cannot compile",
            "error[e0",
            "compilation failed",
            "error ts",
            "undeclared identifier",
            "unresolved import",
            "is not assignable to type",
            "undefined reference to",
        ],
    ),
    (
        Kind::Missing,
        &[
            "enoent",
            "no such file",
            "file not found",
            "filenotfounderror",
            "cannot find module",
            "module not found",
            "modulenotfounderror",
            "no module named",
            "importerror",
            "cannot open shared object",
            "command not found",
            "no such table",
            "no such column",
        ],
    ),
    (
        Kind::Permission,
        &[
            "eacces",
            "eperm",
            "permission denied",
            "operation not permitted",
            "permissionerror",
            "access denied",
            "read-only file system",
        ],
    ),
    (
        Kind::Network,
        &[
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "ehostunreach",
            "connection refused",
            "connection reset",
            "getaddrinfo",
            "name or service not known",
            "network is unreachable",
            "could not resolve host",
            "eaddrinuse",
            "address already in use",
            "tls handshake",
            "certificate verify",
        ],
    ),
    (
        Kind::Exhausted,
        &[
            "out of memory",
            "oomkilled",
            "enomem",
            "heap limit",
            "enospc",
            "no space left",
            "emfile",
            "too many open files",
            "sigkill",
        ],
    ),
    (Kind::Timeout, &["timeout", "timed out", "deadline exceeded", "deadlock", "exceeded timeout"]),
    (Kind::Snapshot, &["snapshot", "golden file", "approved file"]),
    (
        Kind::Crash,
        &[
            "segmentation fault",
            "sigsegv",
            "sigabrt",
            "core dumped",
            "stack overflow",
            "nullpointerexception",
            "nil pointer",
            "none value",
            "is not a function",
            "of undefined",
            "of null",
            "undefined is not",
            "attributeerror",
            "typeerror",
            "index out of",
            "unwrap()",
            "unhandled exception",
            "uncaught",
        ],
    ),
    (
        Kind::Assertion,
        &[
            "assert",
            "expected",
            "expect(",
            "to equal",
            "tobe",
            "should ",
            "left:",
            "mismatch",
            "not equal",
            "!=",
        ],
    ),
    (Kind::Crash, &["panic", "exception", "traceback"]),
];

impl Kind {
    fn of(evidence: &Evidence<'_>) -> Self {
        let text = [evidence.error, evidence.assertion.unwrap_or_default()].join("\n");
        let text = text.to_lowercase();
        let mut lines = WORDS.iter();
        let by_words = lines.find(|(_, words)| words.iter().any(|word| text.contains(word)));
        let has_values = evidence.assertion.is_some()
            || (evidence.expected.is_some() && evidence.actual.is_some());
        match by_words {
            Some((kind, _)) => *kind,
            None if has_values => Self::Assertion,
            None => Self::Unknown,
        }
    }

    /// It comes from where the test runs as often as from the code.
    fn is_of_surroundings(self) -> bool {
        matches!(self, Self::Permission | Self::Network | Self::Exhausted)
    }

    /// What it is, as the end of "The error …".
    fn says(self) -> &'static str {
        match self {
            Self::Compile => "is one of compilation: the test never ran",
            Self::Missing => "names a file, module or table that is not there",
            Self::Permission => "is a permission that is missing",
            Self::Network => "is one of the network",
            Self::Exhausted => "tells of memory, disk or descriptors that ran out",
            Self::Timeout => "is a time that ran out",
            Self::Snapshot => "is a snapshot that differs from what came out",
            Self::Crash => "is a crash on a value that was not expected",
            Self::Assertion => "is an assertion that does not hold",
            Self::Unknown => "does not show its kind",
        }
    }

    fn step(self) -> Option<&'static str> {
        match self {
            Self::Compile => Some("Build alone, and mend the first error that the compiler tells."),
            Self::Missing => Some(
                "See whether what the error names was moved, renamed or never made, and whether \
                 the path is taken from the right folder.",
            ),
            Self::Permission => {
                Some("See as which user the test runs, and the modes of what the error names.")
            }
            Self::Network => Some(
                "See whether the service that the error names runs and its port is free; a test \
                 should not need the network.",
            ),
            Self::Exhausted => {
                Some("Measure what the test uses, and what other processes left behind.")
            }
            Self::Timeout => Some(
                "Find what it waits for when the time runs out (a lock, a promise, a child), before \
                 the limit is raised.",
            ),
            Self::Snapshot => {
                Some("Read the difference: accept the new snapshot only if the change was meant.")
            }
            Self::Crash => {
                Some("Follow the stack trace to the first line of our own, and the value there.")
            }
            Self::Assertion => Some("Follow the value that differs back to where it is made."),
            Self::Unknown => None,
        }
    }
}

/// The likeliest cause, and what to do about it.
pub fn analyse(evidence: &Evidence<'_>) -> Analysis {
    let kind = Kind::of(evidence);
    Analysis { likeliest: likeliest(evidence, kind), steps: steps(evidence, kind) }
}

fn likeliest(evidence: &Evidence<'_>, kind: Kind) -> String {
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
    } else if kind.is_of_surroundings() {
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
    format!("{cause} The error {}{}.", kind.says(), values(evidence))
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

fn steps(evidence: &Evidence<'_>, kind: Kind) -> Vec<String> {
    let mut steps = vec![format!(
        "Run {} of {} alone, and read the whole error.",
        evidence.test_name, evidence.test_file
    )];
    steps.extend(kind.step().map(str::to_owned));
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
            ("AssertionError: expected 3 to equal 4", Kind::Assertion),
            ("assertion `left == right` failed\n  left: 1\n right: 2", Kind::Assertion),
            ("Test timed out after 5000ms; expected it to end", Kind::Timeout),
            ("thread 'x' panicked at src/a.rs:1: index out of bounds", Kind::Crash),
            ("thread 'x' panicked at 'boom'", Kind::Crash),
            ("TypeError: Cannot read properties of undefined (reading 'a')", Kind::Crash),
            ("Error: Cannot find module './colors'", Kind::Missing),
            (
                "called `Result::unwrap()` on Err(Os { code: 2, No such file or directory })",
                Kind::Missing,
            ),
            ("EACCES: permission denied, open '/etc/x'", Kind::Permission),
            ("connect ECONNREFUSED 127.0.0.1:5432", Kind::Network),
            ("FATAL ERROR: JavaScript heap out of memory", Kind::Exhausted),
            ("error[E0425]: cannot find value `x` in this scope", Kind::Compile),
            ("SyntaxError: Unexpected token '}'", Kind::Compile),
            ("Snapshot `renders 1` mismatched", Kind::Snapshot),
            ("boom", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(&evidence(error)), kind, "{error}");
        }
        let by_values =
            Evidence { expected: Some(&json!(1)), actual: Some(&json!(2)), ..evidence("no") };
        assert_eq!(Kind::of(&by_values), Kind::Assertion);
    }

    #[test]
    fn what_passed_before_is_laid_to_the_change_that_the_task_made() {
        let changed = ["src/sum.rs".to_owned()];
        let told = analyse(&Evidence {
            before: Before::Passed,
            changed: &changed,
            expected: Some(&json!("#fff")),
            actual: Some(&json!("#000")),
            ..evidence("assertion failed")
        });
        assert!(
            told.likeliest.contains("own change is likeliest: src/sum.rs."),
            "{}",
            told.likeliest
        );
        assert!(told.likeliest.ends_with("\"#000\" instead of \"#fff\"."), "{}", told.likeliest);
        assert!(told.steps.iter().any(|step| step == "Read what changed in src/sum.rs."));
    }

    #[test]
    fn surroundings_are_likelier_than_a_change_where_the_error_tells_of_them() {
        let changed = ["src/sum.rs".to_owned()];
        let told = analyse(&Evidence {
            before: Before::Passed,
            changed: &changed,
            ..evidence("ECONNREFUSED")
        });
        assert!(told.likeliest.starts_with("What the test runs in"), "{}", told.likeliest);
    }

    #[test]
    fn a_failure_that_is_back_names_what_did_not_end_it() {
        let end = End { task: "TASK-012".to_owned(), summary: Some("Raised the limit".to_owned()) };
        let earlier = [
            Earlier { handle: "FAIL-004".to_owned(), is_same_test: false, end: None },
            Earlier { handle: "FAIL-003".to_owned(), is_same_test: true, end: Some(end) },
        ];
        let guesses = ["the clock".to_owned()];
        let told =
            analyse(&Evidence { earlier: &earlier, guesses: &guesses, ..evidence("timed out") });
        assert!(told.likeliest.contains("FAIL-003"), "{}", told.likeliest);
        assert!(told.likeliest.contains("TASK-012 (Raised the limit) did not end it"));
        assert_eq!(
            told.steps[2..],
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
            let told = analyse(&Evidence { guesses: &guesses, ..evidence(&error) });
            prop_assert!(told.likeliest.ends_with('.'));
            prop_assert!((1..=2 + GUESSES).contains(&told.steps.len()));
        }
    }
}
