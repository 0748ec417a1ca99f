use serde_json::json;

use super::*;

const MARKDOWN: &str = "\
# The plan

What it is about.

## TASK-001: Make the parser
- Priority: high
- Estimate: 2.5h

It reads `a`:

- one thing
- another

By the way:

- Skills: Rust, grammars

### Acceptance criteria
1. [ ] It parses
2. It tells *where* it fails

### Files
- Read: grammar.md, `notes.md`
- `src/parser.rs` - the parser, by hand
- Used in: src/main.rs: it starts all
- src/lexer.rs: the lexer

### Context
The linter waits for it.

### How
By hand.

## [lint] Make the linter
- **Depends on**: TASK-001, TASK-900
- Priority: Low

## Fix: the docs
- not a field
";

fn faults(text: &str, format: Format) -> Vec<String> {
    let refusal = read(text, format).unwrap_err();
    assert_eq!(refusal.code, Code::InvalidArgument);
    serde_json::from_value(refusal.details["faults"].clone()).unwrap()
}

#[test]
fn a_markdown_file_is_read_heading_by_heading() {
    let tasks = read(MARKDOWN, Format::Markdown).unwrap();
    let [parser, linter, docs] = tasks.as_slice() else { panic!("{tasks:?}") };
    assert_eq!(parser.id.as_deref(), Some("TASK-001"));
    assert_eq!((parser.title.as_str(), parser.priority), ("Make the parser", Priority::High));
    let description = "It reads `a`:\n\n- one thing\n- another\n\nBy the way:\n\n### How\nBy hand.";
    assert_eq!(parser.description.as_deref(), Some(description));
    let brief = Brief::read(&json!({
        "acceptanceCriteria": ["It parses", "It tells *where* it fails"],
        "files": {
            "readFrom": ["grammar.md", "notes.md"], "writeTo": ["src/parser.rs", "src/lexer.rs"],
            "referencedIn": ["src/main.rs"],
        },
        "context": "The linter waits for it.",
        "estimatedHours": 2.5,
        "skillsRequired": ["Rust", "grammars"],
    }));
    assert_eq!(parser.brief, Some(brief.unwrap()));
    assert_eq!((linter.id.as_deref(), linter.title.as_str()), (Some("lint"), "Make the linter"));
    assert_eq!(linter.depends_on, [On::Planned(0), On::Board("TASK-900".to_owned())]);
    assert_eq!((docs.id.as_deref(), docs.title.as_str()), (None, "Fix: the docs"));
    assert_eq!(docs.description.as_deref(), Some("- not a field"));
}

#[test]
fn json_is_an_array_or_stands_under_tasks() {
    let task = json!({
        "id": "a", "title": "A", "priority": "critical", "acceptanceCriteria": ["x"],
        "brief": {"context": "c"}, "dependencies": ["B"],
    });
    let tasks = json!([task, {"taskId": "b", "title": "B", "depends_on": []}]);
    let read_one = read(&tasks.to_string(), Format::Json).unwrap();
    assert_eq!(read_one[0].depends_on, [On::Planned(1)], "whatever the case");
    assert_eq!(read_one[0].priority, Priority::Critical);
    let prompt = read_one[0].brief.clone().unwrap().super_detailed_prompt.unwrap();
    assert_eq!((prompt.acceptance_criteria, prompt.context), (vec!["x".into()], Some("c".into())));
    let whole = json!({"plan": "x", "tasks": tasks}).to_string();
    assert_eq!(read(&whole, Format::Json).unwrap(), read_one);
}

#[test]
fn every_fault_is_reported_with_its_place() {
    let found = faults("[\n{\"title\": }]", Format::Json);
    assert!(found[0].starts_with("line 2: "), "{found:?}");
    let tasks = json!([
        {"title": "A", "priority": "hihg"},
        {"title": ""},
        {"title": "C", "requirement": []},
        {"title": "D", "depends_on": "A"},
        {"title": "E", "id": 5},
    ]);
    let found = faults(&tasks.to_string(), Format::Json);
    for (fault, expected) in found.iter().zip([
        "task 1 (\"A\"): `priority` must be low, medium, high or critical, not \"hihg\"; did you mean high?",
        "task 2 (\"\"): `title` must be a string of 1 to 1000 characters",
        "task 3 (\"C\"): `requirement` is not a field of a brief; did you mean requirements?",
        "task 4 (\"D\"): `depends_on` must be an array of strings",
        "task 5 (\"E\"): `id` must be a string",
    ]) {
        assert_eq!(fault, expected);
    }
    assert_eq!(faults("[1]", Format::Json), ["task 1: it must be an object"]);
    assert_eq!(faults("{}", Format::Json).len(), 1);
    assert_eq!(
        faults("# Title\n\ntext", Format::Markdown),
        ["there is no task in it: `## Title` begins one"]
    );
    let found = faults("## A\n- Owner: me\n- Priority: high", Format::Markdown);
    assert!(found[0].contains("\"owner\" is not one of"), "{found:?}");
    let found =
        faults("## A\n- Priority: high\n- Estimat: 2h\n\n## B\n- Estimate: soon", Format::Markdown);
    assert!(found[0].starts_with("line 1 (\"A\"): \"estimat\" is not one of"), "{found:?}");
    assert!(found[1].starts_with("line 5 (\"B\"): Estimate must be"), "{found:?}");
}

#[test]
fn two_of_one_name_and_a_circle_are_faults() {
    let twice = json!([{"title": "A", "id": "x"}, {"title": "B", "id": "X"}]).to_string();
    assert_eq!(faults(&twice, Format::Json), ["task 2 (\"B\"): task 1 (\"A\") is called X too"]);
    let circle = json!([
        {"title": "A", "id": "a", "depends_on": ["b"]},
        {"title": "B", "id": "b", "depends_on": ["a"]},
    ]);
    let expected = "task 1 (\"A\"): the dependencies form a cycle: a -> b -> a";
    assert_eq!(faults(&circle.to_string(), Format::Json), [expected]);
}
