//! What a tool is: its definition as clients see it, and the path of a call
//! through it: prepare, check, parse, ask, render. The table of all tools is
//! `tools`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jsonschema::Validator;
use provost_actors::failpoint;
use provost_actors::ids::TaskRef;
use provost_actors::refusal::Refusal;
use rmcp::model::{JsonObject, MetaObject, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::envelope::Success;
use super::key;
use super::schema::{self, Errors, REQUEST_ID};
use super::validation::ToolContract;
use crate::api::args::TASK_PATTERN;
use crate::api::field_rules::FieldRule;
use crate::api::{Access, Callee, Key, Once, Role, Service, Session};

/// Arguments that clients are known to add by themselves; Gemini CLI 0.61 adds
/// this one to every call.
const FOREIGN: [&str; 1] = ["wait_for_previous"];

/// What a large answer may weigh, in bytes: a patch or a page of a log, once as text
/// and once as structure.
const LARGE_ANSWER: usize = 4 * 1024 * 1024;

/// Whom a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Those who run the board: orchestrators and persons.
    Board,
    /// Whoever pulls work from it. These tools speak the worker API's own words.
    Worker,
    /// Whoever calls from inside an attempt.
    Inside,
}

/// What a tool does to the world, as MCP's annotations say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Reads,
    /// Answers, and may leave something behind: a question passed on, a task taken.
    Asks,
    /// Adds something; asking twice adds two.
    Adds,
    /// Sets an agent to work, which may reach anything.
    Starts,
    /// The same, or drops what was to come.
    Steers,
    /// Overwrites or ends what was there; asking twice is asking once.
    Replaces,
    /// Takes something off the board for good.
    Removes,
}

impl Effect {
    /// What a caller must be allowed to do.
    pub fn access(self) -> Access {
        match self {
            Self::Reads | Self::Asks => Access::Read,
            Self::Adds | Self::Starts | Self::Steers | Self::Replaces => Access::Write,
            Self::Removes => Access::Admin,
        }
    }
}

/// When a client's model gets to see the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// At once.
    Always,
    /// When it searches, with clients that defer tools.
    Search,
}

/// The name, title and reach of a tool: its line in the table.
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub audience: Audience,
    pub effect: Effect,
    pub load: Load,
    pub description: &'static str,
    pub rules: &'static [FieldRule],
}

/// A call on its way to the domain.
pub struct Call<'a> {
    pub service: &'a dyn Service,
    pub session: &'a Session,
    pub arguments: Map<String, Value>,
    /// The bridge's id of this call: the same when it is sent again.
    pub bridge_id: Option<String>,
}

/// Arguments passed the schema and not the parser; this is the path of the fault.
struct Misfit(String);

type Outcome<'a> = BoxFuture<'a, Result<Success, Refusal>>;
type Run = dyn for<'a> Fn(Call<'a>) -> Result<Outcome<'a>, Misfit> + Send + Sync;

/// A tool, ready to be listed and called.
pub struct Tool {
    row: Row,
    input: Arc<JsonObject>,
    output: Arc<JsonObject>,
    /// What calls are held against: `input`, and what it leaves out to be short.
    schema: Value,
    validator: Validator,
    run: Box<Run>,
    sleeps: bool,
    is_large: bool,
    #[cfg(test)]
    parses: fn(Map<String, Value>) -> bool,
}

impl Tool {
    /// A tool that changes nothing.
    pub fn read<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(&'a dyn Service, &'a Session, I) -> BoxFuture<'a, Result<O, Refusal>>
            + Send
            + Sync
            + 'static,
    {
        let run: Box<Run> = Box::new(move |call| {
            let asked = method(call.service, call.session, parse::<I>(call.arguments)?);
            Ok(rendered(asked, |output| (output, false)))
        });
        Self::new::<I, O>(row, false, run)
    }

    /// A tool that changes nothing and sleeps until there is news.
    pub fn wait<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(&'a dyn Service, &'a Session, I) -> BoxFuture<'a, Result<O, Refusal>>
            + Send
            + Sync
            + 'static,
    {
        Self { sleeps: true, ..Self::read(row, method) }
    }

    /// A tool that changes nothing and whose answers may be megabytes.
    pub fn bulk<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(&'a dyn Service, &'a Session, I) -> BoxFuture<'a, Result<O, Refusal>>
            + Send
            + Sync
            + 'static,
    {
        Self { is_large: true, ..Self::read(row, method) }
    }

