//! Tasks from a file, put on a board: all of them, or none.

use provost_actors::ids::{ProjectId, TaskId, TaskRef};
use provost_actors::payload;
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Domain;
use crate::api::Key;
use crate::store::{NewTask, PlannedTask};
use crate::work::import::{Format, On, Planned, read};

/// What the key of an import is kept under.
const TOOL: &str = "import_tasks";

#[derive(Deserialize)]
pub struct Import {
    project_id: ProjectId,
    text: String,
    format: Format,
    /// Imports it even if it was imported before.
    #[serde(default)]
    again: bool,
}

impl Domain {
    pub(super) async fn import(&self, import: Import) -> Result<Value, Refusal> {
        let Import { project_id, text, format, again } = import;
        let hash = payload::hash(&json!([project_id, text]));
        let planned = tokio::task::spawn_blocking(move || read(&text, format)).await;
        let planned = planned.map_err(|error| Refusal::internal(error.to_string()))??;
        let tasks = with_ids(project_id, planned)?;
        // The same file for the same project is the same call.
        let key =
            Key { tool: TOOL, request_id: hash.clone(), payload_hash: hash, resolved_hash: None };
        let key = (!again).then_some(key);
        let made = self.store.import_tasks(key.as_ref(), &tasks).await?;
        Ok(json!({"tasks": made.value, "imported_before": made.deduplicated}))
    }
}

fn unknown(place: &str, name: &str) -> Refusal {
    let message = format!(
        "nothing is imported: {place}: it depends on {name:?}, which neither the file nor the board has"
    );
    Refusal::new(Code::InvalidArgument, message)
        .hint("Mend what the message names in the file, then import it again.")
}

/// Gives each task an id, by which the others can name it.
fn with_ids(project_id: ProjectId, planned: Vec<Planned>) -> Result<Vec<PlannedTask>, Refusal> {
    let ids: Vec<TaskId> = planned.iter().map(|_| TaskId::new()).collect();
    let named = |place: &str, on: On| match on {
        On::Planned(number) => Ok(TaskRef::Id(ids[number])),
        On::Board(name) => TaskRef::try_from(name.clone()).map_err(|_| unknown(place, &name)),
    };
    let tasks = planned.into_iter().zip(&ids).map(|(planned, task_id)| {
        let on = planned.depends_on.into_iter().map(|on| named(&planned.place, on));
        let depends_on = on.collect::<Result<_, _>>()?;
        let task = NewTask {
            project_id,
            title: planned.title,
            description: planned.description,
            priority: planned.priority,
            depends_on,
            brief: planned.brief.map(|brief| brief.to_json()),
        };
        Ok(PlannedTask { task_id: *task_id, name: planned.id, place: planned.place, task })
    });
    tasks.collect()
}
