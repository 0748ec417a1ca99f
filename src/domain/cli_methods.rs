//! The methods that the command line calls beside the tools: what a person needs and an
//! agent does not.

use async_trait::async_trait;
use std::sync::Arc;

use provost_actors::checks;
use provost_actors::gateway::{GatewayMessage, check_executor, is_able};
use provost_actors::ids::AttemptId;
use provost_actors::journal::payload_hash;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Domain, blocking};
use crate::api::commands::{
    AttemptLine, Attempts, AttemptsParams, CheckExecutorParams, Empty, ImportParams, ImportedTasks,
    Info, ResolveParams, Resolved, Shutdown, ShutdownParams, Survivor,
};
use crate::api::{
    Audit, Caller, CliMethods, Code, CustomError, HostCall, Key, OtherHosts, Refusal, inside,
};
use crate::work::import;

/// The methods that change nothing, and leave no line in the audit log.
const READS: [&str; 18] = [
    "provost/base",
    "provost/blob",
    "provost/comments",
    "provost/processes",
    "provost/next_log_page",
    "provost/resolve",
    "provost/attempts",
    "provost/check_log",
    "provost/info",
    "provost/conflicts",
    "provost/doctor",
    "provost/environment",
    "provost/hosts",
    "provost/started_as",
    "provost/plans",
    "provost/remotes",
    "provost/repo_settings",
    "provost/users",
];

#[async_trait]
impl CliMethods for Domain {
    async fn call_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        if caller.place.is_inside() && method != "provost/info" {
            return Err(fault(inside::refused(caller, method)));
        }
        if !caller.is_person {
            return Err(CustomError::method_not_found(method));
        }
        let none = Map::new();
        let arguments = params.as_ref().and_then(Value::as_object).unwrap_or(&none);
        if let Some(host) = self.elsewhere(method, arguments).await.map_err(fault)? {
            let (tool, caller, arguments) = (method.to_owned(), caller.clone(), arguments.clone());
            let call = HostCall { tool, caller, arguments, id: None };
            let answer = self.carry(&host, call).await.map_err(fault)?;
            return Ok(answer.value);
        }
        self.audited_method(caller, method, params).await
    }
}

impl Domain {
    /// Runs a method that the caller may call; a change leaves a line in the audit log.
    pub(super) async fn audited_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        if READS.contains(&method) {
            return Box::pin(self.run_method(caller, method, params)).await;
        }
        let none = Map::new();
        let arguments = params.as_ref().and_then(Value::as_object).unwrap_or(&none);
        let change = self.begin_change(caller, method, arguments);
        let done = Box::pin(self.run_method(caller, method, params)).await;
        let refused = done.as_ref().err().map(|error| {
            error.data.as_ref().and_then(|data| data["code"].as_str()).unwrap_or("invalid_argument")
        });
        self.end_change(change, refused);
        done
    }

    async fn run_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        let params = params.unwrap_or_else(|| json!({}));
        match method {
            "provost/resolve" => answer(self.resolve(read(params)?).await),
            "provost/attempts" => answer(self.all_attempts(read(params)?).await),
            "provost/check_executor" => answer(self.check_executor(read(params)?).await),
            "provost/check_log" => answer(self.check_log(read(params)?).await),
            "provost/info" => answer(self.info().await),
            "provost/next_log_page" => answer(self.next_log_page(read(params)?).await),
            "provost/comments" => answer(self.comments_by(read(params)?).await),
            "provost/conflicts" => answer(self.conflicts(read(params)?).await),
            "provost/doctor" => answer(self.findings().await),
            "provost/environment" => answer(self.environment(read(params)?).await),
            "provost/by_hand" => answer(self.by_hand(read(params)?).await),
            "provost/ended_by_hand" => answer(self.ended_by_hand(read(params)?).await),
            "provost/started_as" => answer(self.started_as(read(params)?).await),
            "provost/remove_project" => answer(self.remove_project(caller, read(params)?).await),
            "provost/hosts" => answer(self.list_hosts().await),
            "provost/change_host" => answer(self.change_host(read(params)?).await),
            "provost/gc" => answer(self.gc(read(params)?).await),
            "provost/gc_kept" => answer(self.gc_kept(read(params)?).await),
            "provost/empty_cache" => answer(self.empty_cache(read(params)?).await),
            "provost/empty_trash" => answer(self.empty_trash(read(params)?).await),
            "provost/import_tasks" => answer(self.import(read(params)?).await),
            "provost/add_plan" => answer(self.add_plan(read(params)?).await),
            "provost/base" => answer(self.find_base(read(params)?).await),
            "provost/blob" => answer(self.carried_blob(read(params)?).await),
            "provost/processes" => answer(self.processes_of(read(params)?).await),
            "provost/preview" => answer(self.preview(read(params)?).await),
            "provost/remove_plan" => answer(self.remove_plan(read(params)?).await),
            "provost/plans" => answer(self.list_plans(read(params)?).await),
            "provost/discard" => answer(self.discard(read(params)?).await),
            "provost/remotes" => answer(self.remotes(read(params)?).await),
            "provost/set_target_branch" => answer(self.set_target_branch(read(params)?).await),
            "provost/repo_settings" => answer(self.repo_settings(read(params)?).await),
            "provost/trust" => answer(self.trust(read(params)?).await),
            "provost/open" => answer(self.open(read(params)?).await),
            "provost/users" => answer(self.list_users().await),
            "provost/give_token" => answer(self.give_token(read(params)?).await),
            "provost/revoke_user" => answer(self.revoke_user(read(params)?).await),
            "provost/shutdown" => answer(self.shutdown(read(params)?).await),
            _ => Err(CustomError::method_not_found(method)),
        }
    }
}

