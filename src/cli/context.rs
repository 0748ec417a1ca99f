//! What every verb has at hand: the output, the home, and one connection to
//! the daemon, made when it is first needed.

use provost_actors::refusal::{Code, Refusal};
use serde_json::{Value, json};

use super::exit::Failure;
use super::output::{Output, harmless, headline, short};
use crate::client::{Client, ClientError, Connection, Hello, Peer, Starter, connect_or_start};
use crate::home::Home;
use crate::role::Role;

/// The most items that a list tool is asked for at once; it may give fewer.
const PAGE: u64 = 200;

/// The longest title that is shown, in characters.
const TITLE: usize = 60;

/// The shortest piece of an id that is taken.
const SHORTEST_PIECE: usize = 8;

/// How many daemons are asked in turn, while each of them ends before it has answered.
const DAEMONS: usize = 5;

pub struct Context {
    pub out: Output,
    starter: Starter,
    hello: Hello,
    client: Option<Client>,
}

impl Context {
    pub fn new(home: Home, out: Output) -> Self {
        Self::with(Starter::new(home), out)
    }

    pub fn with(starter: Starter, out: Output) -> Self {
        let hello = Hello::of_process(Peer::Cli, Some(Role::All));
        Self { out, starter, hello, client: None }
    }

    pub fn home(&self) -> &Home {
        self.starter.home()
    }

    /// The connection; a daemon is started when none runs.
    pub async fn client(&mut self) -> Result<&mut Client, Failure> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::new(connect_or_start(&self.starter, &self.hello).await?),
        };
        Ok(self.client.insert(client))
    }

    /// A connection to a daemon that runs already.
    pub async fn running(&mut self) -> Result<Client, Failure> {
        Ok(Client::new(Connection::open(self.home().socket(), &self.hello).await?))
    }

    /// A further connection beside this one, for calls at the same time.
    pub fn another(&self) -> impl Future<Output = Result<Client, ClientError>> + use<> {
        let (socket, hello) = (self.home().socket().to_owned(), self.hello.clone());
        async move { Ok(Client::new(Connection::open(&socket, &hello).await?)) }
    }

    /// Calls a tool.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> Result<Value, Failure> {
        Ok(self.client().await?.tool(name, arguments).await?)
    }

    /// Calls a tool that reads: when the daemon ends, asks the next one, up to
    /// [`DAEMONS`]; a daemon that was just started may be stopped again.
    pub async fn read(&mut self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        let mut was_lost = false;
        for _ in 1..DAEMONS {
            match self.tool(name, arguments.clone()).await {
                Err(Failure::Client(ClientError::Lost(_))) => {
                    self.client = None;
                    was_lost = true;
                }
                // The next one was stopped before it answered.
                Err(Failure::Client(ClientError::Unreachable(_))) if was_lost => {}
                result => return result,
            }
        }
        self.tool(name, arguments.clone()).await
    }

    /// Every item of a list tool, over all of its pages.
    pub async fn all(&mut self, tool: &str, items: &str) -> Result<Vec<Value>, Failure> {
        self.all_with(tool, items, &json!({})).await
    }

    /// The same, of what these arguments ask for.
    pub async fn all_with(
        &mut self,
        tool: &str,
        items: &str,
        with: &Value,
    ) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        let mut arguments = with.as_object().cloned().unwrap_or_default();
        arguments.insert("limit".to_owned(), json!(PAGE));
        loop {
            let mut page = self.read(tool, &Value::Object(arguments.clone())).await?;
            if let Value::Array(found) = page[items].take() {
                all.extend(found);
            }
            match page["next_cursor"].take() {
                Value::Null => return Ok(all),
                cursor => arguments.insert("cursor".to_owned(), cursor),
            };
        }
    }

    /// The newest attempt of all projects. Says on standard error which one that is.
    pub async fn newest_attempt(&mut self) -> Result<String, Failure> {
        let listed = self.client().await?.method("provost/attempts", json!({})).await?;
        let newest = &listed["attempts"][0];
        let id = text(newest, "attempt_id");
        if id.is_empty() {
            return Err(not_found("attempt", "there is no attempt yet".to_owned()));
        }
        let title = headline(text(newest, "task_title"), TITLE);
        anstream::eprintln!("attempt {}: {}", short(id), harmless(&title));
        Ok(id.to_owned())
    }

    /// The id of the attempt that a piece of an id stands for.
    pub async fn attempt(&mut self, piece: &str) -> Result<String, Failure> {
        let piece = check_piece(piece)?;
        if is_whole(&piece) {
            return Ok(piece);
        }
        let params = json!({"id": piece, "kinds": ["attempt"]});
        let mut found = self.client().await?.method("provost/resolve", params).await?;
        let matches = match found["matches"].take() {
            Value::Array(matches) => matches,
            _ => Vec::new(),
        };
        let ids: Vec<&str> = matches.iter().filter_map(|each| each["id"].as_str()).collect();
        only(&ids, &piece, "attempt").map(str::to_owned)
    }
}

