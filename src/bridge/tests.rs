//! The bridge against a daemon that dies and comes back, over a real socket.

use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::*;
use crate::client::{Peer, Welcome};
use crate::home::Home;

const LONG: Duration = Duration::from_mins(1);

/// A bridge whose client is the test.
struct Client {
    input: Option<mpsc::Sender<BridgeLine>>,
    output: mpsc::Receiver<Vec<u8>>,
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
        let (input, lines) = mpsc::channel(8);
        let (answers, output) = mpsc::channel(8);
        let hello = Hello::of_process(Peer::Bridge, None);
        let bridge = Bridge::new(starter, hello, lines, answers, limits);
        let bridge = tokio::spawn(bridge.serve());
        Self { input: Some(input), output, bridge, home, _dir: dir }
    }

    /// Listens as a daemon does that has just started.
    fn listen(&self) -> UnixListener {
        let _ = std::fs::remove_file(&self.home.socket);
        UnixListener::bind(&self.home.socket).unwrap()
    }

    async fn say(&self, line: Value) {
        let line = BridgeLine::Whole(line.to_string().into_bytes());
        self.input.as_ref().unwrap().send(line).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = timeout(LONG, self.output.recv()).await.unwrap().unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    /// Closes the client's side and returns what it was still told.
    async fn leave(mut self) -> Vec<Value> {
        self.input = None;
        timeout(LONG, self.bridge).await.unwrap().unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.output.recv().await {
            rest.push(serde_json::from_slice(&line).unwrap());
        }
        rest
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
    client.say(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": "x"}})).await;
    let mut daemon = Daemon::accept(&listener).await;
    let initialize = daemon.hear().await;
    daemon.answer(&initialize, json!({"first": true})).await;
    assert_eq!(client.hear().await["result"]["first"], true);
    client.say(json!({"method": "notifications/initialized"})).await;
    client.say(call(1)).await;
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
    client.say(call(1)).await;
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
    client.say(call(1)).await;
    client.say(json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"})).await;
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
        client.say(call(id)).await;
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
    client.say(call(1)).await;
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
    client.say(call(1)).await;
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
    let head = br#"{"id":5,"method":"tools/call","params":{"#.to_vec();
    client.input.as_ref().unwrap().send(BridgeLine::TooLong(head)).await.unwrap();
    let refused = client.hear().await;
    assert_eq!(
        (refused["id"].as_i64(), refused["error"]["code"].as_i64()),
        (Some(5), Some(-32600))
    );
    client.leave().await;
}
