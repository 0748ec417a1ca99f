//! The bridge against a daemon that dies and comes back, over a real socket.

use std::os::unix::net::UnixStream as Blocking;

use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::*;
use crate::client::{Peer, Welcome};
use crate::home::Home;

const LONG: Duration = Duration::from_mins(1);

/// A bridge whose client is the test.
struct Client {
    input: Blocking,
    output: BufReader<UnixStream>,
    bridge: JoinHandle<()>,
    home: Home,
    _dir: tempfile::TempDir,
}

impl Client {
    fn start(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let starter =
            Starter::with(home.clone(), "/nonexistent".into(), false, Duration::from_millis(20));
        let (input, lines) = Blocking::pair().unwrap();
        let (answers, output) = Blocking::pair().unwrap();
        output.set_nonblocking(true).unwrap();
        let output = BufReader::new(UnixStream::from_std(output).unwrap());
        let hello = Hello::of_process(Peer::Bridge, None);
        let bridge = Bridge::start(starter, hello, lines, answers, limits).unwrap();
        let bridge = tokio::spawn(bridge.serve());
        Self { input, output, bridge, home, _dir: dir }
    }

    /// Listens as a daemon does that has just started.
    fn listen(&self) -> UnixListener {
        let _ = std::fs::remove_file(&self.home.socket);
        UnixListener::bind(&self.home.socket).unwrap()
    }

    fn say(&self, line: &Value) {
        (&self.input).write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        timeout(LONG, self.output.read_line(&mut line)).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Closes the client's side and returns what it was still told.
    async fn leave(self) -> Vec<Value> {
        drop(self.input);
        timeout(LONG, self.bridge).await.unwrap().unwrap();
        // A thread of the bridge may still hold the other end: there is no end to wait for.
        let mut rest = self.output.buffer().to_vec();
        let _ = self.output.into_inner().into_std().unwrap().read_to_end(&mut rest);
        serde_json::Deserializer::from_slice(&rest).into_iter().map(Result::unwrap).collect()
    }
}

/// The daemon's end of one connection. Dropped, the daemon is dead.
struct Daemon {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Daemon {
    async fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        let (reader, writer) = UnixStream::into_split(stream);
        let mut daemon = Self { reader: BufReader::new(reader), writer };
        assert_eq!(daemon.hear().await["client"], "bridge");
        daemon.say(serde_json::to_value(Welcome::of_process()).unwrap()).await;
        daemon
    }

    async fn hear(&mut self) -> Value {
        let mut line = Vec::new();
        timeout(LONG, self.reader.read_until(b'\n', &mut line)).await.unwrap().unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    async fn say(&mut self, line: Value) {
        send(&mut self.writer, line.to_string().into_bytes()).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }
}

fn call(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "stop_attempt", "arguments": {}}})
}

#[tokio::test]
async fn a_call_in_flight_lives_through_the_daemons_restart() {
    let mut client = Client::start(Limits { outage: LONG, drain: LONG, handshake: LONG });
    let listener = client.listen();
    client.say(&json!({"id": 0, "method": "initialize", "params": {"protocolVersion": "x"}}));
    let mut daemon = Daemon::accept(&listener).await;
    let initialize = daemon.hear().await;
    daemon.answer(&initialize, json!({"first": true})).await;
    assert_eq!(client.hear().await["result"]["first"], true);
    client.say(&json!({"method": "notifications/initialized"}));
    client.say(&call(1));
    assert_eq!(daemon.hear().await["method"], "notifications/initialized");
    let sent = daemon.hear().await;
    drop((daemon, listener));

    let listener = client.listen();
    let mut daemon = Daemon::accept(&listener).await;
    let replayed = daemon.hear().await;
    assert_eq!(replayed["method"], "initialize");
    assert_eq!(replayed["params"], initialize["params"]);
    daemon.answer(&replayed, json!({"second": true})).await;
    assert_eq!(daemon.hear().await["method"], "notifications/initialized");
    let again = daemon.hear().await;
    assert_eq!(again, sent);
    assert!(again["params"]["_meta"]["provost/call_id"].is_string());
    daemon.answer(&again, json!({"done": true})).await;
    assert_eq!(client.hear().await, json!({"jsonrpc": "2.0", "id": 1, "result": {"done": true}}));
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let mut client = Client::start(Limits { outage: LONG, drain: LONG, handshake: LONG });
    let listener = client.listen();
    client.say(&call(1));
    let mut daemon = Daemon::accept(&listener).await;
    daemon.hear().await;
    daemon.writer.write_all(br#"{"jsonrpc":"2.0","id":1,"res"#).await.unwrap();
    drop(daemon);
    let mut daemon = Daemon::accept(&listener).await;
    let again = daemon.hear().await;
    daemon.answer(&again, json!({})).await;
    assert_eq!(client.hear().await["result"], json!({}));
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn calls_are_refused_when_no_daemon_comes_and_later_ones_work() {
    let outage = Duration::from_millis(50);
    let mut client = Client::start(Limits { outage, drain: LONG, handshake: LONG });
    client.say(&call(1));
    client.say(&json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"}));
    let refused = client.hear().await;
    assert_eq!(refused["id"], 1);
    assert_eq!(refused["result"]["isError"], true);
    assert_eq!(refused["result"]["structuredContent"]["code"], "daemon_restarting");
    let failed = client.hear().await;
    assert_eq!(
        (failed["id"].as_str(), failed["error"]["code"].as_i64()),
        (Some("l"), Some(-32000))
    );

    let listener = client.listen();
    // The outage is short: the call may be refused before it is accepted.
    let daemon = tokio::spawn(async move {
        let mut daemon = Daemon::accept(&listener).await;
        let request = daemon.hear().await;
        daemon.answer(&request, json!({"ok": true})).await;
        daemon
    });
    for id in 2.. {
        client.say(&call(id));
        if client.hear().await["result"]["ok"] == json!(true) {
            break;
        }
    }
    daemon.await.unwrap();
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_leaves_gets_its_answers_first() {
    let client = Client::start(Limits { outage: LONG, drain: LONG, handshake: LONG });
    let listener = client.listen();
    client.say(&call(1));
    let daemon = tokio::spawn(async move {
        let mut daemon = Daemon::accept(&listener).await;
        let request = daemon.hear().await;
        daemon.answer(&request, json!({"ok": true})).await;
        daemon
    });
    let rest = client.leave().await;
    assert_eq!(rest[0]["result"]["ok"], true);
    daemon.await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_does_not_wait_for_ever() {
    let drain = Duration::from_millis(50);
    let client = Client::start(Limits { outage: LONG, drain, handshake: LONG });
    let listener = client.listen();
    client.say(&call(1));
    let mut daemon = Daemon::accept(&listener).await;
    daemon.hear().await;
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn a_client_with_nothing_to_ask_needs_no_daemon() {
    let client = Client::start(LIMITS);
    assert!(client.leave().await.is_empty());
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered_with_its_id() {
    let mut client = Client::start(LIMITS);
    let head = r#"{"id":5,"method":"tools/call","params":{"#;
    let long = format!("{head}{}", " ".repeat(lines::MAX_LINE));
    (&client.input).write_all(long.as_bytes()).unwrap();
    (&client.input).write_all(b"\n").unwrap();
    let refused = client.hear().await;
    assert_eq!(
        (refused["id"].as_i64(), refused["error"]["code"].as_i64()),
        (Some(5), Some(-32600))
    );
    client.leave().await;
}
