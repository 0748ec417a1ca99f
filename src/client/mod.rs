//! A client of the daemon's socket, for the command line: one call at a time, each
//! answered or failed. `start` starts a daemon; the bridge survives its restart.

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

/// A daemon that takes longer to say hello counts as unreachable.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// The daemon's hello is one short line.
const HELLO_BYTES: u64 = 4096;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the daemon can't be reached: {0}")]
    Unreachable(String),
    #[error("the connection to the daemon broke: {0}")]
    Lost(io::Error),
    /// A tool refused the call.
    #[error("{}", .0.message)]
    Refused(Box<Envelope>),
    /// The protocol's own errors: unknown method, unknown tool.
    #[error("{message}")]
    Rpc { code: i64, message: String, data: Option<Value> },
    #[error(
        "the daemon's answer can't be read: {0}; if its version differs, run `provost shutdown`"
    )]
    Garbled(String),
}

/// What a call returns. A field that older daemons may lack is optional; unknown ones are ignored.
pub trait CallOutput: DeserializeOwned {
    /// The tool that returns it, or the method of the command line (`provost/...`).
    const CALL: &'static str;
    /// Of an item of a list, the field that has them all; empty: as the call is named, `tasks` of
    /// `list_tasks`.
    const ITEMS: &'static str = "";
}

/// An answer of the daemon: the JSON as it came, and what it says.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    pub json: Value,
    pub output: T,
}

impl<T: DeserializeOwned> Answer<T> {
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

/// A refusal, as clients get it.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// `None` for an unknown code.
    pub code: Option<Code>,
    pub message: String,
    pub hint: String,
    /// The whole envelope.
    pub json: Value,
}

impl From<Value> for Envelope {
    fn from(json: Value) -> Self {
        // The worker API's errors are objects, with codes of their own.
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

/// An open connection whose hello has been answered. Calls are made one after the other.
#[derive(Debug)]
pub struct Connection {
    pub reader: BufReader<OwnedReadHalf>,
    pub writer: OwnedWriteHalf,
    pub welcome: Welcome,
    last_id: u64,
}

impl Connection {
    /// Connects to a daemon that listens, and says hello.
    pub async fn open(socket: &Path, hello: &Hello) -> Result<Self, ClientError> {
        let unreachable =
            |error: io::Error| ClientError::Unreachable(format!("{}: {error}", socket.display()));
        let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
        match tokio::time::timeout(HELLO_LIMIT, Self::greet(stream, hello)).await {
            Ok(greeted) => greeted.map_err(unreachable),
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

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

    /// The connection for a thread, and what of it was read already.
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

    /// Calls a tool, or a method of the command line (`provost/...`).
    pub async fn request(&mut self, call: &str, arguments: Value) -> Result<Value, ClientError> {
        if call.starts_with("provost/") {
            self.method(call, arguments).await
        } else {
            self.tool(call, arguments).await
        }
    }

    /// Calls a tool and returns its structured result.
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

    /// Calls a method and returns its result.
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

    /// Resolves once the daemon has closed the connection.
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
