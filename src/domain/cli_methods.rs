//! The methods that the command line calls beside the tools: what a person needs and an agent does not.
//! The table `methods!` has each method's effect and where it runs; the macro makes the dispatch from it.

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
use crate::api::placed::{HOST, LOG, Placed, ROWS, SHELL, WORKTREES};
use crate::api::{
    Audit, Caller, CliMethods, Code, CustomError, ForwardedCall, Key, OtherHosts, Refusal, inside,
};
use crate::work::import;

/// A method that a person's programs call, and no agent.
struct Method {
    name: &'static str,
    effect: Effect,
    /// On which host it runs, where several share the board.
    placed: Placed,
}

/// What a method does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It leaves no line in the audit log.
    Reads,
    Changes,
}

macro_rules! methods {
    ($($name:literal, $effect:ident, $placed:path => |$domain:ident, $caller:pat_param, $params:pat_param| $run:expr;)*) => {
        const METHODS: &[Method] =
            &[$(Method { name: $name, effect: Effect::$effect, placed: $placed }),*];

        impl Domain {
            async fn run_method(
                &self,
                caller: &Caller,
                method: &str,
                params: Option<Value>,
            ) -> Result<Value, CustomError> {
                let params = params.unwrap_or_else(|| json!({}));
                match method {
                    $($name => {
                        let ($domain, $caller, $params) = (self, caller, params);
                        answer($run.await)
                    })*
                    _ => Err(CustomError::method_not_found(method)),
                }
            }
        }
    };
}

// Its name, whether it changes anything, where it is carried out.
methods! {
    "provost/resolve",           Reads,   ROWS      => |domain, _, params| domain.resolve(read(params)?);
    "provost/attempts",          Reads,   ROWS      => |domain, _, params| domain.all_attempts(read(params)?);
    "provost/check_executor",    Changes, ROWS      => |domain, _, params| domain.check_executor(read(params)?);
    "provost/check_log",         Reads,   HOST      => |domain, _, params| domain.check_log(read(params)?);
    "provost/info",              Reads,   ROWS      => |domain, _, _| domain.info();
    "provost/next_log_page",     Reads,   LOG       => |domain, _, params| domain.next_log_page(read(params)?);
    "provost/comments",          Reads,   ROWS      => |domain, _, params| domain.comments_by(read(params)?);
    "provost/conflicts",         Reads,   ROWS      => |domain, _, params| domain.conflicts(read(params)?);
    "provost/doctor",            Reads,   ROWS      => |domain, _, _| domain.findings();
    "provost/environment",       Reads,   SHELL     => |domain, _, params| domain.environment(read(params)?);
    "provost/quiet_worktree",    Changes, SHELL     => |domain, _, params| domain.quiet_worktree(read(params)?);
    "provost/by_hand",           Changes, ROWS      => |domain, _, params| domain.by_hand(read(params)?);
    "provost/ended_by_hand",     Changes, ROWS      => |domain, _, params| domain.ended_by_hand(read(params)?);
    "provost/started_as",        Reads,   ROWS      => |domain, _, params| domain.started_as(read(params)?);
    "provost/remove_project",    Changes, ROWS      => |domain, caller, params| domain.remove_project(caller, read(params)?);
    "provost/hosts",             Reads,   ROWS      => |domain, _, _| domain.list_hosts();
    "provost/change_host",       Changes, ROWS      => |domain, _, params| domain.change_host(read(params)?);
    "provost/gc",                Changes, ROWS      => |domain, _, params| domain.gc(read(params)?);
    "provost/gc_kept",           Changes, ROWS      => |domain, _, params| domain.gc_kept(read(params)?);
    "provost/empty_cache",       Changes, ROWS      => |domain, _, params| domain.empty_cache(read(params)?);
    "provost/empty_trash",       Changes, ROWS      => |domain, _, params| domain.empty_trash(read(params)?);
    "provost/import_tasks",      Changes, ROWS      => |domain, _, params| domain.import(read(params)?);
    "provost/add_plan",          Changes, ROWS      => |domain, _, params| domain.add_plan(read(params)?);
    "provost/base",              Reads,   ROWS      => |domain, _, params| domain.find_base(read(params)?);
    "provost/blob",              Reads,   ROWS      => |domain, _, params| domain.carried_blob(read(params)?);
    "provost/processes",         Reads,   ROWS      => |domain, _, params| domain.processes_of(read(params)?);
    "provost/preview",           Changes, WORKTREES => |domain, _, params| domain.preview(read(params)?);
    "provost/remove_plan",       Changes, ROWS      => |domain, _, params| domain.remove_plan(read(params)?);
    "provost/plans",             Reads,   ROWS      => |domain, _, params| domain.list_plans(read(params)?);
    "provost/discard",           Changes, WORKTREES => |domain, _, params| domain.discard(read(params)?);
    "provost/remotes",           Reads,   ROWS      => |domain, _, params| domain.remotes(read(params)?);
    "provost/set_target_branch", Changes, ROWS      => |domain, _, params| domain.set_target_branch(read(params)?);
    "provost/repo_settings",     Reads,   ROWS      => |domain, _, params| domain.repo_settings(read(params)?);
    "provost/trust",             Changes, ROWS      => |domain, _, params| domain.trust(read(params)?);
    "provost/open",              Changes, ROWS      => |domain, _, params| domain.open(read(params)?);
    "provost/users",             Reads,   ROWS      => |domain, _, _| domain.list_users();
    "provost/give_token",        Changes, ROWS      => |domain, _, params| domain.give_token(read(params)?);
    "provost/revoke_user",       Changes, ROWS      => |domain, _, params| domain.revoke_user(read(params)?);
    "provost/shutdown",          Changes, ROWS      => |domain, _, params| domain.shutdown(read(params)?);
}

