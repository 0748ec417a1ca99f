//! Whole sessions over a byte stream: what goes in, line by line, and what
//! comes out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::samples::ID;
use super::scratch::{Scratch, caller};
use crate::api::{Caller, CallerLocation, Role};
use crate::mcp::limits::Limits;
use crate::mcp::server::serve;
use crate::tools::{CallLimits, Rate, Rates};

/// Far beyond what anything here takes; only a hanging test gets here.
const TIMEOUT: Duration = Duration::from_mins(1);

struct Peer {
    write: WriteHalf<DuplexStream>,
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    scratch: Scratch,
    served: JoinHandle<()>,
}

impl Peer {
    async fn new(caller: Caller, limits: Limits) -> Self {
        let (ours, theirs) = tokio::io::duplex(4096);
        let scratch = Scratch::new().await;
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(theirs, caller, scratch.domain.clone(), limits, stop));
        let (read, write) = tokio::io::split(ours);
        Self { write, read: BufReader::new(read).lines(), scratch, served }
    }

    async fn orchestrator(limits: Limits) -> Self {
        Self::new(caller(Role::Orchestrator, None), limits).await
    }

    async fn send(&mut self, line: impl AsRef<[u8]>) {
        self.write.write_all(line.as_ref()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(line.to_string()).await;
    }

    async fn request_call(&mut self, id: u32, tool: &str, arguments: Value) {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments})).await;
    }

    /// The next line from the server.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.read.next_line()).await;
        let line = line.expect("an answer in time").unwrap().expect("a line before the end");
        serde_json::from_str(&line).unwrap()
    }

    /// The result of a tool call, checked for the same JSON in text and structure.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request_call(1, tool, arguments).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], 1, "{answer}");
        let result = &answer["result"];
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.len(), 1);
        assert_eq!(content[0]["text"], result["structuredContent"].to_string());
        result.clone()
    }

    /// The result of a call that is made until there is room for it.
    async fn call_with_room(&mut self, tool: &str, arguments: Value) -> Value {
        let calls = async {
            loop {
                let result = self.call(tool, arguments.clone()).await;
                if result["structuredContent"]["code"] != "rate_limited" {
                    return result;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, calls).await.expect("room in time")
    }

    async fn cancel(&mut self, id: u32) {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}});
        self.send(cancel.to_string()).await;
    }
}

/// Waits until a connection has ended, and every call of it.
async fn ended(served: JoinHandle<()>, scratch: &Scratch) {
    let ended = async {
        served.await.unwrap();
        while Arc::strong_count(&scratch.domain) > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, ended).await.expect("an end in time");
}

fn modern() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn tools_are_listed_and_called_before_any_handshake() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    peer.request(1, "tools/list", json!({})).await;
    let list = peer.next().await;
    assert_eq!(list["result"]["tools"][0]["name"], "list_projects");
    let result = peer.call("list_projects", json!({})).await;
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"]["projects"], json!([]));
}

#[tokio::test]
async fn a_legacy_client_keeps_the_version_it_was_given() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    for (asked, given) in [("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25")] {
        let client = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": client});
        peer.request(0, "initialize", params).await;
        let result = peer.next().await["result"].clone();
        assert_eq!(result["protocolVersion"], given);
        assert!(result["instructions"].as_str().unwrap().contains("start_task_attempt"));
        peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert!(peer.call("list_executors", json!({})).await.get("resultType").is_none());
    }
}

#[tokio::test]
async fn a_modern_client_discovers_and_calls() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    peer.request("d", "server/discover", json!({"_meta": modern()})).await;
    let result = peer.next().await["result"].clone();
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    let params = json!({"name": "list_executors", "arguments": {}, "_meta": modern()});
    peer.request("c", "tools/call", params).await;
    let answer = peer.next().await;
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!("c"), &json!("complete")));
    peer.request("l", "tools/list", json!({"_meta": modern()})).await;
    let list = peer.next().await["result"].clone();
    assert_eq!((&list["cacheScope"], &list["ttlMs"]), (&json!("private"), &json!(3_600_000)));
}

