//! `askQuestion`, in both of its forms: 1.0 in camelCase, v1.2 in snake_case. The fields
//! that only one form has tell which one a call uses.

use super::answer::nearest::Near;
use crate::api::args::{Between, List, Text};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::ticket::Urgency;
use provost_actors::refusal::{Code, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const ASK_QUESTION: &str = "\
Use when: the task leaves something open that the project's plan may settle.
Required: question; with any v1.2 field also context_summary and task_id.
Optional: 1.0: context, currentTaskId, searchInPlan, includeRelatedDecisions. v1.2: current_file, \
relevant_snippets, confidence_level, priority_level, possible_options. project_id.
Next: follow the answer; below 0.7 (70) read nearest: the question is in the inbox.
Avoid: asking it again; the answer is delivered to you.";

/// The fields that only one form has.
pub const FORM_1_0: &[&str] =
    &["context", "currentTaskId", "searchInPlan", "includeRelatedDecisions"];
/// The fields that v1.2 requires.
pub const NEEDS_1_2: &[&str] = &["context_summary", "task_id"];

/// Longest question and snippets of v1.2, in characters.
const QUESTION_MAX: usize = 300;

const SNIPPETS_MAX: usize = 2000;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskQuestionInput {
    /// One question; v1.2: 300 characters at most.
    pub question: Text<1, 4_000_000>,
    /// 1.0: what you work on: text, or {"taskId": "TASK-001"}.
    pub context: Option<Context>,
    /// 1.0: your task, TASK-001 or a UUID.
    #[serde(rename = "currentTaskId")]
    pub current_task_id: Option<Text<1, 64>>,
    /// 1.0: terms or sections to look at first, separated by |.
    #[serde(rename = "searchInPlan")]
    pub search_in_plan: Option<String>,
    /// 1.0: false leaves out earlier decisions.
    #[serde(rename = "includeRelatedDecisions")]
    pub include_related_decisions: Option<bool>,
    /// v1.2: what you work on.
    pub context_summary: Option<String>,
    /// v1.2: the file that you work on.
    pub current_file: Option<Text<0, 4096>>,
    /// v1.2: the code in question, 2000 characters at most.
    pub relevant_snippets: Option<List<Snippet, 0, 2000>>,
    /// v1.2: your task, TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    /// v1.2: how sure you are of your own answer, 0 to 100.
    pub confidence_level: Option<Between<0, 100>>,
    /// v1.2: 1 (you can't continue) to 3; by default 2.
    pub priority_level: Option<Between<1, 3>>,
    /// v1.2: the answers that you consider.
    pub possible_options: Option<List<Text<0, 1000>, 0, 50>>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

/// What the asker works on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Context {
    /// In words.
    Text(String),
    /// Facts by name; `taskId` names the task.
    Facts(Map<String, Value>),
}

impl Context {
    /// The task that it names.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Facts(facts) => facts.get("taskId")?.as_str(),
            Self::Text(_) => None,
        }
    }
}

/// A piece of code.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snippet {
    /// The file that it is from.
    pub file: String,
    /// The code.
    pub content: String,
}

/// Which of its two forms a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    V1_0,
    V1_2,
}

impl AskQuestionInput {
    /// The form that the call has: 1.0 unless it has a field that only v1.2 knows.
    pub fn form(&self) -> Form {
        let has_new = self.context_summary.is_some()
            || self.current_file.is_some()
            || self.relevant_snippets.is_some()
            || self.task_id.is_some()
            || self.confidence_level.is_some()
            || self.priority_level.is_some()
            || self.possible_options.is_some();
        if has_new { Form::V1_2 } else { Form::V1_0 }
    }

    /// The task that it names.
    pub fn task(&self) -> Option<&str> {
        let in_context = self.context.as_ref().and_then(Context::task);
        self.task_id.as_deref().or(self.current_task_id.as_deref()).or(in_context)
    }