impl Domain {
    async fn resolve(&self, params: ResolveParams) -> Result<Resolved, Refusal> {
        Ok(Resolved { matches: self.store.resolve(&params.id, &params.kinds).await? })
    }

    async fn all_attempts(&self, params: AttemptsParams) -> Result<Attempts, Refusal> {
        let attempts = self.store.overview(params.all).await?;
        let ids: Vec<AttemptId> = attempts.iter().map(|it| it.line.attempt_id).collect();
        let mut worktrees = self.worktrees(&ids).await?;
        let attempts = attempts
            .into_iter()
            .map(|it| AttemptLine { worktree: worktrees.remove(&it.line.attempt_id), ..it.line });
        let attempts = attempts.collect();
        let (total, hosts) = (self.store.count_attempts().await?, self.store.count_hosts().await?);
        Ok(Attempts { attempts, total, hosts })
    }

    /// Whether an attempt could start with this executor, before anything is made for it.
    async fn check_executor(&self, params: CheckExecutorParams) -> Result<Empty, Refusal> {
        let executors = Arc::clone(&self.world.executors);
        let CheckExecutorParams { executor, variant } = params;
        // Where another host has what is asked for, that one judges.
        if is_able(&self.world, &executor).await? {
            let check = move || check_executor(&*executors, &executor, variant.as_deref());
            blocking(check).await??;
        }
        Ok(Empty {})
    }

    /// Puts the tasks of a file on a board: all of them, or none.
    async fn import(&self, params: ImportParams) -> Result<ImportedTasks, Refusal> {
        let ImportParams { project_id, text, format, again } = params;
        let file = json!([project_id, text]);
        let planned = blocking(move || import::read(&text, format)).await??;
        // The same file for the same project is the same call.
        let key = (!again).then(|| Key::new("import_tasks", payload_hash(&file), &file));
        let made = self.store.import_tasks(key.as_ref(), project_id, &planned).await?;
        Ok(ImportedTasks { tasks: made.value, imported_before: made.deduplicated })
    }

    async fn info(&self) -> Result<Info, Refusal> {
        let (running, queued) = ractor::call!(self.gateway, GatewayMessage::Counts)
            .map_err(|error| Refusal::internal(error.to_string()))?;
        let (page, no_page) = match self.face.get().cloned() {
            Some(Ok(url)) => (Some(url), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, Some("it is not ready yet".to_owned())),
        };
        Ok(Info {
            page,
            no_page,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            home: self.data_dir.clone(),
            engine: Some(self.store.engine().to_owned()),
            path: std::env::var_os("PATH").map(|path| path.to_string_lossy().into_owned()),
            running,
            queued,
        })
    }

    /// Ends the daemon; with `stop_all` only after every attempt and every check has ended.
    async fn shutdown(&self, params: ShutdownParams) -> Result<Shutdown, Refusal> {
        let mut done = Shutdown { alive: Vec::new(), unrecorded: Vec::new() };
        if params.stop_all {
            done = self.stop_all().await?;
        }
        // A daemon that could not stop an attempt goes on: it still owns it.
        if done.alive.is_empty() {
            self.ending.cancel();
        } else {
            let _ = self.gateway.send_message(GatewayMessage::GoOn);
            let _ = self.checks.send_message(checks::ChecksMessage::GoOn);
        }
        Ok(done)
    }

    async fn stop_all(&self) -> Result<Shutdown, Refusal> {
        let attempts = async { ractor::call!(self.gateway, GatewayMessage::StopAll) };
        let checks = async { ractor::call!(self.checks, checks::ChecksMessage::StopAll) };
        let (attempts, checks) = tokio::join!(attempts, checks);
        let lost = |error: String| Refusal::internal(format!("not stopped: {error}"));
        let attempts = attempts.map_err(|error| lost(error.to_string()))?;
        let checks = checks.map_err(|error| lost(error.to_string()))?;
        let alive = attempts.alive.into_iter().map(|(attempt, reason)| (Some(attempt), reason));
        let alive = alive.chain(checks.into_iter().map(|reason| (None, reason)));
        let alive = alive.map(|(attempt_id, reason)| Survivor { attempt_id, reason }).collect();
        Ok(Shutdown { alive, unrecorded: attempts.unrecorded })
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, CustomError> {
    serde_json::from_value(params).map_err(|error| CustomError {
        code: INVALID_PARAMS,
        message: error.to_string(),
        data: None,
    })
}

fn answer<T: Serialize>(answer: Result<T, Refusal>) -> Result<Value, CustomError> {
    answer.map(|answer| json!(answer)).map_err(fault)
}

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
