//! The checks, each a column of the table. They use only Provost's tools: nothing here
//! depends on the CLI.

use std::time::{Duration, Instant};

use model_server::conversation::TOKENS;
use model_server::scenario::{EDITED, TEXT};
use serde_json::{Value, json};

use crate::lab::{Client, Lab};
use crate::report::Cell;
use crate::{CHECK_MAX, GLANCE, Result, TIMEOUT, processes};

/// In the order of the table.
pub const CHECKS: [&str; 14] = [
    "start",
    "edit",
    "sandbox",
    "slash",
    "approvals",
    "follow-up",
    "fork",
    "interrupt",
    "stop",
    "errors",
    "worker tools",
    "background",
    "question",
    "restart",
];

/// Makes the wanted checks.
pub async fn all(lab: &mut Lab, client: &Client, wanted: &[&'static str]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for check in wanted {
        let begun = Instant::now();
        let mut trial = Trial { lab, client, attempts: Vec::new() };
        let made = tokio::time::timeout(CHECK_MAX, trial.make(check)).await;
        let outcome = match made.unwrap_or_else(|_| Err("it takes too long".into())) {
            Ok(said) => Ok(said),
            Err(error) => {
                let seen = trial.seen().await;
                trial.give_up().await;
                Err(format!("{error}\n{seen}"))
            }
        };
        let took = begun.elapsed().as_secs();
        match &outcome {
            Ok(said) => eprintln!("  {check}: passed in {took} s {said}"),
            Err(reason) => eprintln!("  {check}: failed in {took} s: {reason}"),
        }
        cells.push(Cell { check, outcome });
    }
    cells
}

/// One check.
pub struct Trial<'a> {
    lab: &'a mut Lab,
    pub client: &'a Client,
    /// The attempts that it has started.
    attempts: Vec<String>,
}

