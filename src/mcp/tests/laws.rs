//! What holds for every tool in the table.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;
use provost_actors::event::{ProcessStatus, Timestamp};
use provost_actors::journal::{Attempts, Change, Outcome, Processes};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

use super::samples::{ID, arguments, entries};
use super::scratch::{Scratch, caller};
use crate::api::Role;
use crate::mcp::instructions;
use crate::mcp::prompts::ORCHESTRATE;
use crate::tools::{Effect, Tool, table as tools, worker_error};

fn definition(tool: &Tool) -> Value {
    serde_json::to_value(tool.definition()).unwrap()
}

/// What a role may be shown, in listing order.
fn definitions(role: Role) -> Vec<rmcp::model::Tool> {
    tools::all().iter().filter(|tool| tool.is_for_role(role)).map(Tool::definition).collect()
}

#[test]
fn input_roots_have_only_what_every_client_takes() {
    for tool in tools::all() {
        let schema = &definition(tool)["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["properties"].is_object() && schema["required"].is_array());
        let allowed = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "dependentSchemas",
            "minProperties",
        ];
        for keyword in schema.as_object().unwrap().keys() {
            assert!(allowed.contains(&keyword.as_str()), "{}: {keyword}", tool.name);
        }
        let text = schema.to_string();
        for bad in ["$ref", "null", "\"format\":\"u", "\"default\":null", "\"const\""] {
            assert!(!text.contains(bad), "{}: {bad}", tool.name);
        }
    }
}

#[test]
fn output_roots_are_objects_that_admit_the_envelope() {
    for tool in tools::all() {
        let schema = &definition(tool)["outputSchema"];
        assert_eq!(schema["type"], "object");
        let validator = jsonschema::draft202012::new(schema).unwrap();
        for code in Code::ALL {
            let refusal = Refusal::new(*code, "no");
            for refusal in [refusal.clone(), refusal.detail("path", "x")] {
                let envelope = if tool.is_workers() {
                    worker_error::envelope(&refusal, "a", &json!({}))
                } else {
                    refusal.envelope()
                };
                assert!(validator.is_valid(&envelope), "{}: {envelope}", tool.name);
            }
        }
        assert!(!validator.is_valid(&json!({})), "{}", tool.name);
        assert!(!schema.to_string().contains("$ref"), "{}", tool.name);
    }
}

/// Clients that check arguments themselves would show a model the pattern, not our hint.
#[test]
fn ids_publish_no_pattern() {
    for tool in tools::all() {
        let schema = definition(tool)["inputSchema"].to_string();
        assert!(!schema.contains("\"pattern\""), "{}", tool.name);
    }
    let get_task = tools::find("get_task").unwrap();
    assert!(!get_task.is_valid(&json!({"task_id": "one"})), "the server checks all the same");
}

fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            found.push(path.clone());
        }
        undescribed(property, &path, found);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(values) = schema.get(keyword) {
            undescribed(values, &format!("{path}[]"), found);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for branch in schema[keyword].as_array().into_iter().flatten() {
            undescribed(branch, path, found);
        }
    }
}

