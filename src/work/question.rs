//! `askQuestion` in both of its forms: 1.0 in camelCase, v1.2 in snake_case. A field that only v1.2 has shows
//! that a call uses that form.

use crate::api::args::Between;
use crate::api::worker::question::{
    AskQuestionInput, CallCoeAgentInput, Context, GetImmediateAnswerInput, Snippet,
};
use crate::api::worker::ticket::Urgency;
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

/// The longest question of v1.2, in characters.
const QUESTION_MAX: usize = 300;

/// The longest text of all snippets of v1.2 together, in characters.
const SNIPPETS_MAX: usize = 2000;

/// The fields that make up the context of a question.
const CONTEXT: [&str; 6] = [
    "context",
    "context_summary",
    "current_file",
    "relevant_snippets",
    "possible_options",
    "confidence_level",
];

impl Context {
    /// The task that the context names.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Facts(facts) => facts.get("taskId")?.as_str(),
            Self::Text(_) => None,
        }
    }
}

impl AskQuestionInput {
    /// Whether the call has the v1.2 form: it uses a field that 1.0 does not have.
    pub fn is_v1_2(&self) -> bool {
        self.context_summary.is_some()
            || self.current_file.is_some()
            || self.relevant_snippets.is_some()
            || self.task_id.is_some()
            || self.confidence_level.is_some()
            || self.priority_level.is_some()
            || self.possible_options.is_some()
    }

    /// The task that the question is about: by the call's own field, else by its context.
    pub fn task(&self) -> Option<&str> {
        let in_context = self.context.as_ref().and_then(Context::task);
        self.task_id.as_deref().or(self.current_task_id.as_deref()).or(in_context)
    }

    /// Checks the rules of the form. `token_limit` limits question and context together.
    ///
    /// # Errors
    /// `token_limit_exceeded` above 80 % of the limit; `missing_required` and `invalid_argument` if v1.2's
    /// rules are broken.
    pub fn check(&self, token_limit: u64) -> Result<(), Refusal> {
        check_tokens(self.tokens(), token_limit)?;
        if !self.is_v1_2() {
            return Ok(());
        }
        for (field, is_there) in [
            ("context_summary", self.context_summary.is_some()),
            ("task_id", self.task_id.is_some()),
        ] {
            if !is_there {
                let message = format!("askQuestion needs `{field}` in its v1.2 form");
                return Err(Refusal::new(Code::MissingRequired, message)
                    .hint(format!("Call the tool again with {field}, which v1.2 needs."))
                    .detail("path", field));
            }
        }
        if self.question.chars().count() > QUESTION_MAX {
            return Err(invalid("question", "the question has more than 300 characters"));
        }
        let snippets =
            self.snippets().map(|snippet| snippet.content.chars().count()).sum::<usize>();
        if snippets > SNIPPETS_MAX {
            let message = "the snippets have more than 2000 characters";
            return Err(invalid("relevant_snippets", message));
        }
        Ok(())
    }

    fn snippets(&self) -> impl Iterator<Item = &Snippet> {
        self.relevant_snippets.iter().flat_map(|snippets| snippets.iter())
    }

    /// Roughly how many tokens the question and its context have.
    fn tokens(&self) -> u64 {
        let context = match &self.context {
            Some(Context::Text(text)) => text.chars().count(),
            Some(Context::Facts(facts)) => json!(facts).to_string().chars().count(),
            None => 0,
        };
        let summary = self.context_summary.as_ref().map_or(0, |text| text.chars().count());
        let snippets: usize =
            self.snippets().map(|it| it.file.chars().count() + it.content.chars().count()).sum();
        let options: usize = self
            .possible_options
            .iter()
            .flat_map(|it| it.iter())
            .map(|it| it.chars().count())
            .sum();
        tokens(self.question.chars().count() + context + summary + snippets + options)
    }

    /// The context of the question as JSON, for the person or agent that answers; `None`: there is none.
    pub fn context_json(&self) -> Option<Value> {
        let mut given = json!(self);
        let given = CONTEXT.iter().map(|name| ((*name).to_owned(), given[name].take()));
        let fields: Map<String, Value> = given.filter(|(_, value)| !value.is_null()).collect();
        (!fields.is_empty()).then_some(Value::Object(fields))
    }

    /// How urgent the answer is; by default medium.
    pub fn urgency(&self) -> Urgency {
        match self.priority_level.map(Between::get) {
            Some(1) => Urgency::High,
            Some(3) => Urgency::Low,
            _ => Urgency::Medium,
        }
    }

    /// The names of sections in `searchInPlan`, which `|` separates.
    pub fn terms(&self) -> Vec<String> {
        let terms = self.search_in_plan.iter().flat_map(|terms| terms.split('|'));
        terms.map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
    }
}

/// Roughly how many tokens a text of this many characters has: four characters are one token in English.
fn tokens(characters: usize) -> u64 {
    u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX)
}

/// Refuses a question that is too long together with its context; the same limit as for `askQuestion`.
pub fn check_length(question: &str, context: Option<&Value>, limit: u64) -> Result<(), Refusal> {
    let beside = context.map_or(0, |context| context.to_string().chars().count());
    check_tokens(tokens(question.chars().count() + beside), limit)
}

fn invalid(field: &str, message: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, message)
        .hint(format!("Call the tool again with {field}, as its description says."))
        .detail("path", field)
}

/// Refuses with `token_limit_exceeded` above 80 % of the limit.
fn check_tokens(tokens: u64, limit: u64) -> Result<(), Refusal> {
    if tokens.saturating_mul(5) <= limit.saturating_mul(4) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::TokenLimitExceeded,
        format!(
            "question and context are about {tokens} tokens, more than 80 % of the limit of {limit}"
        ),
    )
    .hint("Call the tool again with a shorter context.")
    .detail("tokens", tokens)
    .detail("token_limit", limit))
}

impl GetImmediateAnswerInput {
    /// The task that the call's context names.
    pub fn task(&self) -> Option<&str> {
        let bundle = self.context_bundle.as_ref()?;
        ["task_id", "taskId"].iter().find_map(|name| bundle.get(*name)?.as_str())
    }
}

impl CallCoeAgentInput {
    /// The task that the call names.
    pub fn task(&self) -> Option<&str> {
        self.task_id.as_deref().or(self.context.as_ref().and_then(Context::task))
    }
}