    /// A tool with an effect: it also takes `request_id`.
    pub fn change<I, O, F>(row: Row, method: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Serialize,
        O: Serialize + JsonSchema + 'static,
        F: for<'a> Fn(
                &'a dyn Service,
                &'a Session,
                Option<Key>,
                I,
            ) -> BoxFuture<'a, Result<Once<O>, Refusal>>
            + Send
            + Sync
            + 'static,
    {
        let name = row.name;
        let run: Box<Run> = Box::new(move |mut call| {
            let given = take_request_id(&mut call.arguments)?;
            let input = parse::<I>(call.arguments)?;
            let key = key::of(name, given.as_deref(), call.bridge_id.as_deref(), &input);
            let asked = method(call.service, call.session, key, input);
            Ok(rendered(asked, |answer: Once<O>| (answer.value, answer.deduplicated)))
        });
        Self::new::<I, O>(row, true, run)
    }

    fn new<I, O>(row: Row, changes: bool, run: Box<Run>) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: JsonSchema,
    {
        let input = schema::input::<I>(row.rules, changes);
        let schema = Value::Object((*input).clone());
        #[expect(clippy::expect_used, reason = "the schemas are constants; a test compiles each")]
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .expect("a published schema compiles");
        let errors = match row.audience {
            Audience::Worker => Errors::Worker,
            Audience::Board | Audience::Inside => Errors::House,
        };
        let input = match row.audience {
            Audience::Worker => schema::lean(&input),
            Audience::Board | Audience::Inside => schema::without_patterns(&input),
        };
        Self {
            row,
            input,
            output: schema::output::<O>(errors),
            schema,
            validator,
            run,
            sleeps: false,
            is_large: false,
            #[cfg(test)]
            parses: |mut arguments| {
                take_request_id(&mut arguments).is_ok() && parse::<I>(arguments).is_ok()
            },
        }
    }

    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Whether a call sleeps more than it works.
    pub fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// The most bytes that an answer may hold, where that is much.
    pub fn large_answer(&self) -> Option<usize> {
        self.is_large.then_some(LARGE_ANSWER)
    }

    /// Whether a connection may see and call the tool.
    pub fn is_for(&self, session: &Session) -> bool {
        match self.row.audience {
            Audience::Inside => session.attempt.is_some(),
            Audience::Board | Audience::Worker => self.is_for_role(session.role),
        }
    }

    /// Whether a role may ever see the tool.
    pub fn is_for_role(&self, role: Role) -> bool {
        match self.row.audience {
            Audience::Board => role != Role::Worker,
            Audience::Worker => role != Role::Orchestrator,
            Audience::Inside => true,
        }
    }

    /// Whether it is one of the worker API's, which are also there as bare methods.
    pub fn is_workers(&self) -> bool {
        self.row.audience == Audience::Worker
    }

    /// What it does to the world.
    pub fn effect(&self) -> Effect {
        self.row.effect
    }

    /// What a caller must be allowed to do.
    pub fn access(&self) -> Access {
        self.row.effect.access()
    }

    /// The definition as `tools/list` gives it.
    pub fn definition(&self) -> rmcp::model::Tool {
        let row = &self.row;
        let adds = matches!(row.effect, Effect::Adds | Effect::Asks);
        let reads = row.effect == Effect::Reads;
        let starts = matches!(row.effect, Effect::Starts | Effect::Steers);
        let annotations = ToolAnnotations::with_title(row.title)
            .read_only(reads)
            .destructive(self.is_destructive())
            .idempotent(!adds && !starts)
            .open_world(starts);
        let mut tool = rmcp::model::Tool::new(row.name, row.description, Arc::clone(&self.input))
            .with_title(row.title)
            .with_raw_output_schema(Arc::clone(&self.output))
            .with_annotations(annotations);
        if row.load == Load::Always {
            let always = Map::from_iter([("anthropic/alwaysLoad".to_owned(), json!(true))]);
            tool.meta = Some(MetaObject(always));
        }
        tool
    }

