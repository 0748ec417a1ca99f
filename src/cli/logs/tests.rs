//! Following a log over a real socket.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::*;
use crate::cli::output::Output;
use crate::client::{Starter, Welcome};
use crate::home::Home;

/// What a verb printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An attempt that has written 100 entries more each time that its status is
/// asked for, and settles at 500. Pages hold 30 entries.
#[derive(Default)]
struct Attempt {
    written: i64,
}

impl Attempt {
    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        if name == "get_attempt_status" {
            self.written = (self.written + 100).min(500);
            let phase = if self.written < 500 { "running" } else { "settled" };
            let mut status = crate::cli::tests::status();
            status["phase"] = json!(phase);
            return status;
        }
        let limit = arguments["limit"].as_i64().unwrap().min(30);
        let first = match arguments["after_entry_index"].as_i64() {
            Some(after) => after + 1,
            None => self.written - limit,
        };
        let end = (first + limit).min(self.written);
        let entries: Vec<Value> = (first..end)
            .map(|n| json!({"entry_index": n, "kind": "assistant_message", "text": n.to_string()}))
            .collect();
        json!({"entries": entries, "has_more": end < self.written,
            "latest_entry_index": self.written - 1})
    }

    /// Answers what comes on a connection, or breaks it after some answers.
    async fn serve(&mut self, stream: UnixStream, answers: usize) {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        lines.next_line().await.unwrap();
        let welcome = serde_json::to_value(Welcome::of_process()).unwrap();
        writer.write_all(format!("{welcome}\n").as_bytes()).await.unwrap();
        for _ in 0..answers {
            let Some(line) = lines.next_line().await.unwrap() else { return };
            let request: Value = serde_json::from_str(&line).unwrap();
            let params = &request["params"];
            let result = if request["method"] == "provost/next_log_page" {
                self.tool("tail_attempt_logs", &params["page"])
            } else {
                let output = self.tool(params["name"].as_str().unwrap(), &params["arguments"]);
                json!({"structuredContent": output})
            };
            let answer = json!({"id": request["id"], "result": result});
            writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }
}

/// Runs `logs` with a daemon that drops each connection after some answers.
async fn printed(args: LogsArgs, written: i64, answers: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path()).unwrap();
    let listener = UnixListener::bind(&home.socket).unwrap();
    let daemon = tokio::spawn(async move {
        let mut attempt = Attempt { written };
        while let Ok((stream, _)) = listener.accept().await {
            attempt.serve(stream, answers).await;
        }
    });
    let printed = Printed::default();
    let mut context =
        Context::new(Output::to(Box::new(printed.clone()), false), Some(Starter::new(home)));
    let exit = logs(&mut context, args).await;
    daemon.abort();
    assert_eq!(exit.unwrap(), Exit::Done);
    let bytes = printed.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(|line| line.replace("agent    ", "")).collect()
}

fn args(follow: bool, raw: bool, limit: Option<u32>) -> LogsArgs {
    LogsArgs {
        attempt: Some("0192f0c1-2345-7abc-8def-0123456789ab".to_owned()),
        follow,
        raw,
        limit,
    }
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn every_entry_is_printed_once_and_in_order_until_the_attempt_settles() {
    assert_eq!(printed(args(true, false, None), 0, usize::MAX).await, numbers(0..500));
}

#[tokio::test]
async fn following_goes_on_with_the_next_daemon() {
    assert_eq!(printed(args(true, true, None), 0, 3).await, numbers(0..500));
}

#[tokio::test]
async fn without_following_all_that_is_there_is_printed() {
    assert_eq!(printed(args(false, false, None), 200, usize::MAX).await, numbers(0..200));
    assert_eq!(printed(args(false, true, Some(70)), 200, usize::MAX).await, numbers(130..200));
    assert_eq!(printed(args(false, false, Some(70)), 20, usize::MAX).await, numbers(0..20));
}

#[test]
fn what_an_attempt_waits_for_is_said_with_what_ends_it() {
    let wait_on = |what: &str| {
        let mut status = crate::cli::tests::status();
        (status["waiting_on"], status["host"]) = (json!(what), json!("box"));
        wait(&serde_json::from_value(status).unwrap())
    };
    assert_eq!(wait_on("approval").unwrap(), "waits for approval: `provost approvals`");
    assert_eq!(wait_on("host").unwrap(), "its host drains: `provost host resume box`");
    assert_eq!(wait_on("quota"), None);
}
