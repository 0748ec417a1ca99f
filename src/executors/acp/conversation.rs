//! The client's side of the conversation, up to the prompt: one request at a
//! time, each when the one before has been answered.
//!
//! `initialize`, `session/new` (or `session/resume`, or `session/load`), the
//! session's mode, model and options, `session/prompt`.

use std::collections::VecDeque;
use std::path::PathBuf;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AuthMethod, AuthenticateRequest, CancelNotification, ClientCapabilities,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, McpServer,
    NewSessionRequest, PromptRequest, ResumeSessionRequest,
};
use provost_actors::executor::{Message, Observed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::outgoing;
use super::settings::{self, Setting};
use crate::executors::vocabulary;

/// What a process is to be told. Kept with the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dialogue {
    pub prompt: String,
    pub cwd: PathBuf,
    /// The agent's id of the session that is resumed.
    pub resumes: Option<String>,
    pub mcp_servers: Vec<McpServer>,
    /// `mode`, `model`, and the agent's own options, in the order they are said.
    pub settings: Vec<(String, String)>,
    /// The method of authentication to use if the agent demands any.
    pub auth_method: Option<String>,
    /// The id under which a session is loaded, with `{id}` for its own.
    pub load_as: Option<String>,
    pub quirks: Quirks,
}

/// What has to be known of an agent to read it right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quirks {
    /// The names of the MCP servers that it was given.
    pub servers: Vec<String>,
    /// A message that begins so is a failure of the model.
    pub failure_prefix: Option<String>,
    /// A message that begins so is the agent's own, not the model's.
    pub notice_prefix: Option<String>,
    /// A turn that ends without a word is a failure of the model.
    pub silence_is_failure: bool,
    /// What it says where it does not know a session; none: what most say.
    pub lost: Vec<String>,
    /// It does not know a session that is not among those that it lists.
    pub lists_sessions: bool,
    /// Where its requests tell the name of the tool in its own words: `meta`, `title`
    /// or `id`. `None`: nowhere.
    pub own_tools: Option<String>,
    /// What stands between a server's name and its tool's, if not a dash.
    pub mcp_separator: Option<String>,
}

impl Quirks {
    pub fn is_failure(&self, text: &str) -> bool {
        self.failure_prefix.as_ref().is_some_and(|prefix| text.starts_with(prefix))
    }

    pub fn is_notice(&self, text: &str) -> bool {
        self.notice_prefix.as_ref().is_some_and(|prefix| text.starts_with(prefix))
    }

    /// Whether an error says that the agent does not know the session.
    pub fn is_lost(&self, error: &str) -> bool {
        if self.lost.is_empty() {
            vocabulary::is_lost_session(error)
        } else {
            vocabulary::says(error, &self.lost)
        }
    }

    /// What a failure says.
    pub fn without_prefix(&self, text: &str) -> String {
        let prefix = self.failure_prefix.as_deref().unwrap_or_default();
        text.strip_prefix(prefix).unwrap_or(text).trim().to_owned()
    }
}

/// Which answer is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    #[default]
    Initialize,
    Authenticate,
    Session,
    /// Of the question which sessions there are.
    List,
    Settings,
    Prompt,
    /// None: the turn has ended.
    Over,
}

/// Where the conversation stands.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversation {
    /// `None`: there is nobody to talk to; what another client was told is read.
    pub dialogue: Option<Dialogue>,
    pub stage: Stage,
    /// The agent's id of the session.
    pub session: Option<String>,
    /// The session is one from before, and its updates may be, too.
    pub replays: bool,
    agent: Option<InitializeResponse>,
    /// What is still to be set; the first has been said.
    settings: VecDeque<Setting>,
    authenticated: bool,
    /// Why the session was not resumed.
    refusal: String,
    /// Pages of the list of sessions that were read.
    pages: u32,
}

/// JSON-RPC's code for a method that is not there, and the protocol's for one that
/// demands authentication.
const METHOD_NOT_FOUND: i64 = -32601;
const AUTH_REQUIRED: i64 = -32000;

/// Most pages of a list of sessions that are read.
const PAGES_MAX: u32 = 50;

/// Why a conversation can't go on.
#[derive(Debug, PartialEq)]
pub struct Stuck {
    pub error: String,
    /// Somebody has to sign in.
    pub auth: bool,
}

impl Conversation {
    pub fn new(dialogue: Option<Dialogue>) -> Self {
        Self { dialogue, ..Self::default() }
    }

