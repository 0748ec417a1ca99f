//! Tasks from a file, put on a board: all of them, or none.

use provost_actors::ids::ProjectId;
use provost_actors::payload;
use provost_actors::refusal::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Domain, blocking};
use crate::api::Key;
use crate::work::import::{Format, read};

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
        let planned = blocking(move || read(&text, format)).await??;
        // The same file for the same project is the same call.
        let (tool, request_id) = ("import_tasks", hash.clone());
        let key = Key { tool, request_id, payload_hash: hash, resolved_hash: None };
        let key = (!again).then_some(key);
        let made = self.store.import_tasks(key.as_ref(), project_id, &planned).await?;
        Ok(json!({"tasks": made.value, "imported_before": made.deduplicated}))
    }
}
