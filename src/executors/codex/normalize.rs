//! Codex's two dialects, told apart by the shape of each line: the app server's
//! messages have a `method` or an `id`, those of `codex exec --json` a `type`.

use provost_actors::event::Timestamp;
use provost_actors::executor::{Normalizer, Observed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::json::{Dialect, Json};
use super::super::words;
use super::app_server::AppServer;
use super::exec::Exec;

/// A reader for one process of this dialogue; null: it is only read.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    let app_server = AppServer::new(Deserialize::deserialize(dialogue).ok());
    Json::reader(Codex { app_server, exec: Exec::default() })
}

#[derive(Serialize, Deserialize)]
struct Codex {
    app_server: AppServer,
    exec: Exec,
}

impl Dialect for Codex {
    fn begin(&mut self, out: &mut Vec<Observed>) {
        self.app_server.begin(out);
    }

    fn message(&mut self, message: &Value, at: Timestamp, out: &mut Vec<Observed>) -> bool {
        if message["type"].is_string() {
            self.exec.message(message, at, out)
        } else {
            self.app_server.message(message, at, out)
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        self.app_server.end(out);
        self.exec.end(out);
        if !(self.app_server.has_ended || self.exec.has_ended) {
            out.push(words::unended());
        }
    }
}