impl Trial<'_> {
    /// What to note about it if it passes.
    async fn make(&mut self, check: &str) -> Result<String> {
        match check {
            "start" => self.start().await,
            "edit" => self.edit().await,
            "sandbox" => self.sandbox().await,
            "slash" => self.slash().await,
            "approvals" => self.approvals().await,
            "follow-up" => self.follow_up().await,
            "fork" => self.fork().await,
            "interrupt" => self.interrupt().await,
            "stop" => self.stop().await,
            "errors" => self.errors().await,
            "worker tools" => self.worker_tools().await,
            "background" => self.background().await,
            "question" => self.question().await,
            "restart" => self.restart().await,
            unknown => Err(format!("{unknown} is none of {}", CHECKS.join(", ")).into()),
        }
    }

    /// Two turns at once, which may be the first ones in an empty home, end with the model's words, and
    /// their tokens are counted.
    async fn start(&mut self) -> Result<String> {
        let attempt = self.begin("Say something. [[text]]").await?;
        let other = self.begin("Say something. [[text]]").await?;
        self.completed(&other).await?;
        let status = self.completed(&attempt).await?;
        expect("final_message", &status["final_message"], &json!(TEXT))?;
        let usage = &status["usage"];
        if usage.is_null() {
            return Ok("tells no usage".to_owned());
        }
        let [input, output] = ["input_tokens", "output_tokens"].map(|name| usage[name].as_u64());
        // A CLI may have asked for more than the answer: a title, say.
        if input < Some(TOKENS.input - TOKENS.cached) || output < Some(TOKENS.output) {
            return Err(format!("usage is {usage}").into());
        }
        Ok(String::new())
    }

    /// The log has each call of the CLI's own tools with its result, and the worktree has
    /// the changes.
    async fn edit(&mut self) -> Result<String> {
        let attempt = self.begin("Write the notes. [[edit]]").await?;
        self.completed(&attempt).await?;
        let changes = json!({"attempt_id": attempt});
        let changes = self.client.call("get_attempt_changes", changes).await?;
        let file = &changes["files"][0];
        expect("file", &file["path"], &json!(format!("repo/{}", EDITED.0)))?;
        expect("status", &file["status"], &json!("added"))?;
        let content = json!({"attempt_id": attempt, "path": file["path"]});
        let content = self.client.call("get_attempt_file", content).await?;
        expect("content", &content["content"], &json!(EDITED.1))?;

        let log = self.client.log(&attempt, "normalized").await?;
        let calls = of_kind(&log, "tool_use");
        let results = of_kind(&log, "tool_result");
        for call in &calls {
            let id = &call["tool_call_id"];
            let own: Vec<_> =
                results.iter().filter(|result| result["tool_call_id"] == *id).collect();
            if own.len() != 1 || own[0]["status"] != "success" {
                return Err(format!("{call} has the results {own:?}").into());
            }
        }
        for kind in ["command", "file_edit"] {
            if !calls.iter().any(|call| call["action"]["type"] == kind) {
                return Err(format!("no tool_use is a {kind}: {calls:?}").into());
            }
        }
        Ok(String::new())
    }

    /// The agent's commands commit to its own branch, and can't read a key of the person's; its state
    /// is the attempt's.
    async fn sandbox(&mut self) -> Result<String> {
        let attempt = self.begin("Commit something. [[commit]]").await?;
        let status = self.completed(&attempt).await?;
        expect("sandbox", &status["sandbox"]["level"], &json!(self.lab.sandbox.level))?;
        let held = &status["sandbox"]["enforced"];
        if !held.as_array().is_some_and(|held| held.contains(&json!("state"))) {
            return Err(format!("its state is not its own: {held}").into());
        }
        let said = text(&status["final_message"]);
        if said.contains("subject=committed") && said.contains("no key") {
            return Ok(String::new());
        }
        Err(format!("it said: {said}").into())
    }

    /// A prompt is text, even if it looks like a command of the CLI.
    async fn slash(&mut self) -> Result<String> {
        for begins in ["/healthz returns 500.", "/clear the table.", "/compact the log."] {
            let attempt = self.begin(&format!("{begins} [[text]]")).await?;
            let status = self.completed(&attempt).await?;
            expect(begins, &status["final_message"], &json!(TEXT))?;
        }
        Ok(String::new())
    }

    /// Each request shows all that is to be approved. Notes what was asked for: some CLIs
    /// run read-only commands, or edit, without asking.
    async fn approvals(&mut self) -> Result<String> {
        let attempt = self.client.start("Write the notes. [[edit]]", Some("ask")).await?;
        self.attempts.push(attempt.clone());
        let deadline = Instant::now() + TIMEOUT;
        let mut asked: Vec<Value> = Vec::new();
        loop {
            let pending = json!({"attempt_id": attempt});
            let mut pending = self.client.call("list_inbox", pending).await?;
            let Value::Array(pending) = pending["approvals"].take() else { return no_list() };
            // Of a host that the sandbox refuses only a person is asked, and the agent goes on.
            let of_agent = |it: &Value| it["tool_name"] != "provost_allow_host";
            for approval in pending.into_iter().filter(of_agent) {
                let answer = json!({"approval_id": approval["approval_id"], "decision": "approve"});
                self.client.call("answer", answer).await?;
                asked.push(approval["action"].clone());
            }
            let status = json!({"attempt_id": attempt});
            let status = self.client.call("get_attempt_status", status).await?;
            if status["phase"] == "settled" {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("the attempt does not settle; it asked for {asked:?}").into());
            }
            tokio::time::sleep(GLANCE).await;
        }
        self.completed(&attempt).await?;
        let mut kinds: Vec<&str> = Vec::new();
        for action in &asked {
            let shown = |names: &[&str], wanted: &str| {
                names.iter().any(|name| text(&action[*name]).contains(wanted))
            };
            let is_whole = match action["type"].as_str() {
                Some("command") => shown(&["command"], "folder=$PWD") && shown(&["command"], "ls"),
                Some("file_edit") => {
                    shown(&["path"], EDITED.0) && shown(&["content", "diff"], "In two lines.")
                }
                _ => false,
            };
            if !is_whole {
                return Err(format!("this was to be approved: {action}").into());
            }
            kinds.push(if action["type"] == "command" { "command" } else { "edit" });
        }
        kinds.dedup();
        if kinds.is_empty() { Err("it asks for nothing".into()) } else { Ok(kinds.join(", ")) }
    }

    /// The second prompt continues the conversation of the first, and the attempt's
    /// usage is that of both.
    async fn follow_up(&mut self) -> Result<String> {
        let attempt = self.begin("Say something. [[text]]").await?;
        let first = self.completed(&attempt).await?["usage"].take();
        self.recalls(&attempt, "[[text]]").await?;
        let status = json!({"attempt_id": attempt});
        let both = self.client.call("get_attempt_status", status).await?["usage"].take();
        // Some count a request for a title into the first, or their cost for the session.
        let is_sum = |name: &&str| {
            let [first, both] = [&first, &both].map(|usage| usage[*name].as_f64());
            let counts = first.zip(both).filter(|(first, _)| *first > 0.0);
            counts.is_none_or(|(first, both)| both > first && both < 2.9 * first)
        };
        if !["input_tokens", "output_tokens", "cost_usd"].iter().all(is_sum) {
            return Err(format!("usage is {first}, and then {both}").into());
        }
        Ok(String::new())
    }

    /// An attempt that begins from another one's turn knows what that was asked, and the other
    /// one goes on. Notes how it knows.
    async fn fork(&mut self) -> Result<String> {
        let attempt = self.begin("Say something. [[text]]").await?;
        self.completed(&attempt).await?;
        let more = json!({"prompt": "And now? [[recall]]", "from_attempt_id": attempt});
        let forked = self.client.start_with(more).await?;
        self.attempts.push(forked.clone());
        let said = self.completed(&forked).await?["final_message"].take();
        let log = self.client.log(&forked, "normalized").await?;
        let notices = of_kind(&log, "system_message");
        let has_notice = |words: &str| notices.iter().any(|it| text(&it["text"]).contains(words));
        let how = if has_notice("what was done so far") {
            "summary"
        } else if has_notice("a copy of the agent's own session")
            && is_recalled(text(&said), "[[text]]")
        {
            "session"
        } else {
            return Err(format!("the fork says: {said}").into());
        };
        self.recalls(&attempt, "[[text]]").await?;
        Ok(how.to_owned())
    }

    /// A turn in full flow is interrupted, and the conversation can go on.
    async fn interrupt(&mut self) -> Result<String> {
        let attempt = self.begin("Say something. [[text]]").await?;
        self.completed(&attempt).await?;
        // Some forget a prompt that was interrupted, and with it a session of no other.
        let slow = json!({
            "attempt_id": attempt, "action": "send", "prompt": "Take your time. [[slow:120]]",
        });
        self.client.call("follow_up", slow).await?;
        self.writes(&attempt, "word3").await?;
        let stopped = self.client.call("stop_attempt", json!({"attempt_id": attempt})).await?;
        expect("survivors", &stopped["survivors"], &json!(0))?;
        let capabilities = self.client.capabilities().await?;
        let signals = stopped["signals"].as_array().into_iter().flatten();
        let signals: Vec<&str> = signals.filter_map(Value::as_str).collect();
        // The protocol's own is listed with the signals. A process that lingers once
        // its turn has ended may need one of these as well, but not the last of them.
        let is_kept = signals.first() == Some(&"interrupt") && !signals.contains(&"SIGKILL");
        if capabilities["supports_interrupt"] == true && !is_kept {
            return Err(format!("the turn was ended by {}", signals.join(", ")).into());
        }
        self.recalls(&attempt, "[[text]]").await?;
        Ok(signals.join(", "))
    }

    /// Nothing that a stopped attempt has started is alive.
    async fn stop(&mut self) -> Result<String> {
        let attempt = self.begin("Go on and on. [[loop]]").await?;
        let left = || {
            let marked = processes::with_variable("PROVOST_ATTEMPT_ID", &attempt);
            let working = self.lab.worktree(&attempt).map(|tree| processes::working_below(&tree));
            let all = marked.into_iter().chain(working.unwrap_or_default());
            all.map(|process| process.to_string())
        };
        // Now a command has run, and left what it leaves.
        let deadline = Instant::now() + TIMEOUT;
        while !left().any(|process| process.contains("sleep 1000")) {
            if Instant::now() > deadline {
                return Err("the commands have left nothing behind that could be stopped".into());
            }
            tokio::time::sleep(GLANCE).await;
        }
        let stopped = self.client.call("stop_attempt", json!({"attempt_id": attempt})).await?;
        expect("stopped", &stopped["stopped"], &json!(true))?;
        let alive: Vec<String> = left().collect();
        if alive.is_empty() { Ok(String::new()) } else { Err(alive.join(", ").into()) }
    }

    /// What a service refuses is told by its kind, where the CLI tells it; it never looks
    /// completed. All at once, for some try again for minutes; who does so without end tells
    /// nothing, and can be stopped.
    async fn errors(&mut self) -> Result<String> {
        let kinds = [
            ("rate-limit", "quota"),
            ("overload", "overloaded"),
            ("bad-key", "auth"),
            ("no-model", "setup"),
        ];
        let mut tries = Vec::new();
        for (scenario, kind) in kinds {
            let attempt = self.begin(&format!("Try it. [[{scenario}]]")).await?;
            // Some can't create the files in their home from two processes at once.
            self.writes(&attempt, "").await?;
            tries.push((scenario, kind, attempt));
        }
        let deadline = Instant::now() + TIMEOUT;
        let (mut wrong, mut unreported, mut endless) = (Vec::new(), Vec::new(), Vec::new());
        for (scenario, kind, attempt) in tries {
            let Some(status) = self.client.settled_by(&attempt, deadline).await? else {
                let stop = json!({"attempt_id": attempt});
                let stopped = self.client.call("stop_attempt", stop).await?;
                expect("survivors", &stopped["survivors"], &json!(0))?;
                endless.push(scenario);
                continue;
            };
            let log = self.client.log(&attempt, "normalized").await?;
            let reported =
                of_kind(&log, "error_message").last().map_or(Value::Null, |&it| it.clone());
            let has_failed = status["state"] == "failed";
            if has_failed && reported["error_type"] == kind {
                continue;
            }
            // Some say nothing at all when their model refuses: then the turn has failed
            // all the same, and its status says that the agent gave no reason.
            let said = [text(&reported["text"]), text(&status["failure_summary"])];
            let is_silent = |it: &&str| it.contains("the agent ended its turn without");
            if has_failed && said.iter().any(is_silent) {
                unreported.push(scenario);
            } else {
                wrong.push(format!("{scenario}: {} with {reported}", status["state"]));
            }
        }
        if !wrong.is_empty() {
            return Err(wrong.join("; ").into());
        }
        let said = [(unreported, "not told"), (endless, "tried again without end")];
        let said = said.iter().filter(|(scenarios, _)| !scenarios.is_empty());
        let said: Vec<String> =
            said.map(|(scenarios, how)| format!("{} {how}", scenarios.join(", "))).collect();
        Ok(said.join("; "))
    }

    /// The CLI reaches this daemon, as the worker of its attempt.
    async fn worker_tools(&mut self) -> Result<String> {
        let attempt = self.begin("Where are you? Call get_context. [[context]]").await?;
        let status = self.completed(&attempt).await?;
        let said = text(&status["final_message"]);
        let is_reached = said.starts_with("I was told") && said.contains(&attempt);
        if is_reached { Ok(String::new()) } else { Err(format!("it said: {said}").into()) }
    }

    /// The daemon's death in the middle of a turn loses and repeats nothing.
    async fn restart(&mut self) -> Result<String> {
        let attempt = self.begin("Take your time. [[slow:15]]").await?;
        self.writes(&attempt, "word3").await?;
        self.lab.kill_daemon()?;
        // The CLI goes on meanwhile.
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.lab.start_daemon()?;
        let status = self.completed(&attempt).await?;
        // Four words a second.
        let words: Vec<String> = (1..=60).map(|number| format!("word{number}")).collect();
        let said = text(&status["final_message"]);
        if !said.split_whitespace().eq(&words) {
            return Err(format!("its last words were: {said}").into());
        }

        let log = self.client.log(&attempt, "normalized").await?;
        let indexes = log.iter().map(|entry| entry["entry_index"].as_u64());
        if !indexes.eq((0..).map(Some).take(log.len())) {
            return Err("entries are missing or doubled".into());
        }
        let messages = of_kind(&log, "assistant_message");
        let said = messages.iter().flat_map(|entry| text(&entry["text"]).split_whitespace());
        if !said.eq(&words) {
            return Err(format!("its messages are: {messages:?}").into());
        }
        self.recalls(&attempt, "[[slow:15]]").await?;
        Ok(String::new())
    }

    pub async fn begin(&mut self, prompt: &str) -> Result<String> {
        let attempt = self.client.start(prompt, None).await?;
        self.attempts.push(attempt.clone());
        Ok(attempt)
    }

    /// Waits until an attempt has completed.
    pub async fn completed(&self, attempt: &str) -> Result<Value> {
        let status = self.client.settled(attempt).await?;
        match status["state"].as_str() {
            Some("completed") => Ok(status),
            _ => Err(format!("{}: {}", status["state"], status["failure_summary"]).into()),
        }
    }

    /// Asks what was asked before: `first` alone.
    async fn recalls(&self, attempt: &str, first: &str) -> Result<()> {
        let send =
            json!({"attempt_id": attempt, "action": "send", "prompt": "And now? [[recall]]"});
        self.client.call("follow_up", send).await?;
        let status = self.completed(attempt).await?;
        let said = text(&status["final_message"]);
        if is_recalled(said, first) {
            return Ok(());
        }
        Err(format!("the follow-up says: {said}").into())
    }

    /// Waits until the executor has written something.
    async fn writes(&self, attempt: &str, wanted: &str) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let log = self.client.log(attempt, "raw").await?;
            if log.iter().any(|entry| text(&entry["text"]).contains(wanted)) {
                return Ok(());
            }
            let status = json!({"attempt_id": attempt});
            let status = self.client.call("get_attempt_status", status).await?;
            if status["phase"] == "settled" || Instant::now() > deadline {
                let summary = &status["failure_summary"];
                return Err(format!("it never wrote {wanted}: {summary}").into());
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Stops what may run on, so that it is in nobody's way.
    async fn give_up(&self) {
        for attempt in &self.attempts {
            let _ = self
                .client
                .call("stop_attempt", json!({"attempt_id": attempt, "force": true}))
                .await;
        }
    }

    /// For whoever wants to know why it failed: the end of each log.
    async fn seen(&self) -> String {
        let mut seen = Vec::new();
        for attempt in &self.attempts {
            for channel in ["raw", "normalized"] {
                seen.push(format!("--- {channel} log of {attempt}"));
                let log = self.client.log(attempt, channel).await.unwrap_or_default();
                let last = log.iter().skip(log.len().saturating_sub(12));
                seen.extend(last.map(|entry| entry.to_string().chars().take(600).collect()));
            }
        }
        seen.push("--- the daemon's".to_owned());
        seen.push(self.lab.daemon_said());
        seen.join("\n")
    }
}

/// Whether the model says that it was asked this before.
fn is_recalled(said: &str, first: &str) -> bool {
    let some = said.starts_with("I remember: ") && !said.starts_with("I remember: 0 ");
    some && said.contains(first)
}

fn no_list() -> Result<String> {
    Err("list_inbox lists nothing".into())
}

fn expect(what: &str, found: &Value, expected: &Value) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found} instead of {expected}").into())
}

fn of_kind<'a>(log: &'a [Value], kind: &str) -> Vec<&'a Value> {
    log.iter().filter(|entry| entry["kind"] == kind).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
