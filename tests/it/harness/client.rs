//! An MCP client that checks every answer: lines of JSON to the daemon's socket or to
//! `provost mcp`, requests by id, answers in whatever order they come.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use nix::libc;
use serde_json::{Value, json};

use super::{TIMEOUT, published};

/// One connection. The reader thread ends with it.
pub struct Client {
    writer: Option<Box<dyn Write + Send>>,
    lines: Receiver<Value>,
    /// What came while something else was waited for.
    aside: Vec<Value>,
    last_id: u64,
    /// The tools that were called, by request.
    tools: HashMap<u64, String>,
    end: End,
}

enum End {
    Bridge(Child),
    Socket(UnixStream),
}

impl Client {
    /// Speaks to a bridge, its child from now on.
    pub fn over_bridge(mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self::new(Box::new(stdin), stdout, End::Bridge(child))
    }

    /// Speaks to the daemon's socket; `None` when no daemon listens.
    pub fn over_socket(socket: &Path, hello: &Value) -> Option<Self> {
        Self::greeting(UnixStream::connect(socket).ok()?, hello)
    }

    /// The same as another user, whom the daemon serves alone.
    pub fn over_socket_of(user: u32, socket: &Path, hello: &Value) -> Option<Self> {
        let connect = || {
            // SAFETY: three integers. Of the bare system call only this thread, which
            // does nothing else, becomes another user.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) };
            assert_eq!(result, 0, "becoming {user}");
            UnixStream::connect(socket).ok()
        };
        let stream = std::thread::scope(|scope| scope.spawn(connect).join().unwrap())?;
        Self::greeting(stream, hello)
    }

    fn greeting(stream: UnixStream, hello: &Value) -> Option<Self> {
        let ends = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        let mut client = Self::new(Box::new(ends.0), ends.1, End::Socket(stream));
        client.send(hello);
        let welcome = client.next()?;
        assert_eq!(welcome["provost"], "hello", "{welcome}");
        Some(client)
    }

    fn new(writer: Box<dyn Write + Send>, from: impl Read + Send + 'static, end: End) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or(json!({ "garbage": line }));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            writer: Some(writer),
            lines,
            aside: Vec::new(),
            last_id: 0,
            tools: HashMap::new(),
            end,
        }
    }

    /// Sends one line. A peer that has gone is noticed when its answer is missed.
    pub fn send(&mut self, message: &Value) {
        self.send_bytes(message.to_string().as_bytes());
    }

    pub fn send_bytes(&mut self, line: &[u8]) {
        let writer = self.writer.as_mut().expect("the input is closed");
        let _ = writer.write_all(line).and_then(|()| writer.write_all(b"\n"));
        let _ = writer.flush();
    }

    /// Closes our side.
    pub fn close_input(&mut self) {
        self.writer = None;
        if let End::Socket(stream) = &self.end {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// The next line; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(message) => {
                assert!(message.get("garbage").is_none(), "no JSON: {message}");
                Some(message)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line in time"),
        }
    }

    /// Sends a request; returns its id.
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request; `None` when the connection ends before.
    pub fn answer(&mut self, id: u64) -> Option<Value> {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.aside.iter().position(is_it) {
            return Some(self.aside.remove(at));
        }
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let message = self.next()?;
            if is_it(&message) {
                return Some(message);
            }
            self.aside.push(message);
        }
        panic!("no answer to {id} in time");
    }

    /// A request and its answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer(id).unwrap_or_else(|| panic!("the connection ended during {method}"))
    }

    /// Sends a tool call; returns its id.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        let id = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        self.tools.insert(id, tool.to_owned());
        id
    }

    /// The outcome of a tool call, which fits what the tool publishes; `None` when the
    /// connection ends before.
    pub fn outcome(&mut self, id: u64) -> Option<Answer> {
        let answer = self.answer(id).map(|answer| Answer::of(&answer))?;
        if let Some(tool) = self.tools.remove(&id) {
            published::check(&tool, &answer.value);
        }
        Some(answer)
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        let id = self.begin(tool, arguments);
        self.outcome(id).unwrap_or_else(|| panic!("the connection ended during {tool}"))
    }

    /// The handshake of the versions that have one.
    pub fn initialize(&mut self) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client,
        });
        let answer = self.ask("initialize", &params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer["result"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        match &mut self.end {
            End::Bridge(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            End::Socket(stream) => drop(stream.shutdown(Shutdown::Both)),
        }
    }
}

/// A tool's answer, whose two forms of content say the same.
#[derive(Clone, Debug)]
pub struct Answer {
    pub is_error: bool,
    /// The structured content.
    pub value: Value,
    /// The one text.
    pub text: String,
    pub is_deduplicated: bool,
}

impl Answer {
    fn of(response: &Value) -> Self {
        let result = &response["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no result of a tool: {response}")).to_owned();
        let value = result["structuredContent"].clone();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        Self {
            is_error: result["isError"] == true,
            is_deduplicated: result["_meta"]["provost/deduplicated"] == true,
            value,
            text,
        }
    }

    /// What the tool gave.
    pub fn output(self) -> Value {
        assert!(!self.is_error, "refused: {}", self.text);
        self.value
    }

    /// Why the tool refused.
    pub fn refusal(self) -> Value {
        assert!(self.is_error, "not refused: {}", self.text);
        self.value
    }
}
