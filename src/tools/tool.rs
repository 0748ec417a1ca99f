//! A tool: its definition as clients see it, and the path of a call through it. The table of all tools is
//! `table`.
//!
//! ```text
//!  call -> drop nulls -> check against the schema -> tasks' handles become ids -> reach (inside an attempt)
//!       -> on another host? forwarded : parsed, key made, domain asked, answer rendered
//!       -> a refusal gets a better hint (`clarify`), unless the caller is a worker or inside an attempt
//! ```

use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use provost_actors::failpoint;
use provost_actors::ids::TaskRef;
use provost_actors::refusal::{Code, Refusal};
use rmcp::model::{JsonObject, MetaObject};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::contract::ToolContract;
use super::row::{Audience, Load, Row, RunKind};
use super::schema::{self, REQUEST_ID};
use crate::api::args::TASK_PATTERN;
use crate::api::field_path::pointer_of;
use crate::api::{Callee, Caller, ForwardedCall, Idempotent, Key, Service};

/// Arguments that some clients add to every call by themselves (Gemini CLI 0.61 adds this one). They are
/// ignored.
const FOREIGN: [&str; 1] = ["wait_for_previous"];

/// Most bytes of a large answer, which is in the result twice: as text and as structure.
const LARGE_ANSWER: usize = 4 * 1024 * 1024;

/// To how many hosts a call is given, one after the other, while what it is about moves between them.
const TRIES: usize = 4;

/// A call on its way to the domain.
#[derive(Clone)]
pub struct Call<'a> {
    pub service: &'a dyn Service,
    pub caller: &'a Caller,
    pub arguments: Map<String, Value>,
    /// The client's id of this call: the same when the call is sent again.
    pub id: Option<String>,
}

type Answer<'a, O> = BoxFuture<'a, Result<O, Refusal>>;
/// Parses a call and asks the domain. `Err` is the path of a value that the schema accepted and the
/// parser did not.
type Run = dyn for<'a> Fn(Call<'a>) -> Result<Answer<'a, Idempotent<Value>>, String> + Send + Sync;

/// A tool with its schemas and its method. It derefs to its row of the table.
pub struct Tool {
    input: Arc<JsonObject>,
    output: Arc<JsonObject>,
    contract: ToolContract,
    run: Box<Run>,
    #[cfg(test)]
    parses: fn(Map<String, Value>) -> bool,
}

impl Deref for Tool {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.contract.row
    }
}

impl Tool {
    /// A tool without an effect of its own: it takes no `request_id`.
    pub fn read<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(&'a dyn Service, &'a Caller, I) -> Answer<'a, O> + Send + Sync + 'static,
    {
        let run: Box<Run> = Box::new(move |call| {
            let asked = method(call.service, call.caller, parse::<I>(call.arguments)?);
            Ok(Box::pin(async move { rendered(asked.await?, false) }))
        });
        Self::new::<I, O>(row, run)
    }

    /// A tool with an effect. It also takes `request_id`: the call takes effect once for the same id and
    /// arguments.
    pub fn change<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Serialize,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(&'a dyn Service, &'a Caller, Option<Key>, I) -> Answer<'a, Idempotent<O>>
            + Send
            + Sync
            + 'static,
    {
        let tool = row.name;
        let run: Box<Run> = Box::new(move |mut call| {
            let given = take_request_id(&mut call.arguments)?;
            let input = parse::<I>(call.arguments)?;
            // A `request_id` of the caller and an id of the bridge have different prefixes, so that
            // neither can be taken for the other.
            let request_id = given.map(|id| format!("request:{}", &*id));
            let request_id = request_id.or(call.id.map(|id| format!("call:{id}")));
            let key = request_id.map(|request_id| Key::new(tool, request_id, &input));
            let asked = method(call.service, call.caller, key, input);
            Ok(Box::pin(async move {
                let Idempotent { value, deduplicated } = asked.await?;
                rendered(value, deduplicated)
            }))
        });
        Self::new::<I, O>(row, run)
    }

