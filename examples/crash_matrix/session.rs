//! The client: an MCP session over a bridge that may be killed like all else.
//! A call is asked until it is answered; its `request_id` makes that safe.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Result, TIMEOUT};

/// Where the client's daemon is.
pub trait Home {
    /// `provost` with these arguments.
    fn provost(&self, args: &[&str]) -> Command;
}

/// Names a call for as long as it waits for its answer.
pub type Key = u64;

/// A tool's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub value: Value,
    pub text: String,
    pub is_deduplicated: bool,
}

/// The calls, and the bridge of the moment.
#[derive(Default)]
pub struct Session {
    bridge: Option<Bridge>,
    waiting: BTreeMap<Key, Call>,
    answered: BTreeMap<Key, Answer>,
    last: Key,
}

struct Call {
    message: Value,
    since: Instant,
}

struct Bridge {
    child: Child,
    lines: Receiver<Value>,
}

impl Session {
    /// Sends a tool call.
    pub fn begin(&mut self, home: &dyn Home, tool: &str, arguments: &Value) -> Result<Key> {
        self.last += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params});
        // Another bridge is told all that waits as soon as it is there.
        self.open(home)?;
        self.write(&message);
        self.waiting.insert(self.last, Call { message, since: Instant::now() });
        Ok(self.last)
    }

    /// Calls a tool that is to work.
    pub fn call(&mut self, home: &dyn Home, tool: &str, arguments: &Value) -> Result<Value> {
        let key = self.begin(home, tool, arguments)?;
        Ok(self.answer(home, key)?.value)
    }

    /// Waits for the answer to a call.
    pub fn answer(&mut self, home: &dyn Home, key: Key) -> Result<Answer> {
        loop {
            if let Some(answer) = self.answered.remove(&key) {
                return Ok(answer);
            }
            self.listen(home, Duration::from_millis(100))?;
        }
    }

    /// An answer that has come, if one has.
    pub fn take(&mut self, key: Key) -> Option<Answer> {
        self.answered.remove(&key)
    }

    pub fn is_answered(&self, key: Key) -> bool {
        self.answered.contains_key(&key)
    }

    /// Waits until no call waits any more.
    pub fn finish(&mut self, home: &dyn Home) -> Result<()> {
        while !self.waiting.is_empty() {
            self.listen(home, Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Takes in what has come, having waited for it for a while at most.
    pub fn listen(&mut self, home: &dyn Home, timeout: Duration) -> Result<()> {
        self.open(home)?;
        let deadline = Instant::now() + timeout;
        loop {
            let Some(bridge) = &self.bridge else { return Ok(()) };
            match bridge.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(message) => {
                    self.received(&message)?;
                    if self.waiting.is_empty() {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the bridge ended though nobody had killed it".into());
                }
            }
        }
        let late = self.waiting.values().find(|call| call.since.elapsed() > TIMEOUT);
        late.map_or(Ok(()), |call| Err(format!("never answered: {}", call.message).into()))
    }

    fn received(&mut self, message: &Value) -> Result<()> {
        let Some(key) = message["id"].as_u64().filter(|key| self.waiting.contains_key(key)) else {
            return Ok(());
        };
        let result = &message["result"];
        let value = result["structuredContent"].clone();
        if result["isError"] == true && value["retryable"] == true {
            if let Some(call) = self.waiting.get(&key) {
                self.write(&call.message.clone());
            }
            return Ok(());
        }
        let call = self.waiting.remove(&key).map(|call| call.message).unwrap_or_default();
        match result["content"][0]["text"].as_str() {
            Some(text) if result["isError"] != true => {
                let is_deduplicated = result["_meta"]["provost/deduplicated"] == true;
                let answer = Answer { value, text: text.to_owned(), is_deduplicated };
                self.answered.insert(key, answer);
                Ok(())
            }
            _ => Err(format!("refused: {message}\nthe call was {call}").into()),
        }
    }

    /// A bridge that is gone by now is noticed by whoever listens.
    fn write(&mut self, message: &Value) {
        if let Some(stdin) = self.bridge.as_mut().and_then(|bridge| bridge.child.stdin.as_mut()) {
            let _ = stdin.write_all(format!("{message}\n").as_bytes());
        }
    }

    /// Kills the bridge, if there is one. The next call gets another.
    pub fn kill_bridge(&mut self) -> Result<()> {
        if let Some(mut bridge) = self.bridge.take() {
            bridge.child.kill()?;
            bridge.child.wait()?;
            // What it had passed on before counts.
            while let Ok(message) = bridge.lines.recv() {
                self.received(&message)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, home: &dyn Home) -> Result<()> {
        if self.bridge.is_some() {
            return Ok(());
        }
        let mut child = home
            .provost(&["mcp", "--role", "all"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(std::io::Result::ok);
            for line in lines {
                // Half a line is what a killed bridge may leave.
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        self.bridge = Some(Bridge { child, lines });
        let client = json!({"name": "crash-matrix", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": client});
        self.write(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let deadline = Instant::now() + TIMEOUT;
        while let Some(bridge) = &self.bridge {
            let message = bridge
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .map_err(|_| "a bridge does not answer `initialize`")?;
            if message["id"] == 0 {
                break;
            }
        }
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let again: Vec<Value> = self.waiting.values().map(|call| call.message.clone()).collect();
        for message in again {
            self.write(&message);
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.kill_bridge();
    }
}
