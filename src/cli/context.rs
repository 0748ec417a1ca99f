//! What every verb uses: the output, the home, and one connection to the daemon, which is opened at
//! the first call.

use std::fmt::Display;
use std::io;
use std::str::FromStr;

use provost_actors::ids::AttemptId;
use provost_actors::refusal::{Code, Refusal};
use serde::Serialize;
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::output::Output;
use super::table::Column;
use super::text::harmless;
use crate::api::commands::{Attempts, READING, Resolved};
use crate::client::{
    Answer, CallOutput, ClientError, Connection, Hello, Peer, Starter, connect_or_start,
};
use crate::home::Home;
use crate::role::Role;
use crate::work::labels::headline;

/// The most items of one page of a list; the tool may give fewer.
const PAGE: u64 = 200;

/// The longest title that is shown, in characters.
const TITLE: usize = 60;

/// The fewest characters of a piece of an id. `ps` shows as many.
const SHORTEST_PIECE: usize = 8;

/// How many daemons a reading call may use one after the other, if each of them ends before it answers.
const DAEMONS: usize = 5;

/// Beginnings of the tools that only read.
const READING_TOOLS: [&str; 4] = ["get_", "list_", "tail_", "wait_for_"];

/// The state of one verb. A daemon is started at the first call, not before: `provost tools` needs none.
pub struct Context {
    pub out: Output,
    starter: Option<Starter>,
    client: Option<Connection>,
}

impl Context {
    /// `starter`: of another home than the environment's, as the demo has.
    pub fn new(out: Output, starter: Option<Starter>) -> Self {
        Self { out, starter, client: None }
    }

    fn starter(&mut self) -> Result<&Starter, Failure> {
        let starter = match self.starter.take() {
            Some(starter) => starter,
            None => Starter::new(Home::from_environment()?),
        };
        Ok(self.starter.insert(starter))
    }

    /// The home that the environment names, unless the context was made for another one. Fails if its
    /// folders can't be created or belong to another user.
    pub fn home(&mut self) -> Result<&Home, Failure> {
        Ok(&self.starter()?.home)
    }

    /// The connection, opened at the first use. If no daemon runs, one is started.
    pub async fn client(&mut self) -> Result<&mut Connection, Failure> {
        let client = match self.client.take() {
            Some(client) => client,
            None => connect_or_start(self.starter()?, &hello()).await?,
        };
        Ok(self.client.insert(client))
    }

    /// A new connection to a running daemon; fails if none runs. For calls that go on side by side, and for
    /// verbs that must not start a daemon.
    pub async fn running(home: &Home) -> Result<Connection, ClientError> {
        Connection::open(&home.socket, &hello()).await
    }

    /// Calls the tool or method that returns `T`. Fails with its refusal, or if the daemon is lost during
    /// a call that may have changed something.
    pub async fn call<T: CallOutput>(&mut self, arguments: Value) -> Result<Answer<T>, Failure> {
        Ok(Answer::read(self.request(T::CALL, arguments).await?)?)
    }

    /// Makes a call. If the daemon ends during a call that only reads, the next daemons are asked,
    /// [`DAEMONS`] in all.
    async fn request(&mut self, call: &str, arguments: Value) -> Result<Value, Failure> {
        let reads = only_reads(call);
        let mut was_lost = false;
        for _ in 1..DAEMONS {
            match self.ask(call, arguments.clone()).await {
                Err(Failure::Client(ClientError::Lost(_))) if reads => {
                    self.client = None;
                    was_lost = true;
                }
                // The next daemon was stopped too, before it accepted the connection.
                Err(Failure::Client(ClientError::Unreachable(_))) if was_lost => {}
                result => return result,
            }
        }
        self.ask(call, arguments).await
    }

    async fn ask(&mut self, call: &str, arguments: Value) -> Result<Value, Failure> {
        Ok(self.client().await?.request(call, arguments).await?)
    }

