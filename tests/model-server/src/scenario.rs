//! Which answer a conversation gets. The last prompt that names a scenario in
//! double brackets chooses; how far it has come is the number of tool results
//! since. So the server remembers nothing, and a follow-up may ask for another.
//! Pure.
//!
//! | scenario | the model |
//! |---|---|
//! | `[[text]]` | says a sentence |
//! | `[[edit]]`, `[[edit:NAME]]` | runs a command, writes the file NAME (`notes.txt`), says so |
//! | `[[commit]]` | commits a file, tries to read a key of the person, and says what it saw |
//! | `[[context]]` | calls `get_context` of the MCP server `provost` and says what it was told |
//! | `[[slow]]`, `[[slow:SECONDS]]` | says four words a second, for 20 s |
//! | `[[rate-limit]]`, `[[rate-limit:SECONDS]]` | is out of quota, for 1 s as it says |
//! | `[[overload]]` | is overloaded |
//! | `[[bad-key]]` | does not know the key |
//! | `[[no-model]]` | is not there |
//! | `[[loop]]` | runs commands for ever, each of which leaves a process behind |
//! | `[[wait:SECONDS]]` | runs a command that takes so long, and says so |
//! | `[[background:SECONDS]]` | does so in the background, ends its turn, and says so when it is notified |
//! | `[[subagent:SECONDS]]` | the same with a subagent that waits |
//! | `[[question]]` | asks the person a question with two answers, and says which it got |
//! | `[[recall]]` | tells what it was asked before |
//!
//! A request that names none, or has no tools, is one that a CLI makes for
//! itself (a title, a memory): it gets a word in answer.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::conversation::{Call, Part, Plan, Reason, Refusal, Request, Tool, Turn};
use crate::tools;

/// What `[[text]]` says.
pub const TEXT: &str = "Hello from the model, in several words.";

/// What they say before that.
pub const RUNS: &str = "It runs; I go on when it has ended.";

/// What `[[background]]` and `[[subagent]]` say in the end.
pub const WENT_ON: &str = "It has ended, and I went on.";

/// The file that `[[edit]]` writes, and its content.
pub const EDITED: (&str, &str) = ("notes.txt", "Written by the model.\nIn two lines.\n");

/// What `[[commit]]` runs: it prints its commit's subject, then the key or that it can't be read.
const COMMIT: &str = "echo x > committed && git add committed && \
    git -c user.name=Model -c user.email=model@localhost commit --quiet -m committed; \
    git log -1 --format=subject=%s; cat \"$HOME/.ssh/id\" || echo no key";

/// What `[[loop]]` leaves behind with each command: a session of its own, with
/// nothing open.
const LEAVE_BEHIND: &str = "setsid sleep 1000 </dev/null >/dev/null 2>&1 &";

/// Between two words of a slow answer.
const PACE: Duration = Duration::from_millis(250);

/// Rounds of looking for a tool before the model gives up.
const ROUNDS: usize = 4;

/// What is done about a request.
#[must_use]
pub fn plan(request: &Request) -> Plan {
    if let Some(schema) = &request.answer_schema {
        return say(&tools::example(schema).to_string());
    }
    let Some(script) = Script::of(request) else { return say("Noted.") };
    let seconds = |default| {
        Duration::from_secs(script.argument.and_then(|text| text.parse().ok()).unwrap_or(default))
    };
    match script.name {
        "text" => say(TEXT),
        "edit" => script.edit(),
        "commit" => script.commit(),
        "context" => script.context(),
        "slow" => slow(seconds(20)),
        "rate-limit" => refuse(Reason::RateLimit, Some(seconds(1))),
        "overload" => refuse(Reason::Overload, None),
        "bad-key" => refuse(Reason::BadKey, None),
        "no-model" => refuse(Reason::NoModel, None),
        "loop" => script.round(),
        "wait" => script.wait(),
        "background" => script.background(tools::in_background),
        "subagent" => script.background(tools::subagent),
        "question" => script.question(),
        "recall" => script.recall(),
        unknown => say(&format!("There is no scenario {unknown}.")),
    }
}

/// A request seen as a step of a scenario.
struct Script<'a> {
    request: &'a Request,
    name: &'a str,
    argument: Option<&'a str>,
    /// The prompts before this one.
    earlier: Vec<&'a str>,
    /// Since the prompt.
    results: Vec<&'a str>,
    /// The CLI has said something by itself since the model's last words.
    is_notified: bool,
    /// Provost has asked it to wait for what it has begun.
    is_asked_to_wait: bool,
}

