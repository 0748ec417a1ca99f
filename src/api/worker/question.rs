//! What a worker asks: `askQuestion`, in both of its forms (1.0 in camelCase, v1.2 in
//! snake_case), `getImmediateAnswer` and `callCOEAgent`.

use crate::api::prelude::*;

/// The description of `askQuestion`, by which a model decides whether to call it.
pub const ASK_QUESTION: &str = "\
Use when: the task leaves a question open that the project's plan may answer.
Required: question; with any v1.2 field also context_summary and task_id.
Optional: 1.0: context, currentTaskId, searchInPlan, includeRelatedDecisions. v1.2: current_file, \
relevant_snippets, confidence_level, priority_level, possible_options. project_id.
Next: follow the answer; below 0.7 (70) read nearest: the question is in the inbox.
Avoid: asking it again; the answer is delivered to you.";

/// The fields that only form 1.0 has.
pub const FORM_1_0: &[&str] =
    &["context", "currentTaskId", "searchInPlan", "includeRelatedDecisions"];

/// The fields that form v1.2 requires; none of them goes with a field of form 1.0.
pub const NEEDS_1_2: &[&str] = &["context_summary", "task_id"];

#[apply(input)]
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
    pub project_id: Option<ProjectName>,
}

/// What the asker works on.
#[apply(data)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Context {
    /// In words.
    Text(String),
    /// Facts by name; `taskId` names the task.
    Facts(Map<String, Value>),
}

/// A piece of code.
#[apply(input)]
pub struct Snippet {
    /// The file that it is from.
    pub file: String,
    /// The code.
    pub content: String,
}

/// The answer, in the form of the question.
#[apply(data)]
#[serde(untagged)]
pub enum AskQuestionOutput {
    V1_0(Box<AnswerV1_0>),
    V1_2(AnswerV1_2),
}

#[apply(camel_output)]
pub struct AnswerV1_0 {
    pub success: bool,
    /// The question.
    pub question: String,
    /// The answer of the plan or of an earlier ruling.
    pub answer_from_plan: Option<String>,
    /// How sure it is that this answers the question: 0.0 to 1.0. Below 0.7 do not rely on it.
    pub confidence: f64,
    /// Source of the answer.
    pub evidence: Option<Evidence>,
    /// Advice in the same section of the plan.
    pub guidance: Option<Guidance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Near>,
    /// Other passages about the question: "section: text".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_design_choices: Vec<String>,
    /// How similar questions were decided.
    pub related_decisions: Vec<LateAnswer>,
    /// What is missing, where confidence is below 0.7.
    pub uncertainty: Option<String>,
    pub question_id: Option<String>,
    pub answers: Vec<LateAnswer>,
}

/// Where an answer is from.
#[apply(camel_output)]
pub struct Evidence {
    /// The document's path, or "ruling Q-001".
    pub source: String,
    /// Version of the plan; empty for a ruling.
    pub plan_version: String,
    /// Section, as a breadcrumb or a JSON path; empty for a ruling.
    pub section: String,
    /// The text there, verbatim.
    pub exact_quote: Option<String>,
    /// First and last line of the quote, from 1.
    pub line_numbers: Option<[usize; 2]>,
}

/// Advice beside the answer, all from the plan.
#[serde_with::skip_serializing_none]
#[apply(output)]
#[derive(Default)]
pub struct Guidance {
    /// How to build it.
    pub implementation: Option<String>,
    /// How it is animated.
    pub animation: Option<String>,
    /// How it is made accessible.
    pub accessibility: Option<String>,
    /// The code in the section, by language.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<String, String>,
}

#[apply(output)]
pub struct AnswerV1_2 {
    /// The answer of the plan or of an earlier ruling, and what is missing.
    pub answer: String,
    /// Source of the answer: document, section and lines; null without an answer.
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<Near>,
    /// How sure it is that this answers the question: 0 to 100. Below 70 do not rely on it.
    pub confidence: u8,
    /// Whether you need more information before you rely on it.
    pub follow_up_needed: bool,
    /// Whether the question went to the inbox; the answer is delivered later.
    pub escalated_to_user: bool,
    /// The question in the inbox, Q-001, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
    pub answers: Vec<LateAnswer>,
}

/// A passage of a plan, verbatim, with its place.
#[apply(output)]
pub struct Near {
    /// The document's path.
    pub document: String,
    /// Version of the plan.
    pub version: String,
    /// Section, as a breadcrumb or a JSON path.
    pub section: String,
    /// First and last line, from 1.
    pub lines: [usize; 2],
    /// The text there, verbatim.
    pub quote: String,
}

/// The description of `getImmediateAnswer`, by which a model decides whether to call it.
pub const GET_IMMEDIATE_ANSWER: &str = "\
Use when: you can't continue without an answer and want to wait for it.
Next: continue; after TIMEOUT createTicket: the answer is still delivered.
Avoid: questions that can wait; askQuestion answers at once.";

#[apply(input)]
pub struct GetImmediateAnswerInput {
    /// What you want to know, in 1 to 400 characters.
    pub query: Text<1, 400>,
    /// Facts that it depends on; task_id names the task.
    pub context_bundle: Option<Map<String, Value>>,
    /// Seconds to wait; 30 by default, 600 at most.
    pub max_wait_seconds: Limit<30, 600>,
    pub project_id: Option<ProjectName>,
}

#[apply(output)]
pub struct GetImmediateAnswerOutput {
    pub answer: String,
    /// Its source: document, section and lines, or Q-001 and who answered it.
    pub source: Option<String>,
    /// false: a wait without an answer ends with the error TIMEOUT.
    pub timeout: bool,
    pub answers: Vec<LateAnswer>,
}

/// The description of `callCOEAgent`, by which a model decides whether to call it.
pub const CALL_COE_AGENT: &str = "\
Use when: only the code can answer, and another agent should read it.
Next: continue; after TIMEOUT createTicket: the answer is still delivered.
Avoid: questions about the plan; askQuestion is quicker and quotes it.";

#[apply(input)]
pub struct CallCoeAgentInput {
    /// What you want to know.
    pub query: Text<1, 4000>,
    /// What you work on: text, or {"taskId": "TASK-001"}.
    pub context: Option<Context>,
    pub task_id: Option<Text<1, 64>>,
    /// Seconds to wait for the answer; at most 600.
    pub max_wait_seconds: Option<Limit<30, 600>>,
    pub project_id: Option<ProjectName>,
}

#[apply(camel_output)]
pub struct CallCoeAgentOutput {
    pub success: bool,
    /// What the agent answered.
    pub answer: String,
    /// The executor, and the attempt in which it answered.
    pub source: String,
    /// The question, Q-001; absent where an earlier ruling answered.
    pub question_id: Option<String>,
}

tools! { AskTools: read ask_question(AskQuestionInput) -> AskQuestionOutput; }

tools! {
    ImmediateTools:
    read get_immediate_answer(GetImmediateAnswerInput) -> GetImmediateAnswerOutput;
}

tools! { ConsultTools: read call_coe_agent(CallCoeAgentInput) -> CallCoeAgentOutput; }