    /// Makes the schemas and compiles the validator, once for each tool.
    fn new<I: DeserializeOwned + JsonSchema, O: JsonSchema>(mut row: Row, run: Box<Run>) -> Self {
        let input = schema::input::<I>(row.rules, row.kind == RunKind::Change, row.is_workers());
        row.description = described(&row.description, &input).into();
        let schema = Value::Object(input.clone());
        #[expect(clippy::expect_used, reason = "the schemas are constants; a test compiles each")]
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .expect("a published schema compiles");
        Self {
            input: Arc::new(schema::published(input, row.is_workers())),
            output: Arc::new(schema::output::<O>(row.is_workers())),
            contract: ToolContract { row, schema, validator },
            run,
            #[cfg(test)]
            parses: |mut arguments| {
                take_request_id(&mut arguments).is_ok() && parse::<I>(arguments).is_ok()
            },
        }
    }

    /// The most bytes that an answer can have, for tools with large answers.
    pub fn large_answer(&self) -> Option<usize> {
        (self.kind == RunKind::Bulk).then_some(LARGE_ANSWER)
    }

    /// The definition in `tools/list`.
    pub fn definition(&self) -> rmcp::model::Tool {
        let mut tool =
            rmcp::model::Tool::new(self.name, self.description.clone(), Arc::clone(&self.input))
                .with_title(self.title)
                .with_raw_output_schema(Arc::clone(&self.output))
                .with_annotations(self.annotations());
        if self.load == Load::Always {
            let always = Map::from_iter([("anthropic/alwaysLoad".to_owned(), json!(true))]);
            tool.meta = Some(MetaObject(always));
        }
        tool
    }

    /// Runs one call from its raw arguments to its outcome. The domain is asked once, and only with
    /// arguments that fit the schema.
    pub async fn call(&self, mut call: Call<'_>) -> Result<Idempotent<Value>, Refusal> {
        call.arguments.retain(|name, _| !FOREIGN.contains(&name.as_str()));
        let mut arguments = Value::Object(std::mem::take(&mut call.arguments));
        drop_nulls(&mut arguments);
        let service = call.service;
        // Inside an attempt there is no clarification: its hint could name things beyond the attempt's
        // reach.
        let is_clarified = !self.is_workers() && !call.caller.place.is_inside();
        let outcome = self.outcome(call, &arguments).await;
        failpoint::hit(self.name, "answering");
        let outcome = match outcome {
            Err(refusal) if is_clarified => {
                let callee = Callee {
                    name: self.name,
                    fields: &self.contract.schema["properties"],
                    is_destructive: self.is_destructive(),
                };
                Err(service.clarify(&callee, &arguments, refusal).await)
            }
            outcome => outcome,
        };
        outcome.map_err(|refusal| refusal.of_tool(self.name))
    }

    /// Checks, places and runs the call; its refusals are not clarified yet.
    async fn outcome(
        &self,
        mut call: Call<'_>,
        arguments: &Value,
    ) -> Result<Idempotent<Value>, Refusal> {
        if let Some(refusal) = self.contract.fault(arguments) {
            return Err(refusal);
        }
        call.arguments = arguments.as_object().cloned().unwrap_or_default();
        if !self.is_workers() {
            self.name_tasks(&mut call).await?;
        }
        if let Audience::Board(reach) = self.audience
            && call.caller.place.is_inside()
        {
            let Call { service, caller, arguments, .. } = &call;
            service.permit(caller, self.name, reach, self.access(), arguments).await?;
        }
        let is_shared = call.service.is_shared();
        let mut host = None;
        if is_shared {
            host = call.service.elsewhere(self.placed, &call.arguments).await?;
        }
        let mut tries = TRIES;
        loop {
            let again = is_shared.then(|| call.clone());
            let outcome = match host {
                Some(host) => self.carried(&host, call).await,
                None => match (self.run)(call) {
                    Ok(outcome) => outcome.await,
                    Err(path) => return Err(self.contract.invalid(&pointer_of(&path), arguments)),
                },
            };
            tries -= 1;
            match (outcome, again) {
                // The call has not begun: the attempt moved to the other host after the last look.
                (Err(refusal), Some(again)) if refusal.code == Code::Elsewhere && tries > 0 => {
                    let Some(Value::String(moved)) = refusal.details.get("host") else {
                        return Err(refusal);
                    };
                    (host, call) = (Some(moved.clone()), again);
                }
                (outcome, _) => return outcome,
            }
        }
    }