fn method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

#[async_trait]
impl CliMethods for Domain {
    // Three gates, in this order. Inside an attempt, every method is refused with a way out. For a caller
    // that is no person, no method exists. Then the host that has what the arguments name carries the method
    // out.
    async fn call_method(
        &self,
        caller: &Caller,
        method: &str,
        params: Option<Value>,
    ) -> Result<Value, CustomError> {
        if caller.place.is_inside() {
            return Err(fault(inside::refused(caller, method)));
        }
        if !caller.is_person {
            return Err(CustomError::method_not_found(method));
        }
        let none = Map::new();
        let arguments = params.as_ref().and_then(Value::as_object).unwrap_or(&none);
        let placed = self::method(method).map_or(ROWS, |method| method.placed);
        if let Some(host) = self.elsewhere(placed, arguments).await.map_err(fault)? {
            let (tool, caller, arguments) = (method.to_owned(), caller.clone(), arguments.clone());
            let call = ForwardedCall { tool, caller, arguments, id: None };
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
        if self::method(method).is_some_and(|method| method.effect == Effect::Reads) {
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
}

impl Domain {
    async fn resolve(&self, params: ResolveParams) -> Result<Resolved, Refusal> {
        Ok(Resolved { matches: self.store.resolve(&params.id, &params.kinds).await? })
    }

    /// The attempts for `provost ps`, with their worktrees.
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
        // If this host can't run the executor, the host that can will judge it.
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
        // The key is the content: the same file for the same project takes effect once, unless `again`.
        let key = (!again).then(|| Key::new("import_tasks", payload_hash(&file), &file));
        let made = self.store.import_tasks(key.as_ref(), project_id, &planned).await?;
        Ok(ImportedTasks { tasks: made.value, imported_before: made.deduplicated })
    }

    /// The facts about this daemon that `provost doctor` and the page show.
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
        // A daemon that could not stop an attempt does not end, because it still owns the attempt: it
        // starts turns again.
        if done.alive.is_empty() {
            self.ending.cancel();
        } else {
            let _ = self.gateway.send_message(GatewayMessage::GoOn);
            let _ = self.checks.send_message(checks::ChecksMessage::GoOn);
        }
        Ok(done)
    }

    /// Stops all attempts and all check runs at the same time; returns what is still alive.
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

/// JSON-RPC 2.0 §5.1.
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// From the range that JSON-RPC leaves to servers (JSON-RPC 2.0 §5.1).
const REFUSED: i32 = -32000;

/// A refusal as a JSON-RPC error: `data` has the refusal whole.
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
    use crate::api::commands::READING;

    #[test]
    fn programs_know_which_methods_only_read() {
        let reading = METHODS.iter().filter(|method| method.effect == Effect::Reads);
        assert_eq!(reading.map(|method| method.name).collect::<Vec<_>>(), READING);
    }

    #[test]
    fn only_a_fault_of_ours_is_an_internal_error() {
        let number = |code| fault(Refusal::new(code, "no")).code;
        assert_eq!(number(Code::Internal), -32603);
        assert_eq!(number(Code::InvalidArgument), -32602);
        assert_eq!(number(Code::TaskNotFound), -32000);
        assert_eq!(number(Code::AttemptRunning), -32000);
    }
}