    /// Runs one call from the raw arguments to its outcome. The domain is asked
    /// once, and only with arguments that fit.
    pub async fn call(&self, mut call: Call<'_>) -> Result<Success, Refusal> {
        let contract = ToolContract {
            tool: self.row.name,
            schema: &self.schema,
            validator: &self.validator,
            rules: self.row.rules,
            is_workers: self.is_workers(),
        };
        call.arguments.retain(|name, _| !FOREIGN.contains(&name.as_str()));
        let mut arguments = Value::Object(std::mem::take(&mut call.arguments));
        drop_nulls(&mut arguments);
        let (tool, service) = (self.row.name, call.service);
        let is_inside = call.session.place.is_inside();
        let outcome = self.outcome(&contract, call, &arguments).await;
        failpoint::hit(tool, "answering");
        match outcome {
            Ok(success) => Ok(success),
            // What a hint would name may be beyond an attempt's reach.
            Err(refusal) if self.is_workers() || is_inside => Err(refusal.of_tool(tool)),
            Err(refusal) => {
                let refusal = service.clarify(&self.callee(), &arguments, refusal).await;
                Err(refusal.of_tool(tool))
            }
        }
    }

    async fn outcome(
        &self,
        contract: &ToolContract<'_>,
        mut call: Call<'_>,
        arguments: &Value,
    ) -> Result<Success, Refusal> {
        if let Some(refusal) = contract.fault(arguments) {
            return Err(refusal);
        }
        call.arguments = arguments.as_object().cloned().unwrap_or_default();
        if !self.is_workers() {
            self.name_tasks(&mut call).await?;
        }
        if self.row.audience == Audience::Board && call.session.place.is_inside() {
            let Call { service, session, arguments, .. } = &call;
            service.permit(session, self.row.name, self.access(), arguments).await?;
        }
        match (self.run)(call) {
            Ok(outcome) => outcome.await,
            Err(Misfit(path)) => Err(contract.unparsable(&path, arguments)),
        }
    }

    /// Puts ids in place of tasks' handles, so that all behind here knows ids alone, and a
    /// call by either name is the same call. Lists of tasks are the store's to resolve:
    /// their project is in the call.
    async fn name_tasks(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let project = call.arguments.get("project_id").and_then(Value::as_str).map(str::to_owned);
        for (name, value) in &mut call.arguments {
            let node = self.schema.pointer(&format!("/properties/{name}/pattern"));
            let is_task = node.is_some_and(|pattern| pattern == TASK_PATTERN);
            let Some(task) = value.as_str().filter(|_| is_task) else { continue };
            let Ok(TaskRef::Handle(handle)) = TaskRef::try_from(task.to_owned()) else { continue };
            let id = call.service.task_id(call.session, &handle, project.as_deref()).await;
            *value = id.map_err(|refusal| refusal.detail("path", name.as_str()))?.into();
        }
        Ok(())
    }

    /// Whether a call may end or overwrite what is there.
    pub fn is_destructive(&self) -> bool {
        matches!(self.row.effect, Effect::Replaces | Effect::Removes | Effect::Steers)
    }

    fn callee(&self) -> Callee {
        let fields = self.schema["properties"].as_object();
        Callee {
            name: self.row.name,
            fields: fields.into_iter().flat_map(Map::keys).cloned().collect(),
            is_destructive: self.is_destructive(),
        }
    }

    /// Whether the published schema takes these arguments.
    #[cfg(test)]
    pub fn is_valid(&self, arguments: &Value) -> bool {
        self.validator.is_valid(arguments)
    }

    /// Whether the typed parser takes these arguments.
    #[cfg(test)]
    pub fn parses(&self, arguments: &Value) -> bool {
        (self.parses)(arguments.as_object().cloned().unwrap_or_default())
    }

    #[cfg(test)]
    pub fn row(&self) -> &Row {
        &self.row
    }
}

/// Members that are `null` count as left out.
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

fn parse<I: DeserializeOwned>(arguments: Map<String, Value>) -> Result<I, Misfit> {
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| Misfit(error.path().to_string()))
}

fn take_request_id(
    arguments: &mut Map<String, Value>,
) -> Result<Option<schema::RequestId>, Misfit> {
    let given = arguments.remove(REQUEST_ID).map(serde_json::from_value).transpose();
    given.map_err(|_| Misfit(REQUEST_ID.to_owned()))
}

fn rendered<'a, T, O>(
    asked: BoxFuture<'a, Result<T, Refusal>>,
    parts: fn(T) -> (O, bool),
) -> Outcome<'a>
where
    T: 'a,
    O: Serialize + 'a,
{
    Box::pin(async move {
        let (output, deduplicated) = parts(asked.await?);
        let output = serde_json::to_value(output)
            .map_err(|fault| Refusal::internal(format!("the result can't be written: {fault}")))?;
        Ok(Success { output, deduplicated })
    })
}