    /// Forwards the call to the daemon of another host, and waits for its answer.
    async fn carried(&self, host: &str, call: Call<'_>) -> Result<Idempotent<Value>, Refusal> {
        let Call { service, caller, arguments, id } = call;
        let call =
            ForwardedCall { tool: self.name.to_owned(), caller: caller.clone(), arguments, id };
        service.carry(host, call).await
    }

    /// Replaces tasks' handles by ids, so that a call by either name has the same key. Lists of tasks are
    /// resolved in the store, because the call names their project.
    async fn name_tasks(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let project = call.arguments.get("project_id").and_then(Value::as_str).map(str::to_owned);
        for (name, value) in &mut call.arguments {
            let node = self.contract.schema.pointer(&format!("/properties/{name}/pattern"));
            let is_task = node.is_some_and(|pattern| pattern == TASK_PATTERN);
            let Some(task) = value.as_str().filter(|_| is_task) else { continue };
            let Ok(TaskRef::Handle(handle)) = TaskRef::try_from(task.to_owned()) else { continue };
            let id = call.service.task_id(call.caller, &handle, project.as_deref()).await;
            *value = id.map_err(|refusal| refusal.detail("path", name.as_str()))?.into();
        }
        Ok(())
    }

    /// Whether the published schema takes these arguments.
    #[cfg(test)]
    pub fn is_valid(&self, arguments: &Value) -> bool {
        self.contract.validator.is_valid(arguments)
    }

    /// Whether the typed parser takes these arguments.
    #[cfg(test)]
    pub fn parses(&self, arguments: &Value) -> bool {
        (self.parses)(arguments.as_object().cloned().unwrap_or_default())
    }
}

/// A description with one line for each heading. Lines for required and optional fields are made from the
/// schema, unless the description has its own.
fn described(description: &str, input: &JsonObject) -> String {
    let required = input["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let required: Vec<&str> = required.collect();
    let all = input["properties"].as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let optional: Vec<&str> = all.filter(|name| !required.contains(name)).collect();
    let line = |heading: &str, names: &[&str]| {
        let own = description.lines().find(|line| line.starts_with(heading));
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        own.map_or_else(|| format!("{heading}: {names}."), str::to_owned)
    };
    let [when, next, avoid] = ["Use when", "Next", "Avoid"].map(|heading| line(heading, &[]));
    let (required, optional) = (line("Required", &required), line("Optional", &optional));
    [when, required, optional, next, avoid].join("\n")
}

/// Removes members that are `null`: they count as absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `Err` is the path of the value that does not parse.
fn parse<I: DeserializeOwned>(arguments: Map<String, Value>) -> Result<I, String> {
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| error.path().to_string())
}

fn take_request_id(
    arguments: &mut Map<String, Value>,
) -> Result<Option<schema::RequestId>, String> {
    let given = arguments.remove(REQUEST_ID).map(serde_json::from_value).transpose();
    given.map_err(|_| REQUEST_ID.to_owned())
}

fn rendered(output: impl Serialize, deduplicated: bool) -> Result<Idempotent<Value>, Refusal> {
    let value = serde_json::to_value(output)
        .map_err(|fault| Refusal::internal(format!("the result can't be written: {fault}")))?;
    Ok(Idempotent { value, deduplicated })
}
