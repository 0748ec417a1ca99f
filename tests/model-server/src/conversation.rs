//! What a request says and what is answered, whatever the dialect. Pure data.

use std::time::Duration;

use serde_json::Value;

/// A request for the model's next message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub model: String,
    /// Whether the answer is to be sent in pieces.
    pub streams: bool,
    /// Whether the answer may hold thinking.
    pub thinks: bool,
    /// What was said so far, in order.
    pub turns: Vec<Turn>,
    pub tools: Vec<Tool>,
    /// The JSON schema that the answer has to follow, if there is one.
    pub answer_schema: Option<Value>,
}

/// Something said to the model, or by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    User(String),
    ToolResult(String),
    Model,
}

/// A tool that the request offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    /// The group that the tool belongs to (OpenAI Responses).
    pub namespace: Option<String>,
    pub takes: Takes,
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Takes {
    /// An object of this JSON schema.
    Arguments(Value),
    /// Plain text (OpenAI's custom tools).
    Text,
    /// The query of the search for tools that are not shown (OpenAI's `tool_search`).
    Search,
}

/// What the server does about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    Say(Vec<Part>),
    Refuse(Refusal),
}

/// A piece of the model's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Thinking(String),
    /// Words to be sent one by one, with a pause before each.
    Text {
        words: Vec<String>,
        pause: Duration,
    },
    Call(Call),
}

impl Part {
    /// Text that comes at once.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let words = text.split_inclusive(' ').map(str::to_owned).collect();
        Self::Text { words, pause: Duration::ZERO }
    }
}

/// A call of one of the request's tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub name: String,
    pub namespace: Option<String>,
    pub input: Input,
}

/// As [`Takes`] tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Arguments(Value),
    Text(String),
    Search(Value),
}

/// A message of the model, to be put in a dialect's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Different for each reply; ids are made of it.
    pub number: u64,
    pub model: String,
    pub parts: Vec<Part>,
}

impl Reply {
    /// The id of one of its parts.
    #[must_use]
    pub fn id(&self, prefix: &str, part: usize) -> String {
        format!("{prefix}_{:06}_{part}", self.number)
    }

    /// Whether it calls a tool.
    #[must_use]
    pub fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }
}

/// One event of a streamed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Before it is sent.
    pub pause: Duration,
    pub event: Option<String>,
    pub data: String,
}

impl Frame {
    /// An event that needs no name, at once.
    #[must_use]
    pub fn data(data: &Value) -> Self {
        Self { pause: Duration::ZERO, event: None, data: data.to_string() }
    }

    /// An event named by its `type`, as OpenAI Responses and Anthropic have them.
    #[must_use]
    pub fn typed(data: &Value) -> Self {
        Self { event: data["type"].as_str().map(str::to_owned), ..Self::data(data) }
    }

    /// The same after a pause.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

/// An error in place of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    /// When to try again, if the server tells.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    RateLimit,
    Overload,
    BadKey,
    NoModel,
}

impl Refusal {
    /// A sentence for people.
    #[must_use]
    pub fn message(&self) -> String {
        let sentence = match self.reason {
            Reason::RateLimit => "Rate limit reached for requests.",
            Reason::Overload => "The model is overloaded.",
            Reason::BadKey => "Invalid API key.",
            Reason::NoModel => "The model was not found, or you have no access to it.",
        };
        match self.retry_after {
            Some(wait) => format!("{sentence} Please try again in {}s.", wait.as_secs()),
            None => sentence.to_owned(),
        }
    }
}

/// The tokens that each reply is said to have cost: of the input, of these read
/// from a cache, and of the output.
pub const TOKENS: Tokens = Tokens { input: 130, cached: 20, output: 25 };

/// Numbers of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// Those from the cache included.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}
