//! The MCP server of one connection, or of one HTTP request, in both eras of the protocol. Calls, by the
//! name of a tool or by the URI of a resource, go to [`Calls`]. What belongs to the connection is here:
//! what its peer has not read, its end, and progress reports.

use std::sync::Arc;
use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, RequestMetaObject, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, serve_directly_with_ct};
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::instructions;
use super::limits::Limits;
use super::transport::LineTransport;
use super::{envelope, prompts, resources};
use crate::api::{Caller, CustomError, Idempotent, Role, Service};
use crate::tools::{self, Calls, Permits, RunKind, Tool, table, worker_error};

/// `_meta` key: the bridge's id of a call, the same when it sends it again.
const CALL_ID: &str = "provost/call_id";

/// How long a waiting call may still be answered after the end of its client's input.
const SLEEPERS_GRACE: Duration = Duration::from_secs(1);

/// How long a client may keep a list of tools, in milliseconds.
const LIST_TTL_MS: u64 = 3_600_000;

/// Serves one connection until its peer ends it or `stop` is cancelled. The caller is already
/// authenticated.
pub async fn serve<S>(
    stream: S,
    caller: Caller,
    service: Arc<dyn Service>,
    limits: Limits,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let ended = stop.child_token();
    let (read, write) = tokio::io::split(stream);
    let backlog = Arc::new(Backlog::new(limits.shared.clone()));
    let transport = LineTransport::new(read, write, &limits, Arc::clone(&backlog), ended.clone());
    let seats = Permits::new(limits.room);
    let calls = Calls::new(service, caller, Arc::clone(&limits.rates), seats);
    let server = Server {
        calls: Arc::new(calls),
        grace: limits.grace,
        beat: limits.beat,
        backlog: Some(backlog),
        ended: ended.clone(),
    };
    // No handshake is required: methods of other APIs come without one, and `initialize` and
    // `server/discover` are requests like all others.
    let running = serve_directly_with_ct::<RoleServer, _, _, _, _>(server, transport, None, ended);
    if let Err(fault) = running.waiting().await {
        tracing::error!(%fault, "an MCP connection broke down");
    }
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;
type Result<T, E = ErrorData> = std::result::Result<T, E>;

/// Answers MCP requests of one caller.
pub struct Server {
    calls: Arc<Calls>,
    grace: Duration,
    beat: Duration,
    /// What the peer of a byte stream has not read; HTTP has a stream for each answer.
    backlog: Option<Arc<Backlog>>,
    /// Cancelled when the connection ends, from either side.
    ended: CancellationToken,
}

impl Server {
    /// A server for one HTTP request. It has no backlog: HTTP has a stream for each answer, with flow
    /// control of its own.
    pub fn of_request(calls: Arc<Calls>, limits: &Limits, ended: CancellationToken) -> Self {
        Self { calls, grace: limits.grace, beat: limits.beat, backlog: None, ended }
    }

    fn caller(&self) -> &Caller {
        &self.calls.caller
    }

    /// Runs a call with progress reports, until it is answered or its caller is gone.
    async fn call(
        &self,
        tool: &Tool,
        work: impl Future<Output = Result<Idempotent<Value>, Refusal>>,
        context: &Context,
    ) -> Result<Idempotent<Value>, Refusal> {
        let work = self.beating(tool, work, context);
        let what = (tool.name, tool.kind);
        self.awaited(what, tool.large_answer(), work, context).await.flatten()
    }

    /// Answers `tools/call`. Refusals are results, in the error format of the tool's API; only an unknown
    /// name is a JSON-RPC error.
    async fn call_named(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse> {
        let Some(tool) = table::find(&request.name) else {
            let tools::Unknown { message, data } = tools::unknown(&request.name, self.caller());
            return Err(ErrorData::invalid_params(message, Some(data)));
        };
        let arguments = request.arguments.unwrap_or_default();
        let work = Box::pin(self.calls.call(tool, arguments.clone(), call_id(&context.meta)));
        let outcome = self.call(tool, work, &context).await;
        let result = match outcome {
            Ok(success) => envelope::success(success),
            Err(refusal) if tool.is_workers() => envelope::failure(worker_error::envelope(
                &refusal.of_tool(tool.name),
                &self.caller().agent,
                &Value::Object(arguments),
            )),
            Err(refusal) => envelope::failure(refusal.envelope()),
        };
        Ok(result.into())
    }

    /// Answers a worker tool that is called as a JSON-RPC method of its own. Every role may do this.
    async fn bare(
        &self,
        tool: &Tool,
        params: Option<Value>,
        context: &Context,
    ) -> Result<CustomResult> {
        let mut arguments = match params {
            None | Some(Value::Null) => JsonObject::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => {
                let message = format!("the params of {} must be an object", tool.name);
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let own = arguments.remove("_meta");
        let id = call_id(&context.meta)
            .or_else(|| own.as_ref()?.get(CALL_ID)?.as_str().map(str::to_owned));
        let work = Box::pin(self.calls.call_any(tool, arguments.clone(), id));
        match self.call(tool, work, context).await {
            Ok(success) => Ok(CustomResult::new(success.value)),
            Err(refusal) => {
                let refusal = refusal.of_tool(tool.name);
                let agent = &self.caller().agent;
                let arguments = Value::Object(arguments);
                let (number, data) = worker_error::numbered(&refusal, agent, &arguments);
                Err(ErrorData::new(ErrorCode(number), refusal.message, Some(data)))
            }
        }
    }

    /// Runs `work` until it is done or its caller is gone. A large answer is only made once the peer has
    /// read enough of the earlier ones.
    async fn awaited<T>(
        &self,
        (what, kind): (&str, RunKind),
        large_answer: Option<usize>,
        work: impl Future<Output = T>,
        context: &Context,
    ) -> Result<T, Refusal> {
        let done = async {
            if let (Some(bytes), Some(backlog)) = (large_answer, &self.backlog) {
                backlog.reserve(&context.id, bytes).await;
            }
            work.await
        };
        tokio::select! {
            biased;
            done = done => Ok(done),
            () = self.given_up(kind, &context.ct) => {
                let message = format!("The connection ended while {what} was running.");
                Err(Refusal::new(Code::DaemonRestarting, message))
            }
        }
    }

    /// Resolves when the caller does not wait for the answer any more. A peer that closed its side after
    /// its last request (a pipe) still gets the answers that come within the grace.
    async fn given_up(&self, kind: RunKind, cancelled: &CancellationToken) {
        let grace = if kind == RunKind::Wait { self.grace.min(SLEEPERS_GRACE) } else { self.grace };
        // At the end of the stream, rmcp cancels a request's own token only after it has waited for the
        // answer, so the connection's token is needed too.
        tokio::select! {
            () = self.ended.cancelled() => tokio::time::sleep(grace).await,
            () = cancelled.cancelled() => {}
        }
    }

    /// Reports the progress of a waiting call, if the peer asked for it: some clients give up on a silent
    /// call.
    async fn beating<T>(&self, tool: &Tool, work: impl Future<Output = T>, context: &Context) -> T {
        let token = context.meta.get_progress_token().filter(|_| tool.kind == RunKind::Wait);
        let Some(token) = token else { return work.await };
        let mut work = std::pin::pin!(work);
        let mut since = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(self.beat) => {}
            }
            since += self.beat;
            let progress = ProgressNotificationParam::new(token.clone(), since.as_secs_f64());
            // An error is ignored: the end of the connection ends the call in `given_up`.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let instructions = match self.caller().role {
            Role::Worker => instructions::INSIDE,
            Role::Orchestrator | Role::All => instructions::BOARD,
        };
        let capabilities = ServerCapabilities::builder();
        ServerConfig::new(capabilities.enable_tools().enable_resources().enable_prompts().build())
            .with_server_info(
                Implementation::new("provost", env!("CARGO_PKG_VERSION")).with_title("Provost"),
            )
            .with_instructions(instructions)
    }

    /// Stores the negotiated version and not the requested one: rmcp gives later results the shape of the
    /// stored version.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult> {
        let result = self.negotiate_initialize(&request)?;
        let negotiated = result.protocol_version.clone();
        context.peer.set_peer_info(request.with_protocol_version(negotiated));
        Ok(result)
    }

    async fn list_tools(&self, request: Page, _: Context) -> Result<ListToolsResult> {
        only_page(request)?;
        let caller = self.caller();
        let visible = table::all().iter();
        let visible = visible.filter(|tool| tool.is_for(caller) && tool.access() <= caller.access);
        let list = ListToolsResult::with_all_items(visible.map(Tool::definition).collect());
        Ok(list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    /// Boxed, as all large futures here: rmcp moves a request's future several times.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse> {
        Box::pin(self.call_named(request, context)).await
    }

    async fn list_resources(&self, request: Page, context: Context) -> Result<ListResourcesResult> {
        only_page(request)?;
        // A list would show attempts of all projects. An agent that may start attempts knows their ids.
        if resources::templates(self.caller()).is_empty() || self.caller().place.is_inside() {
            return Ok(ListResourcesResult::default());
        }
        let asked = self.calls.service.recent_attempts(resources::LISTED);
        let asked = self.calls.quick("the list", asked);
        let listed = self.awaited(("the list", RunKind::Read), None, asked, &context).await;
        let attempts = listed.flatten().flatten().map_err(resources::fault)?;
        let listed = attempts.iter().map(resources::listed).collect();
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        request: Page,
        _: Context,
    ) -> Result<ListResourceTemplatesResult> {
        only_page(request)?;
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates(self.caller())))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse> {
        let Some((tool, arguments)) = resources::call(&request.uri, self.caller()) else {
            return Err(resources::unknown(&request.uri));
        };
        let work = Box::pin(self.calls.call(tool, arguments, None));
        let read = Box::pin(self.call(tool, work, &context)).await.map_err(resources::fault)?;
        Ok(resources::contents(&request.uri, &read.value).into())
    }

    /// No completions are offered, so the method counts as unknown.
    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(&self, request: Page, _: Context) -> Result<ListPromptsResult> {
        only_page(request)?;
        Ok(ListPromptsResult::with_all_items(prompts::list(self.caller())))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse> {
        let arguments = request.arguments.unwrap_or_default();
        Ok(prompts::get(&request.name, &arguments, self.caller())?.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult> {
        let CustomRequest { method, params, .. } = request;
        if let Some(tool) = table::find(&method).filter(|tool| tool.is_workers()) {
            return Box::pin(self.bare(tool, params, &context)).await;
        }
        let asked = self.calls.method(&method, params);
        match self.awaited((&method, RunKind::Read), None, asked, &context).await.flatten() {
            Ok(Ok(value)) => Ok(CustomResult::new(value)),
            Ok(Err(CustomError { code, message, data })) => {
                Err(ErrorData::new(ErrorCode(code), message, data))
            }
            Err(refusal) => {
                let data = refusal.envelope();
                Err(ErrorData::internal_error(refusal.message, Some(data)))
            }
        }
    }
}

/// Refuses a cursor: every list has one page, so no cursor is from here.
fn only_page(request: Page) -> Result<()> {
    let cursor = request.and_then(|request| request.cursor);
    if cursor.is_none_or(|cursor| cursor.is_empty()) {
        return Ok(());
    }
    let message = "The cursor is not from this list: it has one page. Leave it out.";
    Err(ErrorData::invalid_params(message, None))
}

/// The bridge's id of a call: the same when the bridge sends the call again after it has reconnected.
fn call_id(meta: &RequestMetaObject) -> Option<String> {
    meta.get(CALL_ID).and_then(|id| id.as_str()).map(str::to_owned)
}
