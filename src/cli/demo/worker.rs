//! A worker of the demo: an executor that claims tasks by the worker API, writes a file for
//! each, asks what it has to find out, and reports. A worker whose prompt says so lies
//! about its first file: it reports a test that it has not made.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use provost_actors::workspace::git;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::board::ASK;
use crate::cli::context::text;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::client::{Client, ClientError, Connection, Hello, Peer};
use crate::home::Home;
use crate::role::Role;

/// The line of a prompt that makes a worker lie.
pub const LIE: &str = "lie";

/// Between two looks at a board on which every task is claimed.
const PAUSE: Duration = Duration::from_millis(300);
/// The lowest confidence of an answer that a worker accepts.
const SURE: f64 = 0.7;

struct Worker {
    client: Client,
    out: Output,
    lies: bool,
}

/// Works until no task is left on the board.
pub async fn play(out: Output) -> Result<Exit, Failure> {
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt)?;
    let hello = Hello::of_process(Peer::Bridge, Some(Role::Worker));
    let connection = Connection::open(Home::from_environment()?.socket(), &hello).await?;
    let lies = prompt.lines().any(|line| line == LIE);
    let mut worker = Worker { client: Client::new(connection), out, lies };
    while let Some(task) = worker.next().await? {
        if text(&task, "taskId").starts_with("TASK-VERIFY") {
            worker.verify(&task).await?;
        } else {
            worker.work(&task).await?;
        }
    }
    worker.say("nothing is left to do")?;
    Ok(Exit::Done)
}

impl Worker {
    /// Claims the next task; `None` when all are done.
    async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            let mut next = self.call("getNextTask", json!({"claim": true})).await?;
            if !next["task"].is_null() {
                return Ok(Some(next["task"].take()));
            }
            let all = self.call("getNextTask", json!({"filter": "all"})).await?;
            if all["queueLength"] == 0 {
                return Ok(None);
            }
            sleep(PAUSE).await;
        }
    }

    async fn work(&mut self, task: &Value) -> Result<(), Failure> {
        let (id, title) = (text(task, "taskId"), text(task, "title"));
        self.say(&format!("{id} {title}"))?;
        let brief = &task["superDetailedPrompt"];
        let mut found = String::new();
        for requirement in strings(&brief["requirements"]) {
            if let Some(question) = requirement.strip_prefix(ASK) {
                found = self.find_out(id, question).await?;
            }
        }
        let files = strings(&brief["files"]["writeTo"]);
        for file in &files {
            let tested = if std::mem::take(&mut self.lies) { "" } else { "tested\n" };
            write(file, &format!("{title}\n{found}\n{tested}"))?;
        }
        commit(title).await?;
        let criteria = strings(&brief["acceptanceCriteria"]);
        let criteria = criteria.iter().enumerate().map(|(number, criterion)| {
            (number.to_string(), json!({"text": criterion, "status": "passed"}))
        });
        let report = json!({
            "taskId": id,
            "status": "done",
            "implementationNotes": format!("{title}: written down"),
            "filesModified": files,
            "testing": {"testsAdded": false, "testsPassed": true, "testsFailed": 0},
            "acceptanceCriteriaVerification": criteria.collect::<serde_json::Map<_, _>>(),
        });
        let answer = self.call("reportTaskDone", report).await?;
        self.say(&format!("{id} {}", text(&answer, "message")))
    }

    /// Asks the plan, and then a person.
    async fn find_out(&mut self, task: &str, question: &str) -> Result<String, Failure> {
        self.say(&format!("asks: {question}"))?;
        let asked = json!({"question": question, "currentTaskId": task});
        let answer = self.call("askQuestion", asked).await?;
        if answer["confidence"].as_f64().is_some_and(|confidence| confidence >= SURE) {
            let quote = text(&answer["evidence"], "exactQuote").to_owned();
            let section = text(&answer["evidence"], "section");
            self.say(&format!("the plan says, under {section}: {quote}"))?;
            return Ok(quote);
        }
        self.say("the plan does not say; waiting for a person")?;
        let waits = json!({"query": question, "max_wait_seconds": 120});
        let answer = self.call("getImmediateAnswer", waits).await?;
        let answer = text(&answer, "answer").to_owned();
        self.say(&format!("the answer: {answer}"))?;
        Ok(answer)
    }

    async fn verify(&mut self, task: &Value) -> Result<(), Failure> {
        let id = text(task, "taskId");
        let dependencies = strings(&task["dependencies"]);
        let original = dependencies.first().copied().unwrap_or_default();
        let report = json!({
            "verificationTaskId": id,
            "originalTaskId": original,
            "verificationStatus": "passed",
            "verification": {
                "checklist": [{"item": "its file is there and was tested", "status": "passed"}],
                "summary": "as specified",
            },
            "originalTaskStatus": "done",
        });
        self.call("reportVerificationResult", report).await?;
        self.say(&format!("{id} {original} is as specified"))
    }

    /// Calls a tool, and again when the rate limit allows it.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Failure> {
        loop {
            match self.client.tool(tool, arguments.clone()).await {
                Err(ClientError::Refused(envelope))
                    if envelope.json["error"]["code"] == "RATE_LIMIT" =>
                {
                    let seconds = envelope.json["error"]["retry_after_seconds"].as_u64();
                    sleep(Duration::from_secs(seconds.unwrap_or(1))).await;
                }
                answer => return Ok(answer?),
            }
        }
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.out.line(line)?;
        Ok(self.out.flush()?)
    }
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn write(file: &str, content: &str) -> Result<(), Failure> {
    if let Some(folder) = Path::new(file).parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(file, content)?)
}

async fn commit(title: &str) -> Result<(), Failure> {
    let here = std::env::current_dir()?;
    for args in [&["add", "."][..], &["commit", "--quiet", "--allow-empty", "--message", title]] {
        let done = git::run(&here, args).await;
        done.map_err(|error| Failure::Fault(format!("git: {error}")))?;
    }
    Ok(())
}
