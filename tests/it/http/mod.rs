//! The HTTP face from outside: who gets in, the tools, MCP, events, and what attackers try.

mod attacks;
mod guard;
mod pages;

use serde_json::{Value, json};

use crate::harness::{PLAIN, Provost, Web, eventually};

#[test]
fn a_tool_is_the_same_call_by_http_as_by_mcp() {
    let provost = Provost::running();
    let board = provost.board();
    let web = Web::of(&provost);
    let task = json!({"project_id": board.project_id, "title": "by http"});
    let headers = [
        ("authorization", web.bearer()),
        ("content-type", "application/json".to_owned()),
        ("idempotency-key", "one".to_owned()),
    ];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let create = || web.send("POST /api/v1/create_task", &headers, &task.to_string());
    let (made, again) = (create(), create());
    assert_eq!((made.status, made.header("idempotency-replayed")), (200, None), "{made:?}");
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{again:?}");
    assert_eq!(made.json(), again.json());
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "one call, one task");
    assert_eq!(listed, web.call("list_tasks", &json!({"project_id": board.project_id})).json());

    let refused = web.call("get_task", &json!({"task_id": "nothing"}));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.json()["hint"].as_str().is_some_and(|hint| !hint.is_empty()));
    let absent = web.call("get_task", &json!({"task_id": board.project_id}));
    assert_eq!((absent.status, &absent.json()["code"]), (404, &json!("task_not_found")));
    assert_eq!(web.call("no_such_tool", &json!({})).status, 404);
    let document = web.get("/api/v1/openapi.json").json();
    assert!(document["paths"]["/api/v1/create_task"]["post"].is_object());
}

#[test]
fn clients_of_both_generations_speak_mcp_over_http() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    let bearer = web.bearer();
    let post = |version: &str, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", version),
            ("mcp-method", method),
        ];
        let page = web.send("POST /mcp", &headers, &body.to_string());
        assert_eq!(page.status, 200, "{page:?}");
        page.json()["result"].clone()
    };
    let client = json!({"name": "test", "version": "1"});
    let old = "2025-06-18";
    let hello = json!({"protocolVersion": old, "capabilities": {}, "clientInfo": client});
    assert_eq!(post(old, "initialize", hello)["protocolVersion"], old);
    let tools = post(old, "tools/list", json!({}));
    assert!(tools["tools"].as_array().unwrap().len() > 20, "{tools}");
    let new = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": new,
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = post(new, "server/discover", json!({"_meta": meta}));
    assert!(found.to_string().contains(new), "{found}");
    let listed = post(new, "tools/list", json!({"_meta": meta}));
    assert_eq!(listed["tools"], tools["tools"]);
}

#[test]
fn events_lose_nothing_over_a_restart_of_the_daemon() {
    let provost = Provost::new().executor("sh", PLAIN, "exec sh -c \"$(cat)\"").started();
    let board = provost.board();
    let web = Web::of(&provost);
    let mut events = web.events(None);
    let begin = events.begin();
    let attempt = board.start("sh", "true");
    attempt.settled();
    let is_it = |data: &Value| data["topic"] == "attempt" && data["id"] == attempt.id.as_str();
    let (seen, _) = events.until(is_it).unwrap();
    assert!(seen > begin);
    provost.kill();
    assert_eq!(events.until(|_| false), None, "the stream ends with the daemon");
    provost.start();
    let task = board.task("made after the restart");
    let mut events = Web::of(&provost).events(Some(seen));
    let (next, _) = events.until(|data| data["id"] == task.as_str()).unwrap();
    assert!(next > seen);
    // One that lost everything gets the last change of each object.
    let mut all = Web::of(&provost).events(Some(0));
    let mut found = 0;
    all.until(|data| {
        found += u32::from(is_it(data) || data["id"] == task.as_str());
        found == 2
    });
    assert_eq!(found, 2);
}

#[test]
fn each_change_leaves_a_line_of_who_did_what_from_where() {
    let provost = Provost::running();
    let board = provost.board();
    let web = Web::of(&provost);
    let ana = provost.verb(["user", "add", "ana", "--json"]).json()["token"].clone();
    let ana = Web { token: ana.as_str().unwrap().to_owned(), address: web.address.clone() };
    let made = ana.call("create_task", &json!({"project_id": board.project_id, "title": "t"}));
    assert_eq!(made.status, 200, "{made:?}");
    ana.call("delete_task", &json!({"task_id": made.json()["task_id"]}));
    let changes = provost.verb(["audit", "--all", "--json"]).json();
    let line = |what: &str, who: &str| {
        let mut changes = changes["changes"].as_array().unwrap().iter();
        let found = changes.find(|it| it["what"] == what && it["who"] == who);
        found.unwrap_or_else(|| panic!("no {what} of {who}: {changes:?}")).clone()
    };
    let made = line("create_task", "ana");
    assert_eq!(
        (&made["outcome"], &made["of"]["project_id"]),
        (&json!("done"), &json!(board.project_id))
    );
    assert!(made["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{made}");
    assert_eq!(line("delete_task", "ana")["outcome"], "not_permitted");
    assert!(line("provost/give_token", "owner")["from"].as_str().unwrap().contains("process"));
}

#[test]
fn the_port_stays_and_a_face_that_may_not_listen_says_why() {
    let provost = Provost::running();
    let first = Web::of(&provost);
    provost.kill();
    provost.start();
    let second = eventually("the face is back", || {
        let web = Web::of(&provost);
        (web.get("/api/v1/openapi.json").status == 200).then_some(web)
    });
    assert_eq!((first.address, first.token), (second.address, second.token));

    let open = Provost::new().config("[http]\nlisten = '0.0.0.0:0'").started();
    let refused = open.verb(["open", "--print"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("http.tls_certificate"), "{refused:?}");
    let off = Provost::new().config("[http]\nlisten = 'off'").started();
    assert!(off.verb(["open", "--print"]).stderr.contains("off"));
    assert!(!off.home().join("run/http.sock").exists());
}
