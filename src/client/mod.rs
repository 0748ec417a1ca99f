//! A client of the daemon's socket, for the command line: one call at a time, and each is answered or fails.
//! `start` connects, and starts a daemon if none listens. The bridge takes its connections from here too.
//!
//! ```text
//!  client ── Hello, one line ──▶ daemon
//!         ◀── Welcome, one line ──         another version: the connection fails
//!         ── a JSON-RPC line ──▶           (`tools/call`, or a `provost/...` method)
//!         ◀── notifications, skipped; then the answer with the same id
//! ```

mod hello;
mod start;

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

pub use hello::{Hello, Peer, Welcome};
use provost_actors::refusal::Code;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
pub use start::{Starter, connect_or_start};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// A daemon that takes longer to answer the hello counts as unreachable.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// The most bytes of the daemon's answer to the hello, which is one short line.
const HELLO_BYTES: u64 = 4096;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection was made, so no call was sent.
    #[error("the daemon can't be reached: {0}")]
    Unreachable(String),
    /// The connection ended during a call: the daemon may have carried the call out.
    #[error("the connection to the daemon broke: {0}")]
    Lost(io::Error),
    /// A tool refused the call.
    #[error("{}", .0.message)]
    Refused(Box<Envelope>),
    /// An error of JSON-RPC itself, such as an unknown method or an unknown tool.
    #[error("{message}")]
    Rpc { code: i64, message: String, data: Option<Value> },
    #[error(
        "the daemon's answer can't be read: {0}; if its version differs, run `provost shutdown`"
    )]
    Garbled(String),
}

/// What a call returns, as far as a command needs it. A field that older daemons lack is optional. Unknown
/// fields are ignored.
pub trait CallOutput: DeserializeOwned {
    /// The tool that returns it, or the method of the command line (`provost/...`).
    const CALL: &'static str;
    /// For the items of a list: the field of the answer that has the list. Empty: the field has the name of
    /// the call without `list_`, as `tasks` for `list_tasks`.
    const ITEMS: &'static str = "";
}

/// An answer of the daemon: the JSON as it came (commands print it with `--json`), and the parsed output.
/// Derefs to the output, and serializes as the JSON.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    pub json: Value,
    pub output: T,
}

impl<T: DeserializeOwned> Answer<T> {
    /// Fails with `Garbled` if the JSON has not the form of `T`.
    pub fn read(json: Value) -> Result<Self, ClientError> {
        let output = T::deserialize(&json).map_err(|error| ClientError::Garbled(error.to_string()));
        Ok(Self { output: output?, json })
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.output
    }
}

impl<T> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

/// A refusal, as a client gets it.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// `None`: a code that this version does not know.
    pub code: Option<Code>,
    pub message: String,
    /// What to do instead; may be empty.
    pub hint: String,
    /// The whole envelope, as it came.
    pub json: Value,
}

impl From<Value> for Envelope {
    fn from(json: Value) -> Self {
        // The worker API puts its errors into an object `error`, and has codes of its own.
        let error = if json["error"].is_object() { &json["error"] } else { &json };
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        let code = match error["code"].as_str() {
            Some("RESOURCE_NOT_FOUND") => Some(Code::TaskNotFound),
            Some("INVALID_STATE") => Some(Code::InvalidState),
            Some("IDEMPOTENCY_CONFLICT") => Some(Code::IdempotencyConflict),
            _ => Code::deserialize(&error["code"]).ok(),
        };
        Self { code, message: text("message"), hint: text("hint"), json }
    }
}

/// An open connection whose hello has been answered. Calls run one after the other.
#[derive(Debug)]
pub struct Connection {
    pub reader: BufReader<OwnedReadHalf>,
    pub writer: OwnedWriteHalf,
    pub welcome: Welcome,
    last_id: u64,
}

