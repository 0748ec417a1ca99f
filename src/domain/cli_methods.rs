//! The methods that the command line calls beside the tools: what a person needs and an
//! agent does not.

use async_trait::async_trait;
use std::sync::Arc;

use provost_actors::checks;
use provost_actors::gateway::{GatewayMessage, check_executor};
use provost_actors::ids::{AttemptId, TaskId};
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Domain, blocking};
use crate::api::attempts::Worktree;
use crate::api::{CliMethods, CustomError, Session, inside};
use crate::store::{AttemptOverview, Kind};

#[derive(Deserialize)]
struct Resolve {
    id: String,
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Attempts {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
struct CheckExecutor {
    executor: String,
    variant: Option<String>,
}

#[derive(Deserialize)]
struct CheckLog {
    task_id: TaskId,
    name: String,
}

#[derive(Deserialize)]
struct Shutdown {
    #[serde(default)]
    stop_all: bool,
}

#[async_trait]
impl CliMethods for Domain {
    async fn call_method(
        &self,
        session: &Session,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        if session.place.is_inside() && method != "provost/info" {
            return Err(fault(inside::refused(session, method)));
        }
        if !session.is_person {
            return Err(CustomError::method_not_found(method));
        }
        let params = params.unwrap_or_else(|| json!({}));
        match method {
            "provost/resolve" => {
                let Resolve { id, kinds } = read(params)?;
                let matches = self.store.resolve(&id, &kinds).await.map_err(fault)?;
                Ok(json!({ "matches": matches }))
            }
            "provost/attempts" => {
                let Attempts { all } = read(params)?;
                let attempts = self.store.overview(all).await.map_err(fault)?;
                let ids: Vec<AttemptId> = attempts.iter().map(|it| it.attempt_id).collect();
                let worktrees = self.worktrees(&ids).await.map_err(fault)?;
                let line = |it| line(it, worktrees.get(&it.attempt_id));
                let attempts: Vec<Value> = attempts.iter().map(line).collect();
                let total = self.store.count_attempts().await.map_err(fault)?;
                Ok(json!({ "attempts": attempts, "total": total }))
            }
            "provost/check_executor" => {
                self.check_executor(read(params)?).await.map_err(fault)?;
                Ok(json!({}))
            }
            "provost/check_log" => {
                let CheckLog { task_id, name } = read(params)?;
                let tail = self.check_log(task_id, &name).await.map_err(fault)?;
                Ok(json!({ "text": tail.text, "is_cut": tail.is_cut }))
            }
            "provost/info" => self.info().await,
            "provost/gc" => self.gc(read(params)?).await.map_err(fault),
            "provost/empty_trash" => self.empty_trash(read(params)?).await.map_err(fault),
            "provost/import_tasks" => self.import(read(params)?).await.map_err(fault),
            "provost/add_plan" => self.add_plan(read(params)?).await.map_err(fault),
            "provost/remove_plan" => self.remove_plan(read(params)?).await.map_err(fault),
            "provost/plans" => self.list_plans(read(params)?).await.map_err(fault),
            "provost/shutdown" => {
                let Shutdown { stop_all } = read(params)?;
                let (alive, unrecorded) =
                    if stop_all { self.stop_all().await? } else { (vec![], vec![]) };
                // A daemon that could not stop an attempt goes on: it still owns it.
                if alive.is_empty() {
                    self.ending.cancel();
                } else {
                    let _ = self.gateway.send_message(GatewayMessage::GoOn);
                    let _ = self.checks.send_message(checks::ChecksMessage::GoOn);
                }
                Ok(json!({ "alive": alive, "unrecorded": unrecorded }))
            }
            _ => Err(CustomError::method_not_found(method)),
        }
    }
}

impl Domain {
    /// Stops every attempt and every check; returns those that are still alive, and the
    /// attempts whose stop is not written down yet.
    async fn stop_all(&self) -> Result<(Vec<Value>, Vec<AttemptId>), CustomError> {
        let attempts = async { ractor::call!(self.gateway, GatewayMessage::StopAll) };
        let checks = async { ractor::call!(self.checks, checks::ChecksMessage::StopAll) };
        let (attempts, checks) = tokio::join!(attempts, checks);
        let lost = |error: String| fault(Refusal::internal(format!("not stopped: {error}")));
        let attempts = attempts.map_err(|error| lost(error.to_string()))?;
        let checks = checks.map_err(|error| lost(error.to_string()))?;
        let alive = attempts.alive.into_iter();
        let alive = alive.map(|it| json!({"attempt_id": it.attempt_id, "reason": it.reason}));
        let checks = checks.into_iter().map(|it| json!({"attempt_id": null, "reason": it}));
        Ok((alive.chain(checks).collect(), attempts.unrecorded))
    }

    /// Whether an attempt could start with this executor, before anything is made for it.
    async fn check_executor(&self, given: CheckExecutor) -> Result<(), Refusal> {
        let executors = Arc::clone(&self.world.executors);
        blocking(move || check_executor(&*executors, &given.executor, given.variant.as_deref()))
            .await?
    }

    async fn info(&self) -> Result<Value, CustomError> {
        let (running, queued) = ractor::call!(self.gateway, GatewayMessage::Counts)
            .map_err(|error| fault(Refusal::internal(error.to_string())))?;
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "home": self.data_dir,
            // Where it looks for executors' programs.
            "path": std::env::var_os("PATH").map(|path| path.to_string_lossy().into_owned()),
            "running": running,
            "queued": queued,
        }))
    }
}

fn line(attempt: &AttemptOverview, worktree: Option<&Worktree>) -> Value {
    json!({
        "attempt_id": attempt.attempt_id,
        "task_id": attempt.task_id,
        "task_title": attempt.task_title,
        "project_id": attempt.project_id,
        "project_name": attempt.project_name,
        "executor": attempt.executor,
        "variant": attempt.variant,
        "workspace_branch": attempt.workspace_branch,
        "worktree": worktree,
        "state": attempt.state,
        "phase": super::attempts::phase(attempt),
        "waiting_on": super::attempts::waiting_on(attempt),
        "created_at": attempt.created_at,
        "updated_at": attempt.updated_at,
    })
}

fn read<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, CustomError> {
    serde_json::from_value(params).map_err(|error| CustomError {
        code: INVALID_PARAMS,
        message: error.to_string(),
        data: None,
    })
}

/// JSON-RPC 2.0 §5.1.
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// From the range that JSON-RPC leaves to servers (JSON-RPC 2.0 §5.1).
const REFUSED: i32 = -32000;

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn fault(refusal: Refusal) -> CustomError {
    let code = match refusal.code {
        Code::Internal => INTERNAL_ERROR,
        Code::MissingRequired | Code::InvalidArgument | Code::UnknownField => INVALID_PARAMS,
        _ => REFUSED,
    };
    CustomError {
        code,
        message: refusal.message.clone(),
        data: serde_json::to_value(&refusal).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_ours_is_an_internal_error() {
        let number = |code| fault(Refusal::new(code, "no")).code;
        assert_eq!(number(Code::Internal), -32603);
        assert_eq!(number(Code::InvalidArgument), -32602);
        assert_eq!(number(Code::TaskNotFound), -32000);
        assert_eq!(number(Code::AttemptRunning), -32000);
    }
}
