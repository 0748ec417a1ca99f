//! Codex's two dialects, told apart by the shape of each line: the app server's
//! messages have a `method` or an `id`, those of `codex exec --json` a `type`.

use provost_actors::event::Timestamp;
use provost_actors::executor::{Normalizer, Observed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::json::{Dialect, Json};
use super::app_server::AppServer;
use super::exec::Exec;
use crate::executors::words;

/// A reader for one process of this dialogue; null: it is only read.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    let app_server = AppServer::new(Deserialize::deserialize(dialogue).ok());
    Json::reader(Codex { app_server, exec: Exec::default(), has_ended: false })
}

#[derive(Serialize, Deserialize)]
struct Codex {
    app_server: AppServer,
    exec: Exec,
    /// It has told how a turn ended.
    has_ended: bool,
}

impl Dialect for Codex {
    fn begin(&mut self, out: &mut Vec<Observed>) {
        self.app_server.begin(out);
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        let before = out.len();
        let is_known = if message["type"].is_string() {
            self.exec.message(message, at, out)
        } else {
            self.app_server.message(message, at, out)
        };
        self.has_ended |= out[before..].iter().any(|one| matches!(one, Observed::TurnEnded(_)));
        is_known
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.app_server.end(out);
        self.exec.end(out);
        if !self.has_ended {
            out.push(words::unended());
        }
    }
}
