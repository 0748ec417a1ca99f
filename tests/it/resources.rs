//! Attempts as resources, and the prompt, over the bridge.

use serde_json::{Value, json};

use crate::harness::Provost;

#[test]
fn attempts_are_listed_and_read_as_resources() {
    let provost = Provost::running();
    let board = provost.board();
    let attempts: Vec<_> = (0..3).map(|n| board.start("fake", &format!("say {n}"))).collect();
    for attempt in &attempts {
        attempt.settled();
    }
    let mut client = provost.bridge();
    client.initialize();
    let listed = client.ask("resources/list", &json!({}))["result"]["resources"].clone();
    let listed = listed.as_array().unwrap();
    let newest = &attempts[2].id;
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[0]["uri"], format!("provost://attempts/{newest}"));
    assert_eq!(listed[0]["name"], format!("do something ({})", &newest[28..]));

    let mut read = |uri: &str| -> Value {
        let answer = client.ask("resources/read", &json!({"uri": uri}));
        let text = answer["result"]["contents"][0]["text"].as_str();
        text.map_or(answer["error"].clone(), |text| serde_json::from_str(text).unwrap())
    };
    let status = read(&format!("provost://attempts/{newest}"));
    assert_eq!(status, attempts[2].status());
    let log = read(&format!("provost://attempts/{newest}/log"));
    assert_eq!(log, attempts[2].page("normalized", &json!({})));
    let changes = read(&format!("provost://attempts/{newest}/changes"));
    assert_eq!(changes["summary"]["file_count"], 0);
    let unknown = read("provost://attempts/01900000-0000-7000-8000-000000000000");
    assert_eq!(unknown["code"], -32002, "{unknown}");
    assert!(unknown["data"]["hint"].as_str().unwrap().contains("list_task_attempts"));
}

#[test]
fn the_prompt_is_offered_and_given() {
    let provost = Provost::running();
    let mut client = provost.bridge();
    let initialized = client.initialize();
    let capabilities = &initialized["capabilities"];
    assert!(capabilities["prompts"].is_object() && capabilities["resources"].is_object());
    let listed = client.ask("prompts/list", &json!({}));
    assert_eq!(listed["result"]["prompts"][0]["name"], "orchestrate");
    let asked = json!({"name": "orchestrate", "arguments": {"goal": "Fly."}});
    let given = client.ask("prompts/get", &asked);
    let text = given["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("wait_for_attempts") && text.ends_with("goal: Fly."), "{text}");
}
