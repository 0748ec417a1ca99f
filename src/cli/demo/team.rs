//! `--team`: a plan, eight tasks with dependencies, and three workers that claim them. The
//! plan answers one question and a person answers another; one report is a lie, and the
//! check finds out.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::board::{OF_A_PERSON, OF_THE_PLAN, PERSON_SAYS, PLAN_FILE, PLAN_NAME, PLAN_SAYS, TASKS};
use super::worker::LIE;
use super::{Demo, check, list};
use crate::cli::context::text;
use crate::cli::exit::Failure;
use crate::cli::output::{headline, short};

/// The workers, the task that each begins with, and its prompt.
const WORKERS: [(&str, usize, &str); 3] = [
    ("Ada", 0, "Do what is on the board."),
    ("Ben", 1, LIE),
    ("Cyd", 2, "Do what is on the board."),
];
/// Between two looks at the workers.
const PAUSE: Duration = Duration::from_millis(100);

struct Worker {
    name: &'static str,
    attempt: String,
    /// The index of the last log entry shown.
    shown: i64,
}

impl Demo {
    pub(super) async fn team(&mut self) -> Result<Value, Failure> {
        self.scratch.prepare_for_a_team().await?;
        self.begin().await?;
        self.chapter("1. A plan, and eight tasks with dependencies")?;
        let tasks = self.fill_the_board().await?;
        self.chapter("2. Three workers claim them")?;
        let mut workers = self.start_workers(&tasks).await?;
        let asked = self.watch(&mut workers).await?;
        self.chapter("3. The board at the end")?;
        let summary = self.prove(&tasks, &asked, &workers[1]).await?;
        self.end(4).await?;
        Ok(summary)
    }

    /// Adds the plan and creates the tasks; returns their ids.
    async fn fill_the_board(&mut self) -> Result<Vec<String>, Failure> {
        let file = json!({"source": PLAN_FILE, "path": self.scratch.repo().join(PLAN_FILE)});
        let plan = json!({
            "project_id": self.project, "name": PLAN_NAME, "version": "1.0.0",
            "files": [file],
        });
        self.context.client().await?.method("provost/add_plan", plan).await?;
        self.claim(&format!("the plan {PLAN_NAME} is indexed"))?;
        let mut ids: Map<String, Value> = Map::new();
        let mut tasks = Vec::new();
        for task in &TASKS {
            let after: Vec<&Value> = task.after.iter().map(|name| &ids[*name]).collect();
            let new = json!({
                "project_id": self.project, "title": task.title, "priority": task.priority,
                "depends_on": after, "brief": task.brief(),
            });
            let made = self.context.tool("create_task", new).await?;
            ids.insert(task.name.to_owned(), made["task_id"].clone());
            tasks.push(text(&made, "task_id").to_owned());
            let after = match task.after {
                [] => String::new(),
                names => format!(", after {}", names.join(" and ")),
            };
            self.say(&format!("  {:8} {}{after}", task.priority, task.title))?;
        }
        Ok(tasks)
    }

    async fn start_workers(&mut self, tasks: &[String]) -> Result<Vec<Worker>, Failure> {
        let mut workers = Vec::new();
        for (name, task, prompt) in WORKERS {
            let start = json!({"task_id": tasks[task], "executor": "worker", "prompt": prompt});
            let started = self.context.tool("start_task_attempt", start).await?;
            let attempt = text(&started, "attempt_id").to_owned();
            self.claim(&format!("{name} started, attempt {}", short(&attempt)))?;
            workers.push(Worker { name, attempt, shown: -1 });
        }
        Ok(workers)
    }

    /// Shows what the workers say until all have settled, and answers a person's questions,
    /// which it returns.
    async fn watch(&mut self, workers: &mut [Worker]) -> Result<Vec<Value>, Failure> {
        let mut asked = Vec::new();
        loop {
            let ids: Vec<&String> = workers.iter().map(|worker| &worker.attempt).collect();
            let states =
                self.context.tool("get_attempt_status", json!({"attempt_ids": ids})).await?;
            for worker in &mut *workers {
                self.show(worker).await?;
            }
            asked.extend(self.answer().await?);
            let is_settled = |attempt: &Value| text(attempt, "phase") == "settled";
            if list(&states, "attempts").iter().all(is_settled) {
                return Ok(asked);
            }
            sleep(PAUSE).await;
        }
    }

