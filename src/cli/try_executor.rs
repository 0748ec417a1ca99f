//! `provost executors --try`: one short turn of an executor in a repository made for it, and what its
//! agent offers to choose from. The repository, its project and the worktree are removed afterwards.

use std::collections::BTreeMap;
use std::fs;

use super::demo::begin_repository;
use super::logs::Reader;
use super::prelude::*;

const PROMPT: &str = "say hello";

/// Makes the repository and a project, runs the turn, and removes both however the turn ends. Exit code
/// 7 if the turn has failed.
pub async fn try_executor(context: &mut Context, executor: &str) -> Result<Exit, Failure> {
    context.call::<Empty>(json!({"executor": executor})).await?;
    let folder = tempfile::Builder::new().prefix("provost-try-").tempdir()?;
    fs::write(folder.path().join("README"), "Made to try an executor.\n")?;
    begin_repository(folder.path()).await?;
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let made = json!({"name": name, "repos": [{"path": folder.path()}]});
    let project = context.call::<CreateProjectOutput>(made).await?.project_id;
    let tried = turn(context, project, executor).await;
    let gone = json!({"project_id": project, "yes": true});
    let removed = context.call::<RemovedProject>(gone).await;
    // A failure of the trial is reported before one of the removal.
    let tried = tried?;
    if !removed?.removed {
        return Err(Failure::Fault(format!("project {name} is left: its worktrees were kept")));
    }
    Ok(tried)
}

/// Runs the turn and prints its log. Ctrl-C stops the attempt, so that the removal can go on.
async fn turn(context: &mut Context, project: ProjectId, executor: &str) -> Result<Exit, Failure> {
    let task = json!({"project_id": project, "title": PROMPT});
    let task = context.call::<CreateTaskOutput>(task).await?.task_id;
    let start = json!({"task_id": task, "executor": executor, "prompt": PROMPT});
    let attempt = context.call::<StartTaskAttemptOutput>(start).await?.attempt_id;
    let status = tokio::select! {
        status = async { Reader::new(attempt).follow(&mut *context).await } => Some(status?),
        _ = tokio::signal::ctrl_c() => None,
    };
    let Some(status) = status else {
        context.call::<StopAttemptOutput>(json!({"attempt_id": attempt, "force": true})).await?;
        return Err(Failure::Fault("interrupted".to_owned()));
    };
    let first = json!({"attempt_id": attempt, "channel": "raw", "after_entry_index": -1,
        "max_bytes": 1 << 20});
    let page = context.call::<LogPage>(first).await?;
    let lines = page.entries.iter().filter_map(|entry| entry["text"].as_str());
    if !context.out.json {
        context.out.line("")?;
        for (what, values) in offered(lines) {
            context.out.line(&format!("{what}: {}", harmless(&values.join(", "))))?;
        }
        let failure =
            status.failure_summary.iter().map(|why| format!("failure: {}", one_line(why)));
        failure.into_iter().try_for_each(|line| context.out.line(&line))?;
    }
    Ok(if status.state == AttemptState::Failed { Exit::AttemptFailed } else { Exit::Done })
}

/// What an agent offers in its ACP answers: the ids of modes, models, options and ways to sign in. Lines
/// of other protocols have nothing of it.
fn offered<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let mut add = |what: &str, list: &Value, id: &str| {
        let ids = list.as_array().into_iter().flatten().filter_map(|it| it[id].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        if !ids.is_empty() {
            all.insert(what.to_owned(), ids);
        }
    };
    for line in lines {
        let Ok(answer) = serde_json::from_str::<Value>(line) else { continue };
        let result = &answer["result"];
        add("modes", &result["modes"]["availableModes"], "id");
        add("models", &result["models"]["availableModels"], "modelId");
        add("signs in by", &result["authMethods"], "id");
        for option in result["configOptions"].as_array().into_iter().flatten() {
            let name = option["id"].as_str().unwrap_or_default();
            add(&format!("option {name}"), &option["options"], "value");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_offers_is_listed() {
        let lines = [
            "starting",
            r#"{"id":0,"result":{"authMethods":[{"id":"web"},{"id":"key"}]}}"#,
            r#"{"id":1,"result":{"modes":{"availableModes":[{"id":"ask"},{"id":"yolo"}]},
                "configOptions":[{"id":"effort","options":[{"value":"low"},{"value":"high"}]}]}}"#,
        ];
        let shown: Vec<_> = offered(lines.into_iter()).into_iter().collect();
        let expected =
            [("modes", "ask yolo"), ("option effort", "low high"), ("signs in by", "web key")];
        assert_eq!(shown.len(), expected.len());
        for ((what, values), (name, ids)) in shown.iter().zip(expected) {
            assert_eq!((what.as_str(), values.join(" ").as_str()), (name, ids));
        }
    }
}
