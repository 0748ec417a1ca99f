//! Tasks that were planned together, put on the board together.

use provost_actors::journal::{Answer, Key, PlannedTask, TaskMade};
use provost_actors::refusal::{Code, Refusal};

use super::tasks::{self, Draft};
use super::{Store, commit, dependencies, projects, requests};

impl Store {
    pub(super) async fn insert_planned(
        &self,
        key: Option<&Key>,
        planned: &[PlannedTask],
    ) -> Result<Answer<Vec<TaskMade>>, Refusal> {
        let mut writing = self.writing_patiently().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let mut made = Vec::with_capacity(planned.len());
        for PlannedTask { task_id, name, task, .. } in planned {
            projects::require(&mut writing, task.project_id).await?;
            let draft = Draft::asked_for(task, &[]);
            let handle = tasks::insert_as(&mut writing, *task_id, &draft).await?;
            let (title, name) = (task.title.clone(), name.clone());
            made.push(TaskMade { task_id: *task_id, handle, title, name });
        }
        // Now all of them are there to depend on.
        for PlannedTask { task_id, place, task, .. } in planned {
            let on = dependencies::resolve(&mut writing, task.project_id, &task.depends_on).await;
            let on = on.map_err(|refusal| misplaced(place, refusal))?;
            dependencies::add(&mut writing, *task_id, &on).await?;
        }
        let answer = requests::keep(&mut writing, key, made).await?;
        commit(writing, "import_tasks").await?;
        Ok(answer)
    }
}

/// Says where in the file the fault is.
fn misplaced(place: &str, refusal: Refusal) -> Refusal {
    if refusal.code != Code::TaskNotFound {
        return refusal;
    }
    let message = format!("nothing is imported: {place}: {}", refusal.message);
    Refusal::new(Code::InvalidArgument, message)
        .hint("Mend what the message names in the file, then import it again.")
}