    /// Every item of the list tool that returns `T`, from all pages.
    pub async fn all<T: CallOutput>(
        &mut self,
        mut arguments: Value,
    ) -> Result<Vec<Answer<T>>, Failure> {
        let mut all = Vec::new();
        let named = T::CALL.trim_start_matches("list_");
        let field = if T::ITEMS.is_empty() { named } else { T::ITEMS };
        arguments["limit"] = json!(PAGE);
        loop {
            let mut page = self.request(T::CALL, arguments.clone()).await?;
            if let Value::Array(items) = page[field].take() {
                for item in items {
                    all.push(Answer::read(item)?);
                }
            }
            arguments["cursor"] = page["next_cursor"].take();
            if arguments["cursor"].is_null() {
                return Ok(all);
            }
        }
    }

    /// Prints an answer: with `--json` exactly as the daemon sent it, else by `for_person`.
    pub fn show<T>(
        &mut self,
        answer: &Answer<T>,
        for_person: impl FnOnce(&mut Output, &T) -> io::Result<()>,
    ) -> Result<Exit, Failure> {
        if !self.out.as_json(answer)? {
            for_person(&mut self.out, answer)?;
        }
        Ok(Exit::Done)
    }

    /// Prints `json` with `--json`; else a table, or the sentence `when_empty` if there are no rows.
    pub fn list<C: Copy + Into<Column>>(
        &mut self,
        json: &impl Serialize,
        columns: &[C],
        rows: impl IntoIterator<Item = Vec<String>>,
        when_empty: &str,
    ) -> Result<Exit, Failure> {
        if !self.out.as_json(json)? {
            self.out.list(columns, rows, when_empty)?;
        }
        Ok(Exit::Done)
    }

    /// The newest attempt of all projects. Its title goes to standard error, so that a person notices
    /// which one was taken; `attempt_not_found` if there is none.
    pub async fn newest_attempt(&mut self) -> Result<AttemptId, Failure> {
        let listed = self.call::<Attempts>(json!({})).await?;
        let Some(newest) = listed.attempts.first() else {
            return Err(not_found("attempt", "there is no attempt yet".to_owned()));
        };
        let title = harmless(&headline(&newest.task_title, TITLE));
        anstream::eprintln!("attempt {}: {title}", newest.attempt_id.short());
        Ok(newest.attempt_id)
    }

    /// The attempt with this id, or with this piece of its id (its beginning or end). A whole id is not
    /// checked: the call that uses it is refused if there is no such attempt.
    pub async fn attempt(&mut self, piece: &str) -> Result<AttemptId, Failure> {
        let piece = check_piece(piece)?;
        if let Some(id) = whole(&piece) {
            return Ok(id);
        }
        let found = self.call::<Resolved>(json!({"id": piece, "kinds": ["attempt"]})).await?;
        only(found.matches.iter().filter_map(|it| it.id.parse().ok()), &piece, "attempt")
    }
}

/// Whether a call changes nothing, and so can be repeated with the next daemon.
fn only_reads(call: &str) -> bool {
    READING.contains(&call) || READING_TOOLS.iter().any(|prefix| call.starts_with(prefix))
}

/// The command line calls with all tools, whatever role its environment has.
fn hello() -> Hello {
    Hello::of_process(Peer::Cli, Some(Role::All))
}

/// The only one of the ids that begins or ends with a piece. A usage error if several do, and not found
/// if none does. `kind` is the noun in the message.
pub fn only<T: Display>(
    ids: impl IntoIterator<Item = T>,
    piece: &str,
    kind: &str,
) -> Result<T, Failure> {
    let is_meant = |id: &T| {
        let id = id.to_string();
        id.starts_with(piece) || id.ends_with(piece)
    };
    the_one(ids.into_iter().filter(is_meant).collect(), piece, kind)
}