    /// Checks the form's rules. `token_limit` bounds question and context together.
    ///
    /// # Errors
    /// `token_limit_exceeded` above 80 % of the limit, `missing_required` and
    /// `invalid_argument` where the form's rules are broken.
    pub fn check(&self, token_limit: u64) -> Result<(), Refusal> {
        check_tokens(self.tokens(), token_limit)?;
        if self.form() == Form::V1_0 {
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

    /// Roughly how many tokens the question and its context are.
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

    /// The question's context, for whoever answers it.
    pub fn context_json(&self) -> Option<Value> {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("context", self.context.as_ref().map(|context| json!(context)));
        add("context_summary", self.context_summary.as_ref().map(|text| json!(text)));
        add("current_file", self.current_file.as_ref().map(|text| json!(text)));
        add("relevant_snippets", self.relevant_snippets.as_ref().map(|list| json!(list)));
        add("possible_options", self.possible_options.as_ref().map(|list| json!(list)));
        add("confidence_level", self.confidence_level.map(|level| json!(level)));
        (!fields.is_empty()).then_some(Value::Object(fields))
    }

    /// How urgent the answer is.
    pub fn urgency(&self) -> Urgency {
        match self.priority_level.map(Between::get) {
            Some(1) => Urgency::High,
            Some(3) => Urgency::Low,
            _ => Urgency::Medium,
        }
    }

    /// The terms of `searchInPlan`.
    pub fn terms(&self) -> Vec<String> {
        let terms = self.search_in_plan.iter().flat_map(|terms| terms.split('|'));
        terms.map(|term| term.trim().to_owned()).filter(|term| !term.is_empty()).collect()
    }
}

/// Roughly how many tokens a text of so many characters is: four characters are one in English.
pub fn tokens(characters: usize) -> u64 {
    u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX)
}

fn invalid(field: &str, message: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, message)
        .hint(format!("Call the tool again with {field}, as its description says."))
        .detail("path", field)
}

/// Refuses a question that is too long together with its context.
///
/// # Errors
/// `token_limit_exceeded` above 80 % of the limit.
pub fn check_tokens(tokens: u64, limit: u64) -> Result<(), Refusal> {
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

/// The answer, in the form of the question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AskQuestionOutput {
    V1_0(Box<AnswerV1_0>),
    V1_2(AnswerV1_2),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerV1_0 {
    /// true.
    pub success: bool,
    /// The question.
    pub question: String,
    /// The answer of the plan or of an earlier ruling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_from_plan: Option<String>,
    /// How sure it is that this answers the question: 0.0 to 1.0. Below 0.7 do not rely on it.
    pub confidence: f64,
    /// Where the answer is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Advice in the same section of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance: Option<Guidance>,
    /// The passages that match the question best, five at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Near>,
    /// Other passages about the question: "section: text".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_design_choices: Vec<String>,
    /// How similar questions were decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_decisions: Vec<Decision>,
    /// What is missing, where confidence is below 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<String>,
    /// The question in the inbox, Q-001, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
    /// Answers since your last call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

/// Where an answer is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The document's path, or "ruling Q-001".
    pub source: String,
    /// Version of the plan; empty for a ruling.
    pub plan_version: String,
    /// Section, as a breadcrumb or a JSON path; empty for a ruling.
    pub section: String,
    /// The text there, verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_quote: Option<String>,
    /// First and last line of the quote, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_numbers: Option<[usize; 2]>,
}

/// Advice beside the answer, all from the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guidance {
    /// How to build it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// How it is animated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub animation: Option<String>,
    /// How it is made accessible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accessibility: Option<String>,
    /// The code in the section, by language.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, String>,
}

/// How a question was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The question, Q-001.
    pub question_id: String,
    /// Its text.
    pub question: String,
    /// The answer.
    pub answer: String,
    /// person, orchestrator, or the executor that was asked.
    pub answered_by: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerV1_2 {
    /// The answer of the plan or of an earlier ruling, and what is missing.
    pub answer: String,
    /// Where the answer is from: document, section and lines; null without an answer.
    pub source: Option<String>,
    /// The passages that match the question best, five at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Near>,
    /// How sure it is that this answers the question: 0 to 100. Below 70 do not rely on it.
    pub confidence: u8,
    /// Whether you need more before you rely on it.
    pub follow_up_needed: bool,
    /// Whether it is in the inbox now; the answer is delivered later.
    pub escalated_to_user: bool,
    /// The question in the inbox, Q-001, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
    /// Answers since your last call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}