#[test]
fn every_property_at_every_depth_is_described() {
    let mut found = Vec::new();
    for tool in tools::all() {
        let definition = definition(tool);
        undescribed(&definition["inputSchema"], &format!("{} in", tool.name), &mut found);
        undescribed(&definition["outputSchema"], &format!("{} out", tool.name), &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn descriptions_follow_the_template() {
    for tool in tools::all() {
        let description = &tool.description;
        assert!(description.chars().count() <= 700, "{} is too long", tool.name);
        let headings: Vec<_> =
            description.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(headings, ["Use when", "Required", "Optional", "Next", "Avoid"]);
        assert!(description.lines().all(|line| line.ends_with('.')), "{}", tool.name);
        // Who works inside an attempt may simply go on with its task.
        let next = description.lines().find(|line| line.starts_with("Next: ")).unwrap();
        let names_one = tools::all().iter().any(|other| next.contains(other.name));
        let is_boards = !tool.is_for_role(Role::Worker);
        assert!(names_one || !is_boards, "{}: {next}", tool.name);
    }
}

/// Every property name of any tool, in or out.
fn property_names(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "properties" {
                    names.extend(member.as_object().into_iter().flatten().map(|(n, _)| n.clone()));
                }
                property_names(member, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| property_names(item, names)),
        _ => {}
    }
}

#[test]
fn texts_name_only_tools_and_fields_that_exist() {
    let mut known: BTreeSet<String> = tools::all().iter().map(|t| t.name.to_owned()).collect();
    for tool in tools::all() {
        property_names(&definition(tool), &mut known);
    }
    let texts = tools::all()
        .iter()
        .map(|tool| &*tool.description)
        .chain(Code::ALL.iter().map(|code| code.hint()))
        .chain([instructions::BOARD, instructions::INSIDE, ORCHESTRATE]);
    for text in texts {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for word in
            words.filter(|word| word.contains('_') && word.chars().all(|c| !c.is_uppercase()))
        {
            assert!(known.contains(word), "{word} in: {text}");
        }
    }
}

#[test]
fn instructions_fit_what_clients_show() {
    for text in [instructions::BOARD, instructions::INSIDE] {
        assert!(text.len() < 2048);
        // All that some clients show until a tool is searched for.
        let first = text.lines().next().unwrap();
        assert!(first.contains("the loop: ") && first.ends_with('.'), "{first}");
    }
    assert!(instructions::BOARD.contains("timeout_ms = 50000"));
    assert!(ORCHESTRATE.chars().count() < 1500);
}

#[test]
fn the_list_of_tools_is_small() {
    for (role, limit) in [(Role::Orchestrator, 34), (Role::Worker, 25)] {
        let mut tools = serde_json::to_value(definitions(role)).unwrap();
        let size = tools.to_string().len();
        assert!(size <= 88 * 1024, "{role} with outputs: {size} bytes");
        for tool in tools.as_array_mut().unwrap() {
            tool.as_object_mut().unwrap().remove("outputSchema");
        }
        let size = tools.to_string().len();
        assert!(size <= limit * 1024, "{role}: {size} bytes");
    }
}

#[test]
fn names_and_annotations_are_complete_and_consistent() {
    let mut names = BTreeSet::new();
    for tool in tools::all() {
        let name = tool.name;
        assert!(names.insert(name), "{name} twice");
        // The worker API keeps its own names.
        let may_have = |c: char| c.is_ascii_lowercase() || c == '_';
        let is_named = name.chars().all(|c| may_have(c) || tool.is_workers() && c.is_alphabetic());
        assert!(name.len() <= 40 && is_named, "{name}");
        let definition = definition(tool);
        let annotations = &definition["annotations"];
        assert_eq!(annotations["title"], definition["title"]);
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(annotations[hint].is_boolean(), "{name}: {hint}");
        }
        let reads = tool.effect == Effect::Reads;
        assert_eq!(annotations["readOnlyHint"], reads, "{name}");
        assert!(!reads || annotations["destructiveHint"] == false, "{name}");
        let takes_key = definition["inputSchema"]["properties"].get("request_id").is_some();
        // What is asked twice is one question; whoever asks may do without a key.
        let asks = tool.effect == Effect::Asks;
        assert!(asks || takes_key != reads, "{name}: request_id goes with effects");
        assert_eq!(tool.description.contains("request_id"), takes_key, "{name}");
    }
}

#[test]
fn the_closed_loop_is_loaded_at_once() {
    let always: Vec<_> = tools::all()
        .iter()
        .filter(|tool| definition(tool)["_meta"]["anthropic/alwaysLoad"] == true)
        .map(|tool| tool.name)
        .collect();
    let expected = [
        "list_tasks",
        "start_task_attempt",
        "get_attempt_status",
        "wait_for_attempts",
        "tail_attempt_logs",
        "follow_up",
    ];
    assert_eq!(always, expected);
}

#[test]
fn published_schemas_refuse_what_the_server_refuses() {
    let many: Vec<_> = (0..51).map(|_| ID).collect();
    let misuses = [
        ("answer", json!({})),
        ("answer", json!({"approval_id": ID})),
        ("answer", json!({"question_id": "Q-001"})),
        ("answer", json!({"decision": "deny"})),
        ("answer", json!({"approval_id": ID, "decision": "approve", "reason": "x"})),
        ("answer", json!({"approval_id": ID, "decision": "deny", "question_id": "Q-001"})),
        ("answer", json!({"approval_id": ID, "decision": "deny", "answer": "x"})),
        ("answer", json!({"question_id": "Q-001", "answer": "x", "decision": "deny"})),
        ("list_inbox", json!({"attempt_id": ID, "project_id": ID})),
        ("finish_attempt", json!({"attempt_id": ID, "action": "apply_to"})),
        ("finish_attempt", json!({"attempt_id": ID, "action": "commit", "strategy": "merge"})),
        ("finish_attempt", json!({"attempt_id": ID, "action": "merge", "remote": "origin"})),
        ("finish_attempt", json!({"attempt_id": ID, "action": "push", "into": "main"})),
        ("finish_attempt", json!({"attempt_id": ID, "action": "discard", "message": "m"})),
        ("list_inbox", json!({"attempt_id": ID, "status": "reports"})),
        ("createTicket", json!({"title": "t", "type": "investigation"})),
        ("answer", json!({"approval_id": ID})),
        ("answer", json!({"approval_id": ID, "decision": "approve", "reason": "x"})),
        ("follow_up", json!({"action": "send", "attempt_id": ID})),
        ("follow_up", json!({"action": "queue", "session_id": ID})),
        ("follow_up", json!({"action": "send", "prompt": "x"})),
        ("follow_up", json!({"action": "cancel"})),
        ("follow_up", json!({"action": "send", "prompt": "x", "attempt_id": ID, "session_id": ID})),
        ("follow_up", json!({"action": "cancel", "attempt_id": ID, "prompt": "x"})),
        ("follow_up", json!({"attempt_id": ID, "prompt": "x"})),
        ("follow_up", json!({"action": "stop", "attempt_id": ID})),
        ("comment_on_changes", json!({"attempt_id": ID})),
        (
            "comment_on_changes",
            json!({"attempt_id": ID, "action": "add", "path": "r/f", "line": 1}),
        ),
        ("comment_on_changes", json!({"attempt_id": ID, "action": "edit", "comment_id": ID})),
        ("comment_on_changes", json!({"attempt_id": ID, "action": "resolve"})),
        ("comment_on_changes", json!({"attempt_id": ID, "action": "list", "path": "r/f"})),
        (
            "comment_on_changes",
            json!({"attempt_id": ID, "action": "remove", "comment_id": ID, "text": "t"}),
        ),
        ("tail_attempt_logs", json!({"attempt_id": ID, "cursor": 5, "after_entry_index": 3})),
        ("tail_attempt_logs", json!({"attempt_id": ID, "after_entry_index": -2})),
        ("tail_attempt_logs", json!({"attempt_id": ID, "limit": 0})),
        ("tail_attempt_logs", json!({"attempt_id": ID, "channel": "both"})),
        ("get_attempt_status", json!({})),
        ("get_attempt_status", json!({"attempt_id": ID, "attempt_ids": [ID]})),
        ("get_attempt_status", json!({"attempt_ids": []})),
        ("get_attempt_status", json!({"attempt_ids": many})),
        ("wait_for_attempts", json!({})),
        ("wait_for_attempts", json!({"attempt_ids": []})),
        ("wait_for_attempts", json!({"attempt_ids": many})),
        ("wait_for_attempts", json!({"attempt_ids": [ID], "until": "settled"})),
        ("wait_for_attempts", json!({"attempt_ids": [ID], "timeout_ms": 0})),
        ("wait_for_attempts", json!({"attempt_ids": [ID], "timeout_ms": -1})),
        ("tail_session_messages", json!({})),
        ("tail_session_messages", json!({"limit": 5})),
        ("tail_session_messages", json!({"attempt_id": ID, "session_id": ID})),
        ("tail_session_messages", json!({"attempt_id": ID, "limit": 0})),
        ("tail_session_messages", json!({"attempt_id": ID, "cursor": -1})),
        ("update_task", json!({"task_id": ID})),
        ("update_task", json!({"task_id": ID, "request_id": "r"})),
        ("update_task", json!({"task_id": ID, "status": "doing"})),
        ("create_task", json!({"project_id": ID})),
        ("create_task", json!({"project_id": ID, "title": ""})),
        ("create_task", json!({"project_id": ID, "title": "t", "request_id": ""})),
        ("create_task", json!({"project_id": ID, "title": "t", "priority": "urgent"})),
        ("start_task_attempt", json!({"task_id": ID})),
        ("start_task_attempt", json!({"task_id": ID, "executor": "e", "workspace_id": ID})),
        (
            "get_attempt_file",
            json!({"attempt_id": ID, "path": "r/f", "start_line": 1, "offset": 0}),
        ),
        (
            "get_attempt_file",
            json!({"attempt_id": ID, "path": "r/f", "line_count": 1, "max_bytes": 9}),
        ),
        ("get_attempt_file", json!({"attempt_id": ID, "path": "r/f", "start_line": 0})),
        ("get_attempt_patch", json!({"attempt_id": ID, "paths": []})),
        ("get_attempt_patch", json!({"attempt_id": ID, "paths": vec!["r/f"; 5001]})),
        ("list_projects", json!({"request_id": "r"})),
        ("list_projects", json!({"limit": -5})),
        ("list_executors", json!({"x": 1})),
    ];
    for (name, arguments) in misuses {
        let schema = definition(tools::find(name).unwrap())["inputSchema"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert!(!validator.is_valid(&arguments), "{name} takes {arguments}");
    }
}

#[tokio::test]
async fn one_status_and_many_fit_the_same_schema() {
    let scratch = Scratch::new().await;
    let board = scratch.board().await;
    let both = [scratch.start(&board.task).await, board.attempt];
    let tool = tools::find("get_attempt_status").unwrap();
    let validator = jsonschema::draft202012::new(&definition(tool)["outputSchema"]).unwrap();
    let caller = caller(Role::Orchestrator, None);
    for arguments in [json!({"attempt_id": both[0]}), json!({"attempt_ids": both})] {
        let status = scratch.call(&caller, tool.name, arguments).await.unwrap().value;
        assert!(validator.is_valid(&status), "{status}");
        let attempts = status["attempts"].as_array();
        assert!(attempts.is_none_or(|attempts| attempts.len() == both.len()), "{status}");
    }
}

#[tokio::test]
async fn fifty_attempts_that_are_waited_for_stay_small() {
    let scratch = Scratch::new().await;
    let board = scratch.board().await;
    let starts = (1..50).map(|_| scratch.start(&board.task));
    futures_util::future::join_all(starts).await;
    let attempts = scratch.store.unsettled().await.unwrap();
    for attempt in &attempts {
        let outcome = Outcome {
            status: ProcessStatus::Failed,
            exit_code: Some(-100),
            exit_signal: None,
            failure_summary: Some("x".repeat(1000)),
            error_type: None,
            final_message: None,
            usage: None,
            quota: None,
            at: Timestamp::now(),
        };
        let change = Change::Settled(outcome, Box::default());
        let (id, process) = (attempt.attempt_id, attempt.process.process_id);
        scratch.store.advance(id, attempt.epoch, process, &change).await.unwrap();
    }
    let ids: Vec<_> = attempts.iter().map(|attempt| attempt.attempt_id).collect();
    let (caller, wait) = (caller(Role::Orchestrator, None), json!({"attempt_ids": ids}));
    let output = scratch.call(&caller, "wait_for_attempts", wait).await.unwrap().value;
    let waited = output["attempts"].as_array().unwrap();
    assert_eq!(waited.len(), 50);
    assert!(waited.iter().all(|attempt| attempt["failure_summary"].is_string()), "{output}");
    let size = output.to_string().len();
    assert!(size <= 19 * 1024, "{size} bytes");
}

#[test]
fn the_schema_of_entries_knows_every_field() {
    let tool = definition(tools::find("tail_attempt_logs").unwrap());
    let mut schema = tool["outputSchema"]["properties"]["entries"]["items"].clone();
    schema["additionalProperties"] = json!(false);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for entry in entries() {
        let json = serde_json::to_value(&entry).unwrap();
        assert!(validator.is_valid(&json), "{json}");
        assert_eq!(serde_json::from_value::<crate::api::logs::LogEntry>(json).unwrap(), entry);
    }
}

#[test]
fn definitions_are_as_they_were() {
    for tool in tools::all() {
        insta::assert_json_snapshot!(tool.name, definition(tool));
    }
}

/// Values that fit some field, or nearly.
fn values() -> Vec<Value> {
    let repo = |branch: Value| json!([{"repo_id": ID, "target_branch": branch}]);
    vec![
        json!(ID),
        json!(ID.to_uppercase()),
        json!("not-a-uuid"),
        json!(&ID[1..]),
        json!([ID]),
        json!([ID, ID.to_uppercase()]),
        json!(["x"]),
        json!([]),
        json!(vec![ID; 50]),
        json!(vec![ID; 51]),
        json!([{"path": "/r"}]),
        json!([{"path": "/r", "target_branch": "main"}]),
        json!([{"path": ""}]),
        json!([{"path": "/r", "branch": "main"}]),
        json!([{}]),
        repo(json!("main")),
        repo(json!("")),
        json!(0),
        json!(1),
        json!(-1),
        json!(-2),
        json!(7.0),
        json!(1.5),
        json!(1e30),
        json!(u64::MAX),
        json!(""),
        json!("5"),
        json!("text"),
        json!("x".repeat(128)),
        json!("x".repeat(129)),
        json!("ä".repeat(255)),
        json!("ä".repeat(256)),
        json!("x".repeat(513)),
        json!("todo"),
        json!("high"),
        json!("raw"),
        json!("any_change"),
        json!("2026-01-31T12:00:00Z"),
        json!("2026-01-31T12:00:00.123+02:00"),
        json!("2026-13-31T12:00:00Z"),
        json!("2026-01-31"),
        json!(true),
        json!(false),
        json!({}),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn the_schema_and_the_parser_agree(
        tool in 0..tools::all().len(),
        choices in proptest::collection::vec((0_u8..10, proptest::sample::select(values())), 9),
        unknown in proptest::option::weighted(0.05, proptest::sample::select(values())),
    ) {
        let tool = &tools::all()[tool];
        let definition = definition(tool);
        let sample = arguments(tool.name);
        let mut given = Map::new();
        let properties = definition["inputSchema"]["properties"].as_object().unwrap();
        for ((name, _), (choice, value)) in properties.iter().zip(choices) {
            // Mostly what fits, so that single faults are seen alone.
            match (choice, sample.get(name)) {
                (0..=5, Some(fitting)) => { given.insert(name.clone(), fitting.clone()); }
                (6..=8, _) => { given.insert(name.clone(), value); }
                _ => {}
            }
        }
        given.extend(unknown.map(|value| ("stranger".to_owned(), value)));
        let parses = tool.parses(&Value::Object(given.clone()))
            && tool.rules.iter().all(|rule| rule.check(tool.name, &given).is_none());
        prop_assert_eq!(tool.is_valid(&Value::Object(given.clone())), parses, "{:?}", given);
    }
}

/// Words that callers take for fields.
const UNKNOWN_FIELDS: &[&str] = &[
    "id",
    "task",
    "attempt",
    "task_id",
    "attempt_id",
    "session_id",
    "project_id",
    "repo_id",
    "name",
    "path",
    "file_path",
    "prompt",
    "message",
    "base_branch",
    "branch",
    "signal",
    "kill",
    "confirm",
    "timeout",
    "rule",
    "type",
    "limit",
    "max_lines",
    "lines",
    "verbose",
    "status",
    "action",
    "executor",
    "model",
    "agent",
    "reason",
    "acceptance_criteria",
    "ids",
    "tag",
    "approved",
];

#[test]
fn no_first_step_of_a_hint_does_harm() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let scratch = runtime.block_on(Scratch::new());
    let board = runtime.block_on(scratch.board());
    // A call that would sleep is refused instead.
    scratch.ending.cancel();
    let caller = caller(Role::All, Some(&board.attempt));
    let ids = [&board.project, &board.task, &board.attempt].map(|id| json!(id));
    let values = [values(), ids.to_vec()].concat();
    let some_value = || proptest::sample::select(values.clone());
    let cases = (
        0..tools::all().len(),
        proptest::collection::vec((proptest::sample::select(UNKNOWN_FIELDS), some_value()), 0..3),
        proptest::option::of((0..9_usize, some_value())),
        proptest::option::of(0..9_usize),
    );
    proptest!(ProptestConfig::with_cases(2000), |((tool, unknown, spoiled, lost) in cases)| {
        let tool = &tools::all()[tool];
        let mut given = arguments(tool.name).as_object().cloned().unwrap();
        let names: Vec<String> = given.keys().cloned().collect();
        if let Some(name) = lost.and_then(|at| names.get(at)) {
            given.shift_remove(name);
        }
        if let Some((name, value)) = spoiled.and_then(|(at, value)| Some((names.get(at)?, value))) {
            given.insert(name.clone(), value);
        }
        given.extend(unknown.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let given = Value::Object(given);
        let answer = runtime.block_on(scratch.call(&caller, tool.name, given.clone()));
        if let Err(refusal) = answer {
            does_no_harm(tool, &given, &refusal)?;
        }
    });
}

/// That whoever follows the first sentence of a hint takes nothing away that was not named.
fn does_no_harm(tool: &Tool, given: &Value, refusal: &Refusal) -> Result<(), TestCaseError> {
    let Refusal { code, message, hint, details } = refusal;
    let first = hint.split(". ").next().unwrap();
    prop_assert!(hint.ends_with('.'), "{given}: {hint}");
    // No guard is overridden but by who has named it.
    for guard in ["force = true", "ignore_dependencies = true"] {
        let is_meant = ["force", "kill", "signal", "ignore_dependencies"]
            .iter()
            .any(|word| given.get(word).is_some());
        prop_assert!(is_meant || !first.contains(guard), "{given}: {hint}");
    }
    // What is aimed at was named, or belongs to what was named. A call that takes something
    // away gets no other target, save the running attempt that is in its way.
    for word in first.split('"').filter(|word| word.len() == ID.len()) {
        let is_id = word.bytes().filter(|byte| *byte == b'-').count() == 4;
        let named = given.to_string().to_lowercase();
        let may_belong = !tool.is_destructive() || *code == Code::AttemptRunning;
        let has = |detail: &Value| match detail {
            Value::Array(all) => all.iter().any(|it| it == word),
            detail => detail == word,
        };
        let belongs = may_belong && details.values().any(has);
        let is_aimed = belongs || named.contains(&word.to_lowercase());
        prop_assert!(!is_id || is_aimed, "{} {given}: {hint}", tool.name);
    }
    prop_assert!(!first.starts_with("Call delete_task") || tool.name == "delete_task");
    if let Some(rest) = first.strip_prefix(&format!("Call {} again without ", tool.name))
        && *code == Code::UnknownField
    {
        for field in rest.trim_end_matches('.').split(" and ") {
            let quoted = format!("`{field}`");
            prop_assert!(message.contains(&quoted), "{given}: {message} {hint}");
        }
        prop_assert!(message.contains(": "), "it says what is left out: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn refusals_name_the_field_and_the_way_out() {
    let cases = [
        ("get_task", json!({"taskId": ID})),
        ("get_task", json!({})),
        ("get_task", json!({"task_id": "one"})),
        ("get_task", json!({"task_id": 5})),
        ("get_task", json!({"task_id": "-".repeat(36)})),
        ("list_projects", json!({"limit": "5"})),
        ("list_projects", json!({"limit": 0})),
        ("list_executors", json!({"wombat": 0})),
        ("list_tasks", json!({"wombat": 0})),
        ("list_tasks", json!({"project_id": ID, "updated_since": "yesterday"})),
        ("list_tasks", json!({"project_id": ID, "status": "x".repeat(99)})),
        ("create_task", json!({"project_id": ID, "title": ""})),
        ("create_task", json!({"project_id": ID, "title": "t", "depends_on": ID})),
        ("update_task", json!({"task_id": ID})),
        ("update_task", json!({"task_id": ID, "status": "todos"})),
        ("update_task", json!({"task_id": ID, "depends_on": [ID, "x"]})),
        ("create_project", json!({"name": "n", "repos": [{"path": "/", "targetBranch": "x"}]})),
        ("create_project", json!({"name": "n", "repos": [{}]})),
        ("get_attempt_status", json!({})),
        ("get_attempt_status", json!({"attempt_id": ID, "attempt_ids": [ID]})),
        ("get_attempt_status", json!({"attempt_ids": []})),
        ("tail_attempt_logs", json!({"attempt_id": ID, "cursor": 1, "after_entry_index": 1})),
        (
            "get_attempt_file",
            json!({"attempt_id": ID, "path": "r/f", "start_line": 1, "offset": 0}),
        ),
        ("get_attempt_patch", json!({"attempt_id": ID, "paths": "r/f"})),
        ("stop_attempt", json!({"attempt_id": ID, "force": "true"})),
        ("stop_attempt", json!({"attempt_id": ID, "force": 1})),
        ("stop_attempt", json!({"attempt_id": ID, "request_id": "x".repeat(129)})),
    ];
    let scratch = Scratch::new().await;
    let caller = caller(Role::Orchestrator, None);
    let mut lines = String::new();
    for (name, arguments) in cases {
        let refusal = scratch.call(&caller, name, arguments).await.unwrap_err();
        let Refusal { code, message, hint, details } = refusal;
        let path = &details["path"];
        writeln!(lines, "{} {path}\n  {message}\n  {hint}", code.as_str()).unwrap();
    }
    insta::assert_snapshot!(lines);
}