/// The only one with this name (`named`); if no name matches, the only one of `all` whose id begins or
/// ends so. Names come first: a project may be called `deadbeef`.
pub fn by_name_or_id<T: Display>(
    named: impl Iterator<Item = T>,
    all: impl Iterator<Item = T>,
    name: &str,
    kind: &str,
) -> Result<T, Failure> {
    let (named, shown) = (named.collect::<Vec<_>>(), harmless(name));
    match check_piece(name) {
        _ if !named.is_empty() => the_one(named, &shown, kind),
        Ok(piece) => only(all, &piece, kind),
        Err(_) => Err(not_found(kind, format!("there is no {kind} {shown}"))),
    }
}

/// The only id in a list of candidates.
fn the_one<T: Display>(mut ids: Vec<T>, name: &str, kind: &str) -> Result<T, Failure> {
    match (ids.pop(), ids.as_slice()) {
        (None, _) => Err(not_found(kind, format!("there is no {kind} with id {name}"))),
        (Some(id), []) => Ok(id),
        (Some(last), others) => {
            let all: Vec<String> = others.iter().chain([&last]).map(T::to_string).collect();
            let all = all.join(", ");
            Err(Failure::Usage(format!("{name} matches several {kind}s; give a whole id: {all}")))
        }
    }
}

/// The failure for a name or id that matches nothing. Its hint is the verb that lists what there is.
fn not_found(kind: &str, message: String) -> Failure {
    let (code, list) = match kind {
        "task" => (Code::TaskNotFound, "provost task list"),
        "project" => (Code::ProjectNotFound, "provost project list"),
        "comment" => (Code::FileNotFound, "provost review list ATTEMPT"),
        "pending approval" => (Code::FileNotFound, "provost approvals"),
        _ => (Code::AttemptNotFound, "provost ps --all"),
    };
    let refusal = Refusal::new(code, message).hint(format!("`{list}` lists them."));
    Failure::Refused(Box::new(refusal))
}

/// The piece in lower case. A usage error if it can't be a piece of an id, or is shorter than
/// [`SHORTEST_PIECE`].
pub fn check_piece(piece: &str) -> Result<String, Failure> {
    let digits = piece.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !digits || piece.is_empty() {
        return Err(Failure::Usage(format!("\"{}\" is not an id", harmless(piece))));
    }
    if piece.len() < SHORTEST_PIECE {
        return Err(Failure::Usage(format!(
            "`{piece}` is too short: give at least {SHORTEST_PIECE} characters of the id"
        )));
    }
    Ok(piece.to_ascii_lowercase())
}

/// The id, if the piece is a whole one: 36 characters, with dashes.
pub fn whole<T: FromStr>(piece: &str) -> Option<T> {
    piece.parse().ok().filter(|_| piece.len() == 36)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Effect, table};

    #[test]
    fn every_call_that_only_reads_is_repeated_and_no_other_is() {
        for tool in table::all() {
            assert_eq!(only_reads(tool.name), tool.effect == Effect::Reads, "{}", tool.name);
        }
        assert!(only_reads("provost/attempts") && !only_reads("provost/gc"));
    }

    #[test]
    fn pieces_are_checked_before_a_daemon_is_asked() {
        for bad in ["", "1234567", "12345678z", "../../etc"] {
            assert_eq!(check_piece(bad).unwrap_err().exit(), Exit::Usage, "{bad}");
        }
        assert_eq!(check_piece("ABCDEF01").unwrap(), "abcdef01");
        let whole = whole::<AttemptId>;
        assert!(whole("0192f0c1-2345-7abc-8def-0123456789ab").is_some());
        assert!(whole("0192f0c1-2345-7abc-8def-0123456789a").is_none());
        assert!(whole("0192f0c123457abc8def0123456789ab").is_none());
    }

    #[test]
    fn none_is_not_found_and_several_are_named() {
        let only = |ids: &[&'static str]| only(ids.to_vec(), "p", "attempt");
        assert_eq!(only(&["a"]).unwrap_err().exit(), Exit::NotFound);
        assert_eq!(only(&["a", "pb"]).unwrap(), "pb");
        let several = only(&["pa", "bp"]).unwrap_err();
        assert_eq!(several.exit(), Exit::Usage);
        assert!(several.to_string().contains("pa, bp"));
    }
}