/// The only one of the ids that a piece stands for.
pub fn only<'i>(ids: &[&'i str], piece: &str, kind: &str) -> Result<&'i str, Failure> {
    match ids {
        [] => Err(not_found(kind, format!("there is no {kind} with id {piece}"))),
        [id] => Ok(id),
        many => Err(Failure::Usage(format!(
            "{piece} is part of the ids of several {kind}s: {}",
            many.join(", ")
        ))),
    }
}

/// That there is no such thing, with the verb that lists those that there are.
pub fn not_found(kind: &str, message: String) -> Failure {
    let (code, list) = match kind {
        "task" => (Code::TaskNotFound, "provost task list"),
        "project" => (Code::ProjectNotFound, "provost project list"),
        "pending approval" => (Code::FileNotFound, "provost approvals"),
        _ => (Code::AttemptNotFound, "provost ps --all"),
    };
    let refusal = Refusal::new(code, message).hint(format!("`{list}` lists them."));
    Failure::Refused(Box::new(refusal))
}

/// Refuses what can't be a piece of an id. Case doesn't matter.
pub fn check_piece(piece: &str) -> Result<String, Failure> {
    let digits = piece.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !digits || piece.is_empty() {
        let piece = harmless(piece);
        return Err(Failure::Usage(format!("\"{piece}\" is not an id")));
    }
    if piece.len() < SHORTEST_PIECE {
        return Err(Failure::Usage(format!(
            "`{piece}` is too short: give {SHORTEST_PIECE} characters of the id or more"
        )));
    }
    Ok(piece.to_ascii_lowercase())
}

/// Whether it is all of an id.
pub fn is_whole(piece: &str) -> bool {
    piece.len() == 36 && uuid::Uuid::parse_str(piece).is_ok()
}

/// A text field of a JSON object; empty when it is missing or null.
pub fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The short form of an id field.
pub fn short_of<'v>(value: &'v Value, key: &str) -> &'v str {
    short(text(value, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn pieces_are_checked_before_a_daemon_is_asked() {
        for bad in ["", "1234567", "12345678z", "../../etc"] {
            assert_eq!(check_piece(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
        assert_eq!(check_piece("ABCDEF01").unwrap(), "abcdef01");
        assert!(is_whole("0192f0c1-2345-7abc-8def-0123456789ab"));
        assert!(!is_whole("0192f0c1-2345-7abc-8def-0123456789a"));
    }

    #[test]
    fn none_is_not_found_and_several_are_named() {
        assert_eq!(only(&[], "p", "attempt").unwrap_err().exit(), Exit::NotFound);
        assert_eq!(only(&["a"], "p", "attempt").unwrap(), "a");
        let several = only(&["a1", "b2"], "p", "attempt").unwrap_err();
        assert_eq!(several.exit(), Exit::Usage);
        assert!(several.to_string().contains("a1, b2"));
    }
}