    async fn show(&mut self, worker: &mut Worker) -> Result<(), Failure> {
        let news = json!({"attempt_id": worker.attempt, "after_entry_index": worker.shown});
        let page = self.context.read("tail_attempt_logs", &news).await?;
        for entry in list(&page, "entries") {
            worker.shown = entry["entry_index"].as_i64().unwrap_or(worker.shown);
            if text(entry, "kind") == "assistant_message" {
                let said = headline(text(entry, "text"), 200);
                self.say(&format!("{:8} {said}", worker.name))?;
            }
        }
        Ok(())
    }

    /// Answers the questions that wait for a person.
    async fn answer(&mut self) -> Result<Vec<Value>, Failure> {
        let waiting = json!({"project_id": self.project});
        let listed = self.context.read("list_questions", &waiting).await?;
        let questions = list(&listed, "questions").to_vec();
        for question in &questions {
            check(text(question, "question") == OF_A_PERSON, "only that question is a person's")?;
            let answer = json!({
                "question_id": question["question_id"], "project_id": self.project,
                "answer": PERSON_SAYS,
            });
            self.context.tool("answer_question", answer).await?;
            self.say(&format!("{:8} {PERSON_SAYS}", "person"))?;
        }
        Ok(questions)
    }

    async fn prove(
        &mut self,
        tasks: &[String],
        asked: &[Value],
        liar: &Worker,
    ) -> Result<Value, Failure> {
        let all = json!({"project_id": self.project, "limit": 100});
        let listed = self.context.read("list_tasks", &all).await?;
        let listed = list(&listed, "tasks");
        check(listed.len() >= 2 * tasks.len(), "each task had one to verify it")?;
        let fields = ["handle", "status", "standing", "title"];
        let row = |task: &Value| fields.map(|field| text(task, field).to_owned()).to_vec();
        let rows: Vec<Vec<String>> = listed.iter().rev().map(row).collect();
        self.context.out.table(&["TASK", "STATUS", "STANDING", "TITLE"], &rows)?;
        check(listed.iter().all(|task| text(task, "status") == "done"), "every task is done")?;
        self.claim("every task is done: the eight, and those that verified them")?;

        let mut receipts = 0;
        for task in tasks {
            let task = self.context.read("get_task", &json!({"task_id": task})).await?;
            let passed = list(&task["task"], "receipts");
            check(!passed.is_empty(), "each has a receipt")?;
            let is_passed =
                |receipt: &Value| text(receipt, "outcome") == "passed" && receipt["exit_code"] == 0;
            check(passed.iter().all(is_passed), "each receipt tells that its check passed")?;
            receipts += passed.len();
        }
        self.claim("each of the eight has the receipt of a check that passed")?;
        let lie = self.lie_found_out(liar).await?;
        self.claim(&format!("one report was a lie, and the check found out: {lie}"))?;
        check(asked.len() == 1, "one question came to a person")?;
        self.claim(&format!("the plan answered: {OF_THE_PLAN}"))?;
        self.claim(&format!("a person answered: {OF_A_PERSON}"))?;
        self.found_in_the_work(PLAN_SAYS).await?;
        self.found_in_the_work(PERSON_SAYS).await?;
        self.claim("both answers are in the work")?;
        Ok(json!({
            "ok": true, "tasks": tasks.len(), "board": listed.len(), "receipts": receipts,
            "asked_of_a_person": asked.len(), "lie": lie,
        }))
    }

    /// What the liar's session says of its report.
    async fn lie_found_out(&mut self, liar: &Worker) -> Result<String, Failure> {
        let messages = json!({"attempt_id": liar.attempt, "limit": 100});
        let messages = self.context.read("tail_session_messages", &messages).await?;
        let prompts = list(&messages, "messages").iter();
        let prompts = prompts.filter(|message| text(message, "role") == "user");
        let mut lines = prompts.flat_map(|prompt| text(prompt, "text").lines());
        let line =
            lines.find(|line| line.to_lowercase().contains("report says")).unwrap_or_default();
        check(!line.is_empty(), "the liar was told what its report got wrong")?;
        Ok(line.to_owned())
    }

    /// Checks that the workers committed this text.
    async fn found_in_the_work(&mut self, sought: &str) -> Result<(), Failure> {
        let branches =
            self.scratch.git(&["for-each-ref", "--format=%(refname)", "refs/heads/provost/"]);
        let branches = branches.await?;
        for branch in branches.lines() {
            let found = ["grep", "--quiet", "--fixed-strings", sought, branch, "--", "work/"];
            if self.scratch.git(&found).await.is_ok() {
                return Ok(());
            }
        }
        check(false, "the answer is in the work")
    }
}
