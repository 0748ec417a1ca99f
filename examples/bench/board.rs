//! The worker API in a project of 10,000 tasks and a plan of 5,000 sections, and a task that is
//! made: each beside its statements alone, on a copy of the database.

use std::time::Instant;

use serde_json::{Value, json};

use crate::board_data;
use crate::board_floor::Floor;
use crate::line_client::{LineClient, PreparedCall};
use crate::scratch::Scratch;
use crate::table::{Budget, Row, Unit, median, millis};
use crate::{Result, Size};

/// Of a kind in a round.
const CALLS: usize = 20;
/// Ours to the floor's; a call is allowed on top.
const MOST: f64 = 2.0;

/// No worker is slowed down, and the board is that of one project.
const CONFIG: &str = "[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 0\n";

pub async fn measure(size: Size) -> Result<Vec<Row>> {
    let (tasks, documents) = size.choose((10_000, 5), (200, 1));
    let scratch = filled(tasks)?;
    let plan = scratch.repo().join("plan");
    std::fs::create_dir(&plan)?;
    for (number, document) in board_data::documents(documents).iter().enumerate() {
        std::fs::write(plan.join(format!("part-{number}.md")), document)?;
    }
    let plan = plan.display().to_string();
    scratch.verb(&["plan", "add", &plan, "--name", "plan", "--version", "1"])?;

    let mut floor = Floor::on_a_copy(&scratch.home()).await?;
    let mut board = Board { client: LineClient::start(scratch.bridge())?, next: Value::Null };
    let project = json!(floor.project);
    let made = json!({"project_id": project, "title": "Something that is to be made"});
    let list = PreparedCall::new("list_projects", &json!({}));
    let next = PreparedCall::new("getNextTask", &json!({}));
    let mut rounds: [Vec<[f64; 2]>; 7] = Default::default();
    for round in 0..size.rounds(7) {
        let mut ours: [Vec<f64>; 7] = Default::default();
        let mut bare: [Vec<f64>; 7] = Default::default();
        // By themselves: after a call that reads the whole board, no cache of the processor has
        // anything of a small one.
        for _ in 0..size.choose(CALLS, 2) {
            let time = board.tool("create_task", &made)?;
            ours[1].push(time);
            ours[2].push(time);
            bare[1].push(millis(floor.one_row().await?));
            bare[2].push(millis(floor.task().await?));
        }
        for call in 0..size.choose(CALLS, 2) {
            let number = round * CALLS + call;
            board.tool("create_task", &made)?;
            ours[0].push(board.time(&list)?);
            // After a commit: nothing that was read before still holds.
            ours[3].push(board.time(&next)?);
            bare[3].push(millis(floor.next_task().await?));
            let topic = board_data::topic(number);
            ours[4].push(board.tool("askQuestion", &board_data::question(topic))?);
            bare[4].push(millis(floor.search(topic).await?));
            ours[5].push(board.done()?);
            bare[5].push(millis(floor.task_done().await?));
            ours[6].push(board.tool("reportObservation", &board_data::observation(number))?);
            bare[6].push(millis(floor.observation(number).await?));
        }
        for ((ours, bare), rounds) in ours.into_iter().zip(bare).zip(&mut rounds) {
            rounds.push([median(ours), median(bare)]);
        }
    }
    let call = median(rounds[0].iter().map(|[ours, _]| *ours).collect());
    let rows = [
        ("create_task", "one committed row", 0.0),
        ("create_task", "its SQL", call),
        ("getNextTask, 10,000 tasks", "its SQL", call),
        ("askQuestion, 5,000 sections", "its search", call),
        ("reportTaskDone, 10,000 tasks", "its SQL", call),
        ("reportObservation, 10,000 tasks", "its SQL", call),
    ];
    let rows = rows.iter().zip(&rounds[1..]).map(|((path, beside, call), rounds)| {
        let budget = match *call {
            0.0 => Budget::RatioAtMost(MOST),
            call => Budget::RatioWithCall(MOST, call),
        };
        Row::beside(path, beside, Unit::Milliseconds, rounds, budget)
    });
    Ok(rows.collect())
}

/// A project with so many tasks.
pub fn filled(tasks: usize) -> Result<Scratch> {
    let scratch = Scratch::make_with(1, &["say", "1"], CONFIG)?;
    scratch.verb(&["init"])?;
    let file = scratch.repo().join("tasks.json");
    std::fs::write(&file, board_data::tasks(tasks).to_string())?;
    scratch.verb(&["task", "import", &file.display().to_string()])?;
    Ok(scratch)
}

struct Board {
    client: LineClient,
    /// The task that is reported next.
    next: Value,
}

impl Board {
    /// How many milliseconds a call takes.
    fn time(&mut self, call: &PreparedCall) -> Result<f64> {
        Ok(self.client.one_by_one(call, 1)?.into_iter().map(millis).sum())
    }

    /// The same of one that must work.
    fn tool(&mut self, tool: &str, arguments: &Value) -> Result<f64> {
        Ok(self.answered(tool, arguments)?.0)
    }

    fn answered(&mut self, tool: &str, arguments: &Value) -> Result<(f64, Value)> {
        let begun = Instant::now();
        let answer = self.client.call(tool, arguments)?;
        Ok((millis(begun.elapsed()), answer))
    }

    fn done(&mut self) -> Result<f64> {
        if self.next.is_null() {
            self.next = self.client.call("getNextTask", &json!({}))?["task"]["taskId"].take();
        }
        let (time, mut answer) = self.answered("reportTaskDone", &board_data::done(&self.next))?;
        self.next = answer["nextTaskId"].take();
        Ok(time)
    }
}
