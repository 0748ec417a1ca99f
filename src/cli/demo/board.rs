//! The team's repository and board: a plan, eight tasks, and a check of the work itself.

use serde_json::{Value, json};

pub const PLAN_FILE: &str = "docs/plan.md";
pub const PLAN_NAME: &str = "shop";
pub const PLAN: &str = "\
# The shop

## Interface
Every call of the interface is a POST with a JSON body.

## Requests
### Time limits
A request times out after 5 seconds and is tried again at most twice.

### Storage
Orders are kept in one SQLite file; every order is one transaction.

## Pages
The front page shows the twelve newest articles, newest first.
";

/// Passes if every file of the work says that it was tested.
pub const CHECK_FILE: &str = "check.sh";
pub const CHECK: &str = "\
for work in work/*.txt; do
    [ -e \"$work\" ] || continue
    echo \"testing $work\"
    grep -q '^tested$' \"$work\" || { echo \"$work: its test fails\"; exit 1; }
done
";

/// The prefix of a requirement that is a question.
pub const ASK: &str = "Find out: ";
/// A question that the plan answers, and the answer.
pub const OF_THE_PLAN: &str = "After how many seconds does a request time out?";
pub const PLAN_SAYS: &str = "A request times out after 5 seconds and is tried again at most twice.";
/// A question that only a person can answer, and the answer.
pub const OF_A_PERSON: &str = "Which typeface did the customer choose for the invoices?";
pub const PERSON_SAYS: &str = "Garamond, as on their letters.";

/// A task.
pub struct Task {
    pub name: &'static str,
    pub priority: &'static str,
    pub after: &'static [&'static str],
    pub title: &'static str,
    /// The question that a worker has to ask.
    pub ask: Option<&'static str>,
}

#[rustfmt::skip]
pub const TASKS: [Task; 8] = [
    Task { name: "interface", priority: "critical", after: &[], title: "Define the interface", ask: None },
    Task { name: "storage", priority: "high", after: &[], title: "Keep orders", ask: None },
    Task { name: "invoices", priority: "medium", after: &[], title: "Set the invoices", ask: Some(OF_A_PERSON) },
    Task { name: "limits", priority: "high", after: &["interface"], title: "Limit the time of requests", ask: Some(OF_THE_PLAN) },
    Task { name: "orders", priority: "high", after: &["interface", "storage"], title: "Take orders", ask: None },
    Task { name: "page", priority: "medium", after: &["limits"], title: "Show the front page", ask: None },
    Task { name: "mails", priority: "low", after: &["orders", "invoices"], title: "Mail the invoices", ask: None },
    Task { name: "release", priority: "low", after: &["page", "mails"], title: "Release the shop", ask: None },
];

impl Task {
    /// Its brief for the worker.
    pub fn brief(&self) -> Value {
        let ask = self.ask.map(|question| format!("{ASK}{question}"));
        json!({
            "superDetailedPrompt": {
                "description": self.title,
                "requirements": ask.into_iter().collect::<Vec<_>>(),
                "files": {"readFrom": [PLAN_FILE], "writeTo": [format!("work/{}.txt", self.name)], "referencedIn": []},
                "acceptanceCriteria": [format!("work/{}.txt is there and was tested", self.name)],
                "estimatedHours": 0.5,
            },
            "planReference": {"planId": PLAN_NAME, "version": "1.0.0", "affectedSections": []},
        })
    }
}