#[tokio::test]
async fn every_bad_line_is_answered_and_the_session_goes_on() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let cases: [(&[u8], Value, i32); 14] = [
        (b"{", json!(null), -32700),
        (b"\xff\xfe", json!(null), -32700),
        (b"{} {}", json!(null), -32700),
        (&[b'['; 300], json!(null), -32700),
        (b"[]", json!(null), -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, json!(null), -32600),
        (br#"{"hello":"world"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, json!(null), -32600),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, json!(1), -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, json!(1), -32602),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_task","arguments":[]}}"#,
            json!(1),
            -32602,
        ),
        (br#"{"jsonrpc":"2.0","id":"a","method":"no/such"}"#, json!("a"), -32601),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_taks"}}"#,
            json!(1),
            -32602,
        ),
    ];
    for (line, id, code) in cases {
        peer.send(line).await;
        let answer = peer.next().await;
        let line = String::from_utf8_lossy(line);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line}");
        assert!(answer.as_object().unwrap().contains_key("id"), "{line}");
    }
    for blank in ["", "\r", "  ", r#"{"jsonrpc":"2.0","method":"notifications/nothing"}"#] {
        peer.send(blank).await;
    }
    peer.send("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"ping\"}\r").await;
    assert_eq!(peer.next().await, json!({"jsonrpc": "2.0", "id": "b", "result": {}}));
}

#[tokio::test]
async fn an_oversized_line_is_refused_with_its_id() {
    let limits = Limits { line: 5000, ..Limits::default() };
    let mut peer = Peer::orchestrator(limits).await;
    let long = "x".repeat(50_000);
    peer.request_call(7, "get_task", json!({"task_id": long})).await;
    let answer = peer.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)));
    assert_eq!(peer.call("list_executors", json!({})).await["isError"], false);
}

#[tokio::test]
async fn a_taken_id_is_refused_and_free_again_after_a_cancel() {
    let mut peer = Peer::orchestrator(Limits {
        room: CallLimits { calls: 1, ..CallLimits::default() },
        ..Limits::default()
    })
    .await;
    let _no_call_can_read = peer.scratch.store.hold_reads().await;
    peer.request_call(5, "get_attempt_status", json!({"attempt_id": ID})).await;
    peer.request_call(5, "list_executors", json!({})).await;
    let answer = peer.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32600)));

    peer.cancel(5).await;
    // A cancelled call has no answer, and its room is free.
    assert_eq!(peer.call_with_room("list_executors", json!({})).await["isError"], false);
    peer.request_call(5, "list_executors", json!({})).await;
    let answer = peer.next().await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(5), &json!(false)));
}

#[tokio::test]
async fn what_takes_too_long_is_answered_as_internal() {
    let limits = Limits {
        room: CallLimits { calls: 1, time: Duration::from_millis(20), ..CallLimits::default() },
        ..Limits::default()
    };
    let person = Caller { is_person: true, ..caller(Role::Orchestrator, None) };
    let mut peer = Peer::new(person, limits).await;
    let _no_call_can_read = peer.scratch.store.hold_reads().await;
    // The room of each is free again for the next.
    for _ in 0..2 {
        let result = peer.call("get_attempt_status", json!({"attempt_id": ID})).await;
        assert_eq!(result["structuredContent"]["code"], "internal");
    }
    let uri = format!("provost://attempts/{ID}");
    for (method, params) in
        [("resources/read", json!({"uri": uri})), ("provost/attempts", json!({}))]
    {
        peer.request(1, method, params).await;
        let error = peer.next().await["error"].clone();
        assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32603), &json!("internal")));
    }
}