impl Connection {
    /// Connects to a daemon that listens, and exchanges the hello, for 10 s at most. Every failure is
    /// `Unreachable`, also a daemon of another version of the hello.
    pub async fn open(socket: &Path, hello: &Hello) -> Result<Self, ClientError> {
        let unreachable =
            |error: io::Error| ClientError::Unreachable(format!("{}: {error}", socket.display()));
        let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
        match tokio::time::timeout(HELLO_LIMIT, Self::greet(stream, hello)).await {
            Ok(greeted) => greeted.map_err(unreachable),
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Sends the hello, and reads the answer: one line of [`HELLO_BYTES`] at most.
    async fn greet(stream: UnixStream, hello: &Hello) -> io::Result<Self> {
        let (reader, mut writer) = stream.into_split();
        let mut line = serde_json::to_vec(hello)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
        let mut reader = BufReader::new(reader);
        line.clear();
        (&mut reader).take(HELLO_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let welcome: Welcome = serde_json::from_slice(&line)?;
        if welcome.v != hello.v {
            return Err(io::Error::other(format!(
                "the daemon has another version ({}); stop it with `provost shutdown`",
                welcome.version
            )));
        }
        Ok(Self { reader, writer, welcome, last_id: 0 })
    }

    /// The connection in blocking mode, for threads, and the bytes that were read ahead.
    pub fn into_parts(self) -> io::Result<(std::os::unix::net::UnixStream, Vec<u8>)> {
        let read_ahead = self.reader.buffer().to_vec();
        let stream = self.reader.into_inner().reunite(self.writer).map_err(io::Error::other)?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        Ok((stream, read_ahead))
    }

    /// Calls the tool or the method that returns `T`.
    pub async fn call<T: CallOutput>(
        &mut self,
        arguments: Value,
    ) -> Result<Answer<T>, ClientError> {
        Answer::read(self.request(T::CALL, arguments).await?)
    }

    /// Calls a tool, or a method of the command line (`provost/...`), by its name.
    pub async fn request(&mut self, call: &str, arguments: Value) -> Result<Value, ClientError> {
        if call.starts_with("provost/") {
            self.method(call, arguments).await
        } else {
            self.tool(call, arguments).await
        }
    }

    /// Calls a tool and returns its structured result. A result with `isError` is `Refused`.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> Result<Value, ClientError> {
        let params = json!({"name": name, "arguments": arguments});
        let mut result = self.method("tools/call", params).await?;
        let failed = result["isError"].as_bool().unwrap_or(false);
        match result["structuredContent"].take() {
            Value::Null => Err(ClientError::Garbled(format!("{name} has no structured result"))),
            envelope if failed => Err(ClientError::Refused(Box::new(envelope.into()))),
            output => Ok(output),
        }
    }

    /// Calls a method and returns its result. Skips notifications, requests of the daemon, and answers to
    /// other calls. Has no limit of time: some calls wait.
    pub async fn method(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("{request}\n");
        self.writer.write_all(line.as_bytes()).await.map_err(ClientError::Lost)?;
        loop {
            let mut message = self.receive().await?;
            if message["id"] != json!(id) || !message["method"].is_null() {
                continue;
            }
            return match message["error"].take() {
                Value::Null => Ok(message["result"].take()),
                mut error => Err(ClientError::Rpc {
                    code: error["code"].as_i64().unwrap_or_default(),
                    message: error["message"].as_str().unwrap_or_default().to_owned(),
                    data: error.get_mut("data").map(Value::take),
                }),
            };
        }
    }

    /// Returns once the daemon has closed the connection, or has sent something that is not JSON.
    pub async fn closed(&mut self) {
        while self.receive().await.is_ok() {}
    }

    async fn receive(&mut self) -> Result<Value, ClientError> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line).await;
        if read.map_err(ClientError::Lost)? == 0 {
            return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&line).map_err(|error| ClientError::Garbled(error.to_string()))
    }
}

#[cfg(test)]
mod tests;
