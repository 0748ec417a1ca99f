//! A large board and a large plan: tasks that depend on each other, documents of a thousand
//! sections, and what workers say about them. The same in each run.

use std::fmt::Write as _;

use serde_json::{Value, json};

const PRIORITIES: [&str; 4] = ["low", "medium", "high", "critical"];

/// Of a document.
pub const SECTIONS: usize = 1000;

/// What the plan's sections are about.
const WORDS: [&str; 16] = [
    "sidebar",
    "navigation",
    "colour",
    "contrast",
    "animation",
    "storage",
    "backup",
    "login",
    "session",
    "export",
    "search",
    "index",
    "cache",
    "message",
    "upload",
    "report",
];

/// Each task waits for two earlier ones, as far as there are any.
pub fn tasks(many: usize) -> Value {
    let task = |number: usize| {
        let on = [number / 2, number.saturating_sub(40)];
        let on = on.iter().filter(|on| **on != number && number > 40);
        let on: Vec<String> = on.map(|on| format!("T{on}")).collect();
        json!({
            "id": format!("T{number}"),
            "title": format!("Task number {number}"),
            "description": format!("Make the {} work.", WORDS[number % WORDS.len()]),
            "priority": PRIORITIES[number % PRIORITIES.len()],
            "dependencies": on,
            "acceptanceCriteria": ["It works", "It is tested", "It is written down"],
            "files": {"readFrom": ["README.md"], "writeTo": [format!("src/part_{number}.rs")]},
            "estimatedHours": 2,
        })
    };
    Value::Array((0..many).map(task).collect())
}

/// Documents of [`SECTIONS`] each.
pub fn documents(many: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut word = || WORDS[random.usize(..WORDS.len())];
    let mut document = |part: usize| {
        let mut text = format!("# Part {part}\n");
        for section in 0..SECTIONS {
            // Writing to a string can't fail.
            let _ = write!(
                text,
                "\n## {} and {} {section}\n\nThe {} of the {} is kept in the {}.\n\
                 Every {} has a {} of at most {section} entries.\n",
                word(),
                word(),
                word(),
                word(),
                word(),
                word(),
                word(),
            );
        }
        text
    };
    (0..many).map(&mut document).collect()
}

pub fn done(task: &Value) -> Value {
    json!({
        "taskId": task,
        "status": "done",
        "implementationNotes": "Made as the brief says.",
        "filesModified": ["src/part.rs"],
        "testing": {"testsAdded": true, "testsPassed": true, "testsFailed": 0},
        "acceptanceCriteriaVerification": {"0": {"text": "It works", "status": "passed"}},
        "observations": ["The neighbour is slow"],
        "followUpTasks": [{"title": "Make it faster", "why": "It is slow"}],
    })
}

/// Two words of the plan that a question is about.
pub fn topic(number: usize) -> [&'static str; 2] {
    [number % WORDS.len(), (number / WORDS.len() + 1) % WORDS.len()].map(|at| WORDS[at])
}

pub fn question([one, other]: [&str; 2]) -> Value {
    json!({"question": format!("Where is the {one} of the {other} kept?")})
}

pub fn observation(number: usize) -> Value {
    json!({
        "taskId": "TASK-001",
        "observation": "The tests of the neighbour are slow",
        "type": "improvement",
        "severity": "low",
        "createNewTask": number.is_multiple_of(2),
        "newTaskDetails": {"title": "Make them faster", "priority": "low", "estimatedHours": 1},
    })
}