#[tokio::test]
async fn calls_over_the_cap_are_rate_limited() {
    let mut peer = Peer::orchestrator(Limits {
        room: CallLimits { calls: 1, ..CallLimits::default() },
        ..Limits::default()
    })
    .await;
    let no_call_can_read = peer.scratch.store.hold_reads().await;
    peer.request_call(9, "get_attempt_status", json!({"attempt_id": ID})).await;
    let result = peer.call("list_executors", json!({})).await;
    assert_eq!(result["structuredContent"]["code"], "rate_limited");
    assert_eq!(result["structuredContent"]["retryable"], true);
    drop(no_call_can_read);
    let answer = peer.next().await;
    assert_eq!(answer["id"], 9);
    assert_eq!(answer["result"]["structuredContent"]["code"], "attempt_not_found");
}

#[tokio::test]
async fn a_refusal_is_an_envelope() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let result = peer.call("get_task", json!({"taskId": ID})).await;
    assert_eq!(result["isError"], true);
    let envelope = &result["structuredContent"];
    assert_eq!(envelope["code"], "unknown_field");
    assert_eq!(envelope["error"], envelope["message"]);
    assert_eq!(envelope["details"], json!({"path": "taskId", "nearest": "task_id"}));
    let keys: Vec<_> = envelope.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["error", "code", "message", "retryable", "hint", "details"]);
}

#[tokio::test]
async fn nulls_and_what_clients_add_by_themselves_are_ignored() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let project = peer.scratch.board().await.project;
    let arguments = json!({
        "project_id": project, "status": null, "cursor": null, "limit": 100_000,
        "wait_for_previous": true,
    });
    let result = peer.call("list_tasks", arguments).await;
    assert_eq!(result["structuredContent"]["tasks"].as_array().unwrap().len(), 1);
    let result = peer.call("list_tasks", json!({"project_id": null})).await;
    assert_eq!(result["structuredContent"]["code"], "missing_required");
    peer.request(3, "tools/call", json!({"name": "list_projects", "arguments": null})).await;
    assert_eq!(peer.next().await["result"]["isError"], false);
    peer.request(4, "tools/call", json!({"name": "list_projects"})).await;
    assert_eq!(peer.next().await["result"]["isError"], false);
}

#[tokio::test]
async fn each_role_sees_and_calls_its_own_tools() {
    for (role, inside, board, context) in [
        (Role::Orchestrator, false, true, false),
        (Role::Orchestrator, true, true, true),
        (Role::Worker, false, false, false),
        (Role::Worker, true, false, true),
        (Role::All, false, true, false),
        (Role::All, true, true, true),
    ] {
        let session = caller(role, inside.then_some(ID));
        let mut peer = Peer::new(session, Limits::default()).await;
        peer.request(1, "tools/list", json!({})).await;
        let list = peer.next().await["result"]["tools"].to_string();
        for (tool, sees) in [("list_projects", board), ("get_context", context)] {
            assert_eq!(list.contains(&format!("\"name\":\"{tool}\"")), sees, "{role} {tool}");
            let result = peer.call(tool, json!({})).await;
            let code = &result["structuredContent"]["code"];
            assert_eq!(code == "not_permitted", !sees, "{role} {tool}");
        }
    }
}

#[tokio::test]
async fn every_method_of_the_command_line_is_refused_inside_an_attempt() {
    let inside = Caller { place: CallerLocation::Inside(None), ..caller(Role::Worker, None) };
    let mut peer = Peer::new(inside, Limits::default()).await;
    for method in ["provost/info", "provost/attempts"] {
        peer.request(1, method, json!({})).await;
        let error = peer.next().await["error"].clone();
        assert_eq!(error["data"]["code"], "not_permitted", "{method}: {error}");
    }
}

#[tokio::test]
async fn calls_that_the_role_may_not_make_count_against_the_rate() {
    let rate = Rate { agent_per_minute: 1, all_per_minute: 0, burst_per_second: 0 };
    let limits = Limits { rates: Arc::new(Rates::new(rate)), ..Limits::default() };
    let mut peer = Peer::new(caller(Role::Worker, None), limits).await;
    for code in ["not_permitted", "rate_limited", "rate_limited"] {
        let result = peer.call("delete_task", json!({"task_id": ID})).await;
        assert_eq!(result["structuredContent"]["code"], code);
    }
    assert_eq!(peer.scratch.audit_log().lines().count(), 2, "one call's begin and end");
}

