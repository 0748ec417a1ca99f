//! The client against real sockets and real children.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tokio::net::UnixListener;

use super::*;
use crate::home::Home;
use crate::role::Role;

const LONG: Duration = Duration::from_mins(1);

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path()).unwrap();
    (dir, home)
}

fn hello() -> Hello {
    Hello::of_process(Peer::Cli, Some(Role::All))
}

/// A program for the starter, as a shell script.
fn script(home: &Home, body: &str) -> PathBuf {
    let path = home.data_dir.join("program");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// Accepts one connection, answers its hello and then each line by `answer`.
async fn serve(listener: UnixListener, answer: impl Fn(Value) -> Vec<Value>) {
    let (stream, _) = listener.accept().await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    let _: Hello = serde_json::from_str(&first).unwrap();
    let welcome = serde_json::to_string(&Welcome::of_process()).unwrap();
    writer.write_all(format!("{welcome}\n").as_bytes()).await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        for message in answer(serde_json::from_str(&line).unwrap()) {
            writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
    }
}

async fn client(answer: impl Fn(Value) -> Vec<Value> + Send + 'static) -> Connection {
    let (_dir, home) = home();
    let listener = UnixListener::bind(&home.socket).unwrap();
    tokio::spawn(serve(listener, answer));
    Connection::open(&home.socket, &hello()).await.unwrap()
}

#[tokio::test]
async fn a_tool_gives_its_structured_result_among_other_messages() {
    let mut client = client(|request| {
        assert_eq!(request["params"]["name"], "list_projects");
        vec![
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}),
            json!({"jsonrpc": "2.0", "id": 999, "result": {}}),
            json!({"jsonrpc": "2.0", "id": request["id"],
                "result": {"content": [], "structuredContent": {"projects": []}}}),
        ]
    })
    .await;
    assert_eq!(client.tool("list_projects", json!({})).await.unwrap(), json!({"projects": []}));
}

#[tokio::test]
async fn a_refusal_keeps_its_envelope_and_a_protocol_error_its_data() {
    let envelope = json!({"error": "no", "code": "attempt_not_found", "message": "no",
        "retryable": false, "hint": "look"});
    let refusal = envelope.clone();
    let mut client = client(move |request| match request["method"].as_str() {
        Some("tools/call") => vec![json!({"jsonrpc": "2.0", "id": request["id"],
            "result": {"isError": true, "structuredContent": refusal}})],
        _ => vec![json!({"jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32601, "message": "unknown method", "data": {"x": 1}}})],
    })
    .await;
    let Err(ClientError::Refused(refused)) = client.tool("x", json!({})).await else { panic!() };
    assert_eq!(refused.code, Some(Code::AttemptNotFound));
    assert_eq!(refused.json, envelope);
    let failed = client.method("y", json!({})).await;
    let Err(ClientError::Rpc { code, data, .. }) = failed else { panic!() };
    assert_eq!((code, data), (-32601, Some(json!({"x": 1}))));
}

#[tokio::test]
async fn a_socket_without_a_listener_is_unreachable() {
    let (_dir, home) = home();
    drop(UnixListener::bind(&home.socket).unwrap());
    let opened = Connection::open(&home.socket, &hello()).await;
    assert!(matches!(opened, Err(ClientError::Unreachable(_))));
}

#[tokio::test]
async fn a_daemon_is_started_and_waited_for_without_an_attempts_variables() {
    let (_dir, home) = home();
    let program = script(
        &home,
        "cd \"$PROVOST_HOME\" && env > env.new && mv env.new env
         while [ -d \"$PROVOST_HOME\" ] && ! [ -S run/daemon.sock ]; do :; done",
    );
    let started = home.data_dir.join("env");
    let starter = Starter::with(home.clone(), program, true, LONG);
    let listening = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let listener = UnixListener::bind(&home.socket).unwrap();
        tokio::spawn(serve(listener, |_| vec![]));
    };
    let hello = hello();
    let (opened, ()) = tokio::join!(connect_or_start(&starter, &hello), listening);
    assert_eq!(opened.unwrap().welcome, Welcome::of_process());
    let environment = fs::read_to_string(started).unwrap();
    assert!(!environment.contains("PROVOST_ATTEMPT_ID"));
}

#[tokio::test]
async fn a_daemon_that_fails_is_quoted() {
    let (_dir, home) = home();
    fs::write(&home.log_file, "older words\n").unwrap();
    let program = script(&home, "echo 'config.toml:1: unknown key' >&2; exit 2");
    let starter = Starter::with(home, program, true, LONG);
    let Err(error) = connect_or_start(&starter, &hello()).await else { panic!() };
    let error = error.to_string();
    assert!(error.contains("exit status: 2"), "{error}");
    assert!(error.ends_with(":\nconfig.toml:1: unknown key"), "{error}");
}

#[tokio::test]
async fn a_daemon_that_finds_the_lock_held_leaves_us_to_the_other_one() {
    let (_dir, home) = home();
    let program = script(&home, "touch \"$PROVOST_HOME/lost\"; exit 3");
    let lost = home.data_dir.join("lost");
    let starter = Starter::with(home.clone(), program, true, LONG);
    let other = async {
        while !lost.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let listener = UnixListener::bind(&home.socket).unwrap();
        tokio::spawn(serve(listener, |_| vec![]));
    };
    let hello = hello();
    let (opened, ()) = tokio::join!(connect_or_start(&starter, &hello), other);
    assert!(opened.is_ok());
}

#[tokio::test]
async fn inside_an_attempt_no_daemon_is_started() {
    let (_dir, home) = home();
    let program = script(&home, "touch \"$PROVOST_HOME/started\"");
    let started = home.data_dir.join("started");
    let starter = Starter::with(home, program, false, Duration::from_millis(50));
    let opened = connect_or_start(&starter, &hello()).await;
    assert!(matches!(opened, Err(ClientError::Unreachable(_))));
    assert!(!started.exists());
}