impl<'a> Script<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        if request.tools.is_empty() {
            return None;
        }
        let mut earlier = Vec::new();
        let mut results = Vec::new();
        let mut prompt = None;
        let (mut is_notified, mut is_asked_to_wait) = (false, false);
        let before = std::iter::once(None).chain(request.turns.iter().map(Some));
        for (turn, before) in request.turns.iter().zip(before) {
            match turn {
                Turn::ToolResult(text) => results.push(text.as_str()),
                Turn::User(text) if marked(text).is_some() => {
                    earlier.extend(prompt.replace(text.as_str()));
                    results.clear();
                    (is_notified, is_asked_to_wait) = (false, false);
                }
                // A CLI itself speaks in the user's name: in tags, or beside what
                // else is said. An answer to the model is a prompt of its own.
                Turn::User(text) if text.trim_start().starts_with('<') => {
                    is_notified |= before == Some(&Turn::Model);
                }
                // Provost asks an agent to wait for what it has begun.
                Turn::User(text) if text.contains("still runs in the background") => {
                    is_asked_to_wait = true;
                }
                Turn::User(_) if before == Some(&Turn::Model) => earlier.extend(prompt.take()),
                Turn::User(_) | Turn::Model => {}
            }
        }
        let marker = marked(prompt?)?;
        let (name, argument) = match marker.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (marker, None),
        };
        Some(Self { request, name, argument, earlier, results, is_notified, is_asked_to_wait })
    }

    fn edit(&self) -> Plan {
        let name = self.argument.unwrap_or(EDITED.0);
        let offered = &self.request.tools;
        let (words, call) = match self.results.as_slice() {
            // The folder's name stands in no place common to all: a command tells it.
            [] => ("Looking around.", tools::command(offered, "echo \"folder=$PWD\"; ls")),
            [listing] => {
                let folder = said_folder(listing).unwrap_or(".");
                ("Writing.", tools::write(offered, folder, name, EDITED.1))
            }
            _ => return say(&format!("Done: wrote {name}.")),
        };
        let Some(call) = call else { return self.no_tool() };
        let mut parts = vec![Part::text(words), Part::Call(call)];
        if self.results.is_empty() && self.request.thinks {
            parts.insert(0, Part::Thinking("First I look where I am.".to_owned()));
        }
        Plan::Say(parts)
    }

    fn commit(&self) -> Plan {
        let [] = self.results.as_slice() else {
            return say(&format!("It printed: {}", self.results.join(" ")));
        };
        let call = tools::command(&self.request.tools, COMMIT);
        call.map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)]))
    }

    fn context(&self) -> Plan {
        if let Some(result) = self.results.iter().find(|text| holds_uuid(text)) {
            return say(&format!("I was told: {result}"));
        }
        let searched = !self.results.is_empty();
        match tools::mcp(&self.request.tools, "provost", "get_context", searched) {
            Some(call) if self.results.len() < ROUNDS => Plan::Say(vec![Part::Call(call)]),
            _ => self.no_tool(),
        }
    }

    fn round(&self) -> Plan {
        let round = self.results.len() + 1;
        let command = format!("echo round {round}; {LEAVE_BEHIND}");
        let Some(call) = tools::command(&self.request.tools, &command) else {
            return self.no_tool();
        };
        let words = vec![format!("Round {round}.")];
        Plan::Say(vec![Part::Text { words, pause: 2 * PACE }, Part::Call(call)])
    }

    fn wait(&self) -> Plan {
        let seconds = self.argument.unwrap_or("1");
        let [] = self.results.as_slice() else { return say(&format!("Waited for {seconds} s.")) };
        let command = format!("sleep {seconds}; echo waited");
        let call = tools::command(&self.request.tools, &command);
        call.map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)]))
    }

    fn background(&self, call: impl Fn(&[Tool], &str) -> Option<Call>) -> Plan {
        match self.results.as_slice() {
            [_] if self.is_asked_to_wait => {
                let seconds = self.argument.unwrap_or("1");
                let call =
                    tools::command(&self.request.tools, &format!("sleep {seconds}; sleep 2"));
                call.map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)]))
            }
            [begun, _] if self.is_asked_to_wait => tools::look_at(&self.request.tools, begun)
                .map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)])),
            _ if self.is_notified || self.is_asked_to_wait => say(WENT_ON),
            [] => call(&self.request.tools, self.argument.unwrap_or("1"))
                .map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)])),
            _ => say(RUNS),
        }
    }

    fn question(&self) -> Plan {
        match self.results.as_slice() {
            [] => tools::question(&self.request.tools)
                .map_or_else(|| self.no_tool(), |call| Plan::Say(vec![Part::Call(call)])),
            [answer, ..] => say(&format!("The answer was: {answer}")),
        }
    }

    fn recall(&self) -> Plan {
        let first = self.earlier.first().map_or("", |text| line_of_marker(text));
        let count = self.earlier.len();
        say(&format!("I remember: {count} earlier user messages, the first was \"{first}\""))
    }

    fn no_tool(&self) -> Plan {
        let names: Vec<&str> = self.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        say(&format!("No tool for {} among {}", self.name, names.join(", ")))
    }
}

fn say(text: &str) -> Plan {
    Plan::Say(vec![Part::text(text)])
}

fn slow(duration: Duration) -> Plan {
    let count = duration.as_millis() / PACE.as_millis();
    let words = (1..=count).map(|number| format!("word{number} ")).collect();
    Plan::Say(vec![Part::Text { words, pause: PACE }])
}

fn refuse(reason: Reason, retry_after: Option<Duration>) -> Plan {
    Plan::Refuse(Refusal { reason, retry_after })
}

/// What stands in the last double brackets, if that can be a scenario.
fn marked(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once("[[")?;
    let (inner, _) = rest.split_once("]]")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-:._/".contains(c);
    (!inner.is_empty() && inner.chars().all(plain)).then_some(inner)
}

/// CLIs put words of their own before and after a prompt.
fn line_of_marker(text: &str) -> &str {
    text.lines().rfind(|line| marked(line).is_some()).unwrap_or(text).trim().trim_matches('"')
}

/// The path in `folder=PATH`, however a CLI wraps what a command printed.
fn said_folder(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("folder=/")?;
    let end = rest.find(|c: char| c.is_whitespace() || "\"\\'<".contains(c)).unwrap_or(rest.len());
    // The slash before `rest` is in it.
    let start = text.len() - rest.len() - 1;
    text.get(start..=start + end)
}

/// Whether an id stands in the text, as `get_context` tells them.
fn holds_uuid(text: &str) -> bool {
    let is_id = |word: &str| {
        let lengths: Vec<usize> = word.split('-').map(str::len).collect();
        lengths == [8, 4, 4, 4, 12]
    };
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-').any(is_id)
}