#[tokio::test]
async fn the_bridges_call_id_stands_in_for_a_request_id() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let project = peer.scratch.board().await.project;
    let task = |title: &str| json!({"project_id": project, "title": title});
    let mut named = task("t");
    named["request_id"] = json!("c-1");
    let (no, yes) = ((json!(null), json!(null)), (json!(true), json!(null)));
    let conflict = (json!(null), json!("idempotency_conflict"));
    // Without an id no call is a repetition, and neither kind of id is taken for the other.
    for (arguments, call_id, expected) in [
        (task("t"), None, &no),
        (task("t"), None, &no),
        (task("t"), Some("c-1"), &no),
        (task("t"), Some("c-1"), &yes),
        (task("u"), Some("c-1"), &conflict),
        (named.clone(), None, &no),
        (named, Some("c-2"), &yes),
    ] {
        let meta = json!({"provost/call_id": call_id});
        let params = json!({"name": "create_task", "arguments": arguments, "_meta": meta});
        peer.request(1, "tools/call", params).await;
        let result = &peer.next().await["result"];
        let code = result["structuredContent"]["code"].clone();
        let outcome = (result["_meta"]["provost/deduplicated"].clone(), code);
        assert_eq!(outcome, *expected, "{call_id:?} {result}");
    }
}

#[tokio::test]
async fn methods_outside_mcp_reach_the_domain_with_their_own_errors() {
    let person = Caller { is_person: true, ..caller(Role::Orchestrator, None) };
    let mut peer = Peer::new(person, Limits::default()).await;
    let task = peer.scratch.board().await.task;
    let piece = json!({"id": &task[..13], "kinds": ["task"]});
    peer.request(1, "provost/resolve", piece).await;
    assert_eq!(peer.next().await["result"]["matches"][0]["id"], task);
    peer.send(r#"{"jsonrpc":"2.0","id":2,"method":"provost/attempts"}"#).await;
    assert_eq!(peer.next().await["result"]["total"], 1);
    peer.request(3, "provost/check_executor", json!({"executor": "nobody"})).await;
    let error = peer.next().await["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["code"]),
        (&json!(-32000), &json!("executor_not_found"))
    );
}

#[tokio::test]
async fn the_end_of_the_stream_ends_what_still_runs() {
    let limits = Limits { grace: Duration::from_millis(10), ..Limits::default() };
    let mut peer = Peer::orchestrator(limits).await;
    let _no_call_can_read = peer.scratch.store.hold_reads().await;
    peer.request_call(1, "get_attempt_status", json!({"attempt_id": ID})).await;
    let Peer { write, read, scratch, served } = peer;
    drop((write, read));
    ended(served, &scratch).await;
}

#[tokio::test]
async fn a_pipe_that_closes_after_its_last_request_is_still_answered() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    // Without a newline, as `printf` leaves it.
    peer.write.write_all(line.as_bytes()).await.unwrap();
    peer.write.shutdown().await.unwrap();
    assert!(peer.next().await["result"]["tools"].is_array());
    ended(peer.served, &peer.scratch).await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_held_back_and_loses_nothing() {
    const LINES: usize = 20_000;
    let Peer { mut write, mut read, served, scratch } = Peer::orchestrator(Limits::default()).await;
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let writer = tokio::spawn(async move {
        for line in 0..LINES {
            let text = match line % 2 {
                0 => "nonsense\n".to_owned(),
                _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{line},\"method\":\"ping\"}}\n"),
            };
            write.write_all(text.as_bytes()).await.unwrap();
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        write
    });
    // One thread and no clock: once nothing moves over many turns, nothing will.
    let mut before = usize::MAX;
    let progress = || sent.load(std::sync::atomic::Ordering::Relaxed);
    while before != progress() {
        before = progress();
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    }
    assert!(before < LINES / 2, "{before} lines were taken from a peer that reads nothing");
    for _ in 0..LINES {
        let line = tokio::time::timeout(TIMEOUT, read.next_line()).await.unwrap();
        assert!(line.unwrap().is_some());
    }
    drop((writer.await.unwrap(), read));
    ended(served, &scratch).await;
}

#[tokio::test]
async fn calls_that_sleep_take_no_room_from_those_that_work() {
    let limits = Limits {
        room: CallLimits { calls: 1, sleepers: 2, ..CallLimits::default() },
        ..Limits::default()
    };
    let mut peer = Peer::orchestrator(limits).await;
    let queued = peer.scratch.board().await.attempt;
    let wait = json!({"attempt_ids": [queued]});
    for id in 10..12 {
        peer.request_call(id, "wait_for_attempts", wait.clone()).await;
    }
    assert_eq!(peer.call("list_executors", json!({})).await["isError"], false);
    let result = peer.call("wait_for_attempts", wait).await;
    assert_eq!(result["structuredContent"]["code"], "rate_limited");
    peer.cancel(10).await;
    let result = peer.call_with_room("wait_for_attempts", json!({"attempt_ids": [ID]})).await;
    assert_eq!(result["structuredContent"]["code"], "attempt_not_found");
}

#[tokio::test]
async fn resources_say_what_the_tools_say() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    peer.request(1, "resources/templates/list", json!({})).await;
    let templates = peer.next().await["result"]["resourceTemplates"].clone();
    assert_eq!(templates[0]["uriTemplate"], "provost://attempts/{attempt_id}");
    assert_eq!(templates[1]["uriTemplate"], "provost://attempts/{attempt_id}/log");
    let attempt = peer.scratch.board().await.attempt;
    peer.request(2, "resources/list", json!({})).await;
    let listed = peer.next().await["result"]["resources"][0].clone();
    assert_eq!(
        (&listed["name"], &listed["mimeType"]),
        (&json!(format!("t ({})", &attempt[28..])), &json!("application/json"))
    );
    let uri = listed["uri"].as_str().unwrap().to_owned();
    for (path, tool) in [("", "get_attempt_status"), ("/log", "tail_attempt_logs")] {
        let uri = format!("{uri}{path}");
        peer.request(3, "resources/read", json!({"uri": uri})).await;
        let contents = peer.next().await["result"]["contents"][0].clone();
        assert_eq!(
            (&contents["uri"], &contents["mimeType"]),
            (&json!(uri), &json!("application/json"))
        );
        let called = peer.call(tool, json!({"attempt_id": attempt})).await;
        assert_eq!(contents["text"], called["structuredContent"].to_string());
    }
}