    pub fn begin(&mut self, out: &mut Vec<Observed>) {
        let implementation = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::default())
            .client_info(implementation);
        self.ask("initialize", 1, AGENT_METHOD_NAMES.initialize, &request, out);
    }

    /// An answer that is not the prompt's.
    pub fn answered(&mut self, result: &Value, out: &mut Vec<Observed>) -> Result<(), Stuck> {
        match self.stage {
            Stage::Initialize => {
                self.agent = InitializeResponse::deserialize(result).ok();
                self.open_session("session", 2, out)
            }
            Stage::Authenticate => self.open_session("session-again", 5, out),
            Stage::Session => self.opened(result, out),
            Stage::List => self.listed(result, out),
            Stage::Settings => {
                self.settings.pop_front();
                self.go_on(out);
                Ok(())
            }
            Stage::Prompt | Stage::Over => Ok(()),
        }
    }

    /// An error for an answer that is not the prompt's: what it says, and its code.
    pub fn refused(
        &mut self,
        error: &str,
        code: Option<i64>,
        out: &mut Vec<Observed>,
    ) -> Result<(), Stuck> {
        let is_auth = code == Some(AUTH_REQUIRED);
        let what = match self.stage {
            Stage::Session if is_auth => return self.authenticate(error, out),
            Stage::Session if self.replays => return self.not_resumed(error, code, out),
            Stage::Session => "it opens no session".to_owned(),
            Stage::List => return Err(self.not_now()),
            Stage::Settings => match self.settings.front() {
                Some(setting) => format!("it refuses {setting}"),
                None => "it refuses an option".to_owned(),
            },
            Stage::Authenticate => {
                return Err(Stuck { error: self.how_to_sign_in(error), auth: true });
            }
            _ => "it can't be talked to".to_owned(),
        };
        Err(Stuck { error: format!("{what}: {error}"), auth: is_auth })
    }

    /// What interrupts the turn: the protocol wants whatever the agent asks for
    /// to be answered, too.
    pub fn cancel(&self, asked: &[Value]) -> Option<Message> {
        let id = self.session.clone()?;
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        let mut lines = vec![outgoing::notification(
            AGENT_METHOD_NAMES.session_cancel,
            &CancelNotification::new(id),
        )];
        lines.extend(asked.iter().map(|id| outgoing::answer(id, &cancelled).line));
        Some(Message { key: "cancel".to_owned(), line: lines.join("\n") })
    }

    fn open_session(&mut self, key: &str, id: u32, out: &mut Vec<Observed>) -> Result<(), Stuck> {
        self.stage = Stage::Session;
        let Some(dialogue) = self.dialogue.clone() else { return Ok(()) };
        let Dialogue { cwd, mcp_servers, resumes, load_as, .. } = dialogue;
        let Some(session) = resumes else {
            let request = NewSessionRequest::new(cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_new, &request, out);
            return Ok(());
        };
        let can = self.agent.as_ref().map(|agent| &agent.agent_capabilities);
        if can.is_some_and(|can| can.session_capabilities.resume.is_some()) {
            self.session = Some(session.clone());
            let request = ResumeSessionRequest::new(session, cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_resume, &request, out);
        } else if can.is_some_and(|can| can.load_session) {
            let session = load_as.map_or(session.clone(), |form| form.replace("{id}", &session));
            self.session = Some(session.clone());
            let request = LoadSessionRequest::new(session, cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_load, &request, out);
        } else {
            return Err(lost("it can't resume one", out));
        }
        self.replays = true;
        Ok(())
    }

    /// Only the agent's own word that it does not know the session means that it is
    /// lost. What else keeps it from resuming one may pass.
    fn not_resumed(
        &mut self,
        error: &str,
        code: Option<i64>,
        out: &mut Vec<Observed>,
    ) -> Result<(), Stuck> {
        let quirks = self.dialogue.as_ref().map(|dialogue| &dialogue.quirks);
        if quirks.is_some_and(|quirks| quirks.is_lost(error)) {
            return Err(lost(error, out));
        }
        if let Some(InitializeResponse { agent_capabilities: can, .. }) = &mut self.agent
            && code == Some(METHOD_NOT_FOUND)
        {
            // Some offer what they don't have: it is loaded, if that is not it.
            if can.session_capabilities.resume.take().is_none() {
                can.load_session = false;
            }
            return self.open_session("session-again", 6, out);
        }
        let lists = self
            .agent
            .as_ref()
            .is_some_and(|agent| agent.agent_capabilities.session_capabilities.list.is_some());
        error.clone_into(&mut self.refusal);
        if quirks.is_some_and(|quirks| quirks.lists_sessions) && lists {
            self.stage = Stage::List;
            self.list(None, out);
            return Ok(());
        }
        Err(self.not_now())
    }

    fn not_now(&self) -> Stuck {
        let refusal = &self.refusal;
        let error =
            format!("it did not resume its session, the next prompt tries again: {refusal}");
        Stuck { error, auth: false }
    }

    fn list(&self, cursor: Option<&str>, out: &mut Vec<Observed>) {
        let cwd = self.dialogue.as_ref().map(|dialogue| &dialogue.cwd);
        let mut params = json!({ "cwd": cwd });
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        let (key, id) = (format!("list:{}", self.pages), 100 + self.pages);
        self.ask(&key, id, AGENT_METHOD_NAMES.session_list, &params, out);
    }

    /// A page of the sessions that the agent knows.
    fn listed(&mut self, result: &Value, out: &mut Vec<Observed>) -> Result<(), Stuck> {
        let sessions = result["sessions"].as_array().into_iter().flatten();
        let mut ids = sessions.filter_map(|session| session["sessionId"].as_str());
        let is_known = ids.any(|id| self.session.as_deref() == Some(id));
        self.pages += 1;
        match result["nextCursor"].as_str() {
            _ if is_known || self.pages >= PAGES_MAX => Err(self.not_now()),
            Some(cursor) => {
                self.list(Some(cursor), out);
                Ok(())
            }
            None if result["sessions"].is_array() => Err(lost(&self.refusal, out)),
            None => Err(self.not_now()),
        }
    }

    fn opened(&mut self, result: &Value, out: &mut Vec<Observed>) -> Result<(), Stuck> {
        if let Some(id) = result["sessionId"].as_str() {
            self.session = Some(id.to_owned());
        }
        let dialogue = self.dialogue.as_ref();
        let known = dialogue.and_then(|dialogue| dialogue.resumes.clone());
        out.extend(known.or(self.session.clone()).map(Observed::ExecutorSession));
        if dialogue.is_some() && self.session.is_none() {
            return Err(Stuck { error: "it tells no session".to_owned(), auth: false });
        }
        if let (Some(dialogue), Some(session)) = (dialogue, &self.session) {
            let error = |error| Stuck { error, auth: false };
            self.settings = settings::of(session, &dialogue.settings, result).map_err(error)?;
            // Some agents go on replaying after their answer, but not after the next one.
            if self.replays && self.settings.is_empty() {
                self.settings.extend(settings::same_mode(session, result));
            }
        }
        self.go_on(out);
        Ok(())
    }

    /// The next setting, or else the prompt.
    fn go_on(&mut self, out: &mut Vec<Observed>) {
        if let Some(next) = self.settings.front() {
            self.stage = Stage::Settings;
            out.push(Observed::Say(next.message.clone()));
            return;
        }
        self.stage = Stage::Prompt;
        if let (Some(dialogue), Some(session)) = (&self.dialogue, &self.session) {
            let request =
                PromptRequest::new(session.clone(), vec![dialogue.prompt.as_str().into()]);
            self.ask("prompt", 3, AGENT_METHOD_NAMES.session_prompt, &request, out);
            out.push(Observed::Interrupt(self.cancel(&[])));
        }
    }

    /// By the method that is configured, or one that takes a key from the
    /// environment: the others need a person.
    fn authenticate(&mut self, error: &str, out: &mut Vec<Observed>) -> Result<(), Stuck> {
        let wanted = self.dialogue.as_ref().and_then(|dialogue| dialogue.auth_method.clone());
        let methods = self.agent.iter().flat_map(|agent| &agent.auth_methods);
        let by_key =
            |method: &AuthMethod| method.meta().is_some_and(|meta| meta.contains_key("api-key"));
        let found =
            methods.clone().find(|method| by_key(method)).map(|method| method.id().to_string());
        match wanted.or(found) {
            Some(method) if !self.authenticated => {
                (self.authenticated, self.stage) = (true, Stage::Authenticate);
                let request = AuthenticateRequest::new(method);
                self.ask("authenticate", 4, AGENT_METHOD_NAMES.authenticate, &request, out);
                Ok(())
            }
            _ => Err(Stuck { error: self.how_to_sign_in(error), auth: true }),
        }
    }

    fn how_to_sign_in(&self, error: &str) -> String {
        let methods = self.agent.iter().flat_map(|agent| &agent.auth_methods);
        let ways: Vec<String> = methods
            .map(|method| match method.description() {
                Some(description) => format!("{} ({description})", method.name()),
                None => method.name().to_owned(),
            })
            .collect();
        format!("it wants a sign-in: {error}; its ways: {}", ways.join(", "))
    }

    fn ask(
        &self,
        key: &str,
        id: u32,
        method: &str,
        params: &impl Serialize,
        out: &mut Vec<Observed>,
    ) {
        if self.dialogue.is_some() {
            out.push(Observed::Say(outgoing::request(key, id, method, params)));
        }
    }
}

/// The session is gone; a turn in a new one follows.
fn lost(error: &str, out: &mut Vec<Observed>) -> Stuck {
    out.push(Observed::SessionLost);
    Stuck { error: format!("it does not know its session any more: {error}"), auth: false }
}
