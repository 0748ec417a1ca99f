//! The client's side of the conversation, up to the prompt. The client sends one request at a time, each
//! after the answer to the one before.
//!
//! ```text
//!  Initialize ─▶ Session ─────────────▶ Settings (each in turn) ─▶ Prompt ─stopReason─▶ Over
//!                 │ ▲  session/new, /resume, /load or /fork          (normalize.rs)
//!   auth required │ │ again
//!                 ▼ │
//!             Authenticate ─refused─▶ Over: a person has to sign in
//!
//!  Session, not resumed ─ unknown session ───────────▶ Over, SessionLost: the next turn begins a new one
//!                       ├ method not found ──────────▶ Session again, by another method
//!                       ├ agent lists its sessions ──▶ List ─ not in it ─▶ Over, SessionLost
//!                       └ any other reason ──────────▶ Over: the next prompt tries again
//! ```

use std::collections::VecDeque;
use std::path::PathBuf;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AuthMethod, AuthenticateRequest, CancelNotification, ClientCapabilities,
    ForkSessionRequest, Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest,
    McpServer, NewSessionRequest, PromptRequest, ResumeSessionRequest,
};

use super::settings::{self, Setting};
use super::{request, respond};
use crate::executors::prelude::*;

/// What the client has to say to a process. It is stored with the process, so that the next daemon can
/// continue the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dialogue {
    pub prompt: String,
    pub cwd: PathBuf,
    /// The agent's id of the session to resume.
    pub resumes: Option<String>,
    /// The session is another attempt's, so this one continues in a copy of it.
    pub forks: bool,
    pub mcp_servers: Vec<McpServer>,
    /// Names and values of `mode`, `model` and the agent's own options, in the order in which they are set.
    pub settings: Vec<(String, String)>,
    /// The id of the authentication method to use if the agent demands authentication.
    pub auth_method: Option<String>,
    /// The form of the id under which a session is loaded, with `{id}` for the session's id.
    pub load_as: Option<String>,
    pub quirks: Quirks,
}

/// In what an agent differs from the protocol; all of it is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quirks {
    /// The names of the MCP servers that we gave it.
    pub servers: Vec<String>,
    /// A message with this prefix reports a failure of the model.
    pub failure_prefix: Option<String>,
    /// A message with one of these prefixes, separated by `|`, is from the agent and not from its model.
    pub notice_prefix: Option<String>,
    /// A turn that ends without a message has failed: the agent does not report failures of its model.
    pub silence_is_failure: bool,
    /// It reports nothing about what it does after its answer, when its work in the background has ended. So
    /// it is asked to wait for that work within the turn.
    pub is_silent_between: bool,
    /// Phrases with which it says that it does not know a session; empty: those of most agents.
    pub lost: Vec<String>,
    /// A session that is not in its list is unknown to it.
    pub lists_sessions: bool,
    /// Which field of its permission requests the agent itself fills with the tool's name:
    /// `meta`, `title` or `id`. `None`: no field.
    pub own_tools: Option<String>,
    /// What separates a server's name from the name of its tool; `None`: a dash.
    pub mcp_separator: Option<String>,
}

impl Quirks {
    /// The failure of the model that a message reports; `None`: it reports none.
    pub fn failure(&self, text: &str) -> Option<String> {
        let failure = text.strip_prefix(self.failure_prefix.as_deref()?)?;
        Some(failure.trim().to_owned())
    }

    /// Whether an error says that the agent does not know the session.
    pub fn is_lost(&self, error: &str) -> bool {
        if self.lost.is_empty() {
            vocabulary::is_lost_session(error)
        } else {
            vocabulary::contains_any(error, &self.lost)
        }
    }
}

/// Which answer the client waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DialogueStage {
    #[default]
    Initialize,
    Authenticate,
    Session,
    /// The list of sessions.
    List,
    Settings,
    Prompt,
    /// None: the turn has ended.
    Over,
}

/// The state of the conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversation {
    /// `None`: a recorded conversation of another client is read, and nothing is sent.
    pub dialogue: Option<Dialogue>,
    pub stage: DialogueStage,
    /// The agent's id of the session.
    pub session: Option<String>,
    /// The session is resumed, so updates before the prompt may repeat earlier turns.
    pub replays: bool,
    agent: Option<InitializeResponse>,
    /// The settings that are still to be made; the request for the first one has been sent.
    settings: VecDeque<Setting>,
    authenticated: bool,
    /// The agent's reason for not resuming the session, while its list is read.
    refusal: String,
    /// How many pages of the list of sessions were read.
    pages: u32,
}

/// JSON-RPC's code for an unknown method, and the protocol's code for a request that
/// demands authentication.
const METHOD_NOT_FOUND: i64 = -32601;
const AUTH_REQUIRED: i64 = -32000;

/// Most pages that are read of a list of sessions.
const PAGES_MAX: u32 = 50;

/// Why a conversation can't continue. The turn ends with it.
#[derive(Debug, PartialEq)]
pub struct Stuck {
    pub error: String,
    /// A person has to sign in.
    pub auth: bool,
}

impl From<String> for Stuck {
    fn from(error: String) -> Self {
        Self { error, auth: false }
    }
}