#[tokio::test]
async fn what_is_no_resource_is_not_found_in_both_eras() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    for uri in [
        "",
        "file:///etc/passwd",
        "provost://attempts/",
        "provost://attempts/one",
        &format!("provost://attempts/{ID}/"),
        &format!("provost://attempts/{ID}/log/1"),
        &format!("provost://tasks/{ID}"),
    ] {
        peer.request(1, "resources/read", json!({"uri": uri})).await;
        let error = peer.next().await["error"].clone();
        assert_eq!(error["code"], -32002, "{uri}: {error}");
        assert!(error["data"]["hint"].is_string(), "{uri}: {error}");
        peer.request(2, "resources/read", json!({"uri": uri, "_meta": modern()})).await;
        assert_eq!(peer.next().await["error"]["code"], -32602, "{uri}");
    }
}

#[tokio::test]
async fn the_prompt_takes_a_project_and_a_goal() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    peer.request(1, "prompts/list", json!({})).await;
    let prompt = peer.next().await["result"]["prompts"][0].clone();
    assert_eq!(
        (&prompt["name"], &prompt["arguments"][1]["name"]),
        (&json!("orchestrate"), &json!("goal"))
    );
    let text = |answer: &Value| answer["result"]["messages"][0]["content"]["text"].clone();
    peer.request(2, "prompts/get", json!({"name": "orchestrate"})).await;
    assert_eq!(text(&peer.next().await), crate::mcp::prompts::ORCHESTRATE);
    let arguments = json!({"project_id": ID, "goal": "Fly."});
    peer.request(3, "prompts/get", json!({"name": "orchestrate", "arguments": arguments})).await;
    let filled = text(&peer.next().await);
    assert!(filled.as_str().unwrap().ends_with(&format!("project_id: {ID}\n\ngoal: Fly.")));
    for params in [
        json!({"name": "fly"}),
        json!({"name": "orchestrate", "arguments": {"aim": "Fly."}}),
        json!({"name": "orchestrate", "arguments": {"goal": 1}}),
    ] {
        peer.request(4, "prompts/get", params.clone()).await;
        let error = peer.next().await["error"].clone();
        assert_eq!(error["code"], -32602, "{params}");
        assert!(error["data"]["hint"].is_string(), "{params}");
    }
}