impl Conversation {
    /// A conversation at its beginning.
    pub fn new(dialogue: Option<Dialogue>) -> Self {
        Self { dialogue, ..Self::default() }
    }

    /// Sends the first request. This client offers no files and no terminal: the agent has its own tools.
    pub fn begin(&mut self, out: &mut Out) {
        let implementation = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::default())
            .client_info(implementation);
        self.ask("initialize", 1, AGENT_METHOD_NAMES.initialize, &request, out);
    }

    /// Takes an answer to a request other than the prompt, and sends the next request.
    pub fn answered(&mut self, result: &Value, out: &mut Out) -> Result<(), Stuck> {
        match self.stage {
            DialogueStage::Initialize => {
                self.agent = InitializeResponse::deserialize(result).ok();
                self.open_session("session", 2, out)
            }
            DialogueStage::Authenticate => self.open_session("session-signed-in", 5, out),
            DialogueStage::Session => self.opened(result, out),
            DialogueStage::List => self.listed(result, out),
            DialogueStage::Settings => {
                self.settings.pop_front();
                self.go_on(out);
                Ok(())
            }
            DialogueStage::Prompt | DialogueStage::Over => Ok(()),
        }
    }

    /// Takes an error in answer to a request other than the prompt. It may lead to another request; `Err`
    /// ends the turn.
    pub fn refused(&mut self, error: &str, code: Option<i64>, out: &mut Out) -> Result<(), Stuck> {
        let is_auth = code == Some(AUTH_REQUIRED);
        let what = match self.stage {
            DialogueStage::Session if is_auth => return self.authenticate(error, out),
            DialogueStage::Session if self.replays => return self.not_resumed(error, code, out),
            DialogueStage::Session => "it can't open a session".to_owned(),
            DialogueStage::List => return Err(self.not_now()),
            DialogueStage::Settings => {
                let setting = self.settings.front().map(Setting::to_string);
                format!("it refuses {}", setting.as_deref().unwrap_or("an option"))
            }
            DialogueStage::Authenticate => {
                return Err(Stuck { error: self.how_to_sign_in(error), auth: true });
            }
            _ => "it does not begin the conversation".to_owned(),
        };
        Err(Stuck { error: format!("{what}: {error}"), auth: is_auth })
    }

    /// The message that interrupts the turn. It also answers the agent's open requests (`asked` has their
    /// ids) as cancelled, as the protocol demands. `None`: there is no session yet.
    pub fn cancel(&self, asked: &[Value]) -> Option<Message> {
        let id = self.session.clone()?;
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        let (method, params) = (AGENT_METHOD_NAMES.session_cancel, CancelNotification::new(id));
        let cancel = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let mut lines = vec![cancel.to_string()];
        lines.extend(asked.iter().map(|id| respond(id, &cancelled).line));
        Some(Message { key: "cancel".to_owned(), line: lines.join("\n") })
    }

    /// Opens the session: a new one, a copy, or the one to resume, by whichever method the agent offers.
    /// `key` and `id` are those of the request.
    fn open_session(&mut self, key: &str, id: u32, out: &mut Out) -> Result<(), Stuck> {
        self.stage = DialogueStage::Session;
        let Some(dialogue) = self.dialogue.clone() else { return Ok(()) };
        let Dialogue { cwd, mcp_servers, resumes, load_as, forks, .. } = dialogue;
        let Some(session) = resumes else {
            let request = NewSessionRequest::new(cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_new, &request, out);
            return Ok(());
        };
        let can = self.agent.as_ref().map(|agent| &agent.agent_capabilities);
        if forks {
            if can.is_none_or(|can| can.session_capabilities.fork.is_none()) {
                return Err(lost("it can't copy a session", out));
            }
            let request = ForkSessionRequest::new(session, cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_fork, &request, out);
        } else if can.is_some_and(|can| can.session_capabilities.resume.is_some()) {
            self.session = Some(session.clone());
            let request = ResumeSessionRequest::new(session, cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_resume, &request, out);
        } else if can.is_some_and(|can| can.load_session) {
            let session = load_as.map_or(session.clone(), |form| form.replace("{id}", &session));
            self.session = Some(session.clone());
            let request = LoadSessionRequest::new(session, cwd).mcp_servers(mcp_servers);
            self.ask(key, id, AGENT_METHOD_NAMES.session_load, &request, out);
        } else {
            return Err(lost("it can't resume a session", out));
        }
        self.replays = true;
        Ok(())
    }

    /// The agent did not resume the session. The session is given up only if the agent says that it does not
    /// know it, because any other reason may be temporary.
    fn not_resumed(&mut self, error: &str, code: Option<i64>, out: &mut Out) -> Result<(), Stuck> {
        let quirks = self.dialogue.as_ref().map(|dialogue| &dialogue.quirks);
        // A copy is not tried again, whatever the reason: a new session with a summary is as good.
        let forks = self.dialogue.as_ref().is_some_and(|dialogue| dialogue.forks);
        if forks || quirks.is_some_and(|quirks| quirks.is_lost(error)) {
            return Err(lost(error, out));
        }
        if let Some(InitializeResponse { agent_capabilities: can, .. }) = &mut self.agent
            && code == Some(METHOD_NOT_FOUND)
        {
            // Some agents announce a method that they do not have. If it was `session/resume`, the session
            // is loaded instead; if it was `session/load`, no method is left.
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
            self.stage = DialogueStage::List;
            self.list(None, out);
            return Ok(());
        }
        Err(self.not_now())
    }

    /// The session was not resumed for a reason that may be temporary.
    fn not_now(&self) -> Stuck {
        let refusal = &self.refusal;
        format!("it did not resume its session, the next prompt tries again: {refusal}").into()
    }

    fn list(&self, cursor: Option<&str>, out: &mut Out) {
        let cwd = self.dialogue.as_ref().map(|dialogue| &dialogue.cwd);
        let mut params = json!({ "cwd": cwd });
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        let (key, id) = (format!("list:{}", self.pages), 100 + self.pages);
        self.ask(&key, id, AGENT_METHOD_NAMES.session_list, &params, out);
    }

    /// Reads a page of the agent's list of sessions. The session is lost only if the whole list was read
    /// without it.
    fn listed(&mut self, result: &Value, out: &mut Out) -> Result<(), Stuck> {
        let mut ids = items(result, "sessions").filter_map(|it| it["sessionId"].as_str());
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

    /// The session is open: reports its id, and begins with the settings.
    fn opened(&mut self, result: &Value, out: &mut Out) -> Result<(), Stuck> {
        if let Some(id) = result["sessionId"].as_str() {
            self.session = Some(id.to_owned());
        }
        let dialogue = self.dialogue.as_ref();
        let resumed = dialogue.filter(|dialogue| !dialogue.forks);
        let known = resumed.and_then(|dialogue| dialogue.resumes.clone());
        out.extend(known.or(self.session.clone()).map(Observed::ExecutorSession));
        if dialogue.is_some() && self.session.is_none() {
            return Err("it returned no session id".to_owned().into());
        }
        if let (Some(dialogue), Some(session)) = (dialogue, &self.session) {
            self.settings = settings::of(session, &dialogue.settings, result)?;
            // Some agents still replay earlier turns after this answer, but not after the next one. So
            // there has to be a next one before the prompt.
            if self.replays && self.settings.is_empty() {
                self.settings.extend(settings::same_mode(session, result));
            }
        }
        self.go_on(out);
        Ok(())
    }

    /// Sends the next setting, or the prompt if all are made.
    fn go_on(&mut self, out: &mut Out) {
        if let Some(next) = self.settings.front() {
            self.stage = DialogueStage::Settings;
            out.push(Observed::Say(next.message.clone()));
            return;
        }
        self.stage = DialogueStage::Prompt;
        if let (Some(dialogue), Some(session)) = (&self.dialogue, &self.session) {
            let request =
                PromptRequest::new(session.clone(), vec![dialogue.prompt.as_str().into()]);
            self.ask("prompt", 3, AGENT_METHOD_NAMES.session_prompt, &request, out);
            out.push(Observed::Interrupt(self.cancel(&[])));
        }
    }

    /// Asks the agent with a second prompt to wait for its own work in the background, within the same turn.
    pub fn wait_for_background(&mut self, names: &str, out: &mut Out) {
        if let Some(session) = &self.session {
            let text = format!(
                "This still runs in the background: {names}. Wait until it has ended, with your tool for \
                 that, and then finish your answer."
            );
            out.push(system(format!("told by Provost: {text}")));
            let request = PromptRequest::new(session.clone(), vec![text.into()]);
            self.ask("prompt-again", 7, AGENT_METHOD_NAMES.session_prompt, &request, out);
        }
    }

    /// Authenticates once, with the configured method or one that takes a key from the environment. The
    /// other methods need a person.
    fn authenticate(&mut self, error: &str, out: &mut Out) -> Result<(), Stuck> {
        let wanted = self.dialogue.as_ref().and_then(|dialogue| dialogue.auth_method.clone());
        let methods = self.agent.iter().flat_map(|agent| &agent.auth_methods);
        let by_key =
            |method: &AuthMethod| method.meta().is_some_and(|meta| meta.contains_key("api-key"));
        let found =
            methods.clone().find(|method| by_key(method)).map(|method| method.id().to_string());
        match wanted.or(found) {
            Some(method) if !self.authenticated => {
                (self.authenticated, self.stage) = (true, DialogueStage::Authenticate);
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
        format!("it demands a sign-in: {error}; its methods: {}", ways.join(", "))
    }

    /// Sends a request, unless a recording is read. Each request of a conversation has its own key, because a
    /// key is sent once to a process, and its own id.
    fn ask(&self, key: &str, id: u32, method: &str, params: &impl Serialize, out: &mut Out) {
        if self.dialogue.is_some() {
            out.push(Observed::Say(request(key, id, method, params)));
        }
    }
}

/// The agent does not know the session; the next turn begins a new one.
fn lost(error: &str, out: &mut Out) -> Stuck {
    out.push(Observed::SessionLost);
    format!("it does not know its session any more: {error}").into()
}