#[tokio::test]
async fn a_worker_sees_no_resource_and_no_prompt() {
    let mut peer = Peer::new(caller(Role::Worker, Some(ID)), Limits::default()).await;
    for (method, items) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        peer.request(1, method, json!({})).await;
        assert_eq!(peer.next().await["result"][items], json!([]), "{method}");
    }
    peer.request(2, "resources/read", json!({"uri": format!("provost://attempts/{ID}")})).await;
    assert_eq!(peer.next().await["error"]["code"], -32002);
    peer.request(3, "prompts/get", json!({"name": "orchestrate"})).await;
    assert_eq!(peer.next().await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_call_that_sleeps_shows_that_it_goes_on_to_whoever_asks() {
    let limits = Limits { beat: Duration::from_millis(5), ..Limits::default() };
    let mut peer = Peer::orchestrator(limits).await;
    let queued = peer.scratch.board().await.attempt;
    let params = json!({
        "name": "wait_for_attempts", "arguments": {"attempt_ids": [queued]},
        "_meta": {"progressToken": "p"},
    });
    peer.request(1, "tools/call", params).await;
    let mut before = 0.0;
    for _ in 0..3 {
        let notification = peer.next().await;
        assert_eq!(notification["method"], "notifications/progress");
        assert_eq!(notification["params"]["progressToken"], "p");
        let now = notification["params"]["progress"].as_f64().unwrap();
        assert!(now > before);
        before = now;
    }
}

#[tokio::test]
async fn what_is_not_served_is_not_found_whatever_its_parameters_are() {
    let mut peer = Peer::orchestrator(Limits::default()).await;
    let argument = json!({"name": "x", "value": ""});
    let whole = json!({"ref": {"type": "ref/prompt", "name": "orchestrate"}, "argument": argument});
    for (method, params) in [
        ("completion/complete", whole),
        ("completion/complete", json!({})),
        ("logging/setLevel", json!({})),
        ("resources/subscribe", json!({})),
        ("tasks/get", json!({})),
        ("tasks/list", json!({})),
    ] {
        peer.request(1, method, params).await;
        assert_eq!(peer.next().await["error"]["code"], -32601, "{method}");
    }
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        peer.request(1, method, json!({"cursor": "garbled"})).await;
        assert_eq!(peer.next().await["error"]["code"], -32602, "{method}");
    }
}

/// rmcp itself cancels what runs when it does not wait for answers any more.
#[tokio::test]
async fn the_end_of_the_stream_ends_a_call_when_its_grace_is_over() {
    let limits = Limits { grace: Duration::from_millis(1), ..Limits::default() };
    let mut peer = Peer::orchestrator(limits).await;
    let queued = peer.scratch.board().await.attempt;
    peer.request_call(1, "wait_for_attempts", json!({"attempt_ids": [queued]})).await;
    peer.write.shutdown().await.unwrap();
    let answer = peer.next().await;
    assert_eq!(answer["result"]["structuredContent"]["code"], "daemon_restarting");
    ended(peer.served, &peer.scratch).await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_loses_its_connection() {
    let limits = Limits { stalled: Duration::from_millis(20), ..Limits::default() };
    let mut peer = Peer::orchestrator(limits).await;
    // Its answer is larger than the stream's buffer.
    peer.request(1, "tools/list", json!({})).await;
    ended(peer.served, &peer.scratch).await;
}
