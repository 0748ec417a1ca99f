//! A question of an agent to its user, which arrives as a request for permission, because the protocol
//! has no form for it. Qwen Code marks it in the request's metadata, and takes the answers as texts beside
//! the option; Kimi Code makes each answer an option that allows. Pure.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest,
};
use provost_actors::executor::AgentQuestion;

use crate::executors::prelude::*;

/// A question as its request has it.
pub struct Asked {
    pub question: AgentQuestion,
    /// The questions, one in each line.
    pub text: String,
    /// The members of [`super::Choice`] with the same names, by which the answer is made.
    pub answers: Vec<(String, String)>,
    pub questions: usize,
}

/// Reads a request; `None`: it asks for permission. Two options that allow once make it a question.
pub fn read(request: &RequestPermissionRequest) -> Option<Asked> {
    let call = &request.tool_call;
    let meta = call.meta.as_ref();
    let is_qwens =
        meta.and_then(|meta| meta.get("qwenInteractionKind")) == Some(&json!("user_question"));
    let allowing: Vec<&PermissionOption> = request
        .options
        .iter()
        .filter(|option| option.kind == PermissionOptionKind::AllowOnce)
        .collect();
    if !is_qwens && allowing.len() < 2 {
        return None;
    }
    let input = call.fields.raw_input.clone().unwrap_or_default();
    let questions: Vec<&Value> = items(&input, "questions").collect();
    let asked: Vec<&str> = questions.iter().map(|one| text(one, "question")).collect();
    let text = Some(asked.join("\n")).filter(|text| !text.is_empty());
    let text = text.or(call.fields.title.clone()).unwrap_or_default();
    if is_qwens {
        let labels = |one: &&Value| items(one, "options").map(text_of).collect::<Vec<_>>();
        let options = if questions.len() == 1 { labels(&questions[0]) } else { Vec::new() };
        let question = AgentQuestion { options, is_open: true };
        let count = questions.len().max(1);
        return Some(Asked { question, text, answers: Vec::new(), questions: count });
    }
    let answers: Vec<(String, String)> =
        allowing.iter().map(|option| (option.name.clone(), option.option_id.to_string())).collect();
    let options = answers.iter().map(|(name, _)| name.clone()).collect();
    let question = AgentQuestion { options, is_open: false };
    Some(Asked { question, text, answers, questions: 0 })
}

fn text_of(option: &Value) -> String {
    text(option, "label").to_owned()
}

/// The answers to several questions, by their numbers from "0": one line for each, and the last gets all
/// further lines.
pub fn answers(text: &str, questions: usize) -> Value {
    let lines = text.splitn(questions, '\n').enumerate();
    lines.map(|(number, line)| (number.to_string(), Value::from(line.trim()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(options: &Value, meta: &Value) -> RequestPermissionRequest {
        let question = json!({"question": "Which color?", "header": "Color",
            "options": [{"label": "red"}, {"label": "blue"}]});
        let request = json!({"sessionId": "s", "options": options, "toolCall": {
            "toolCallId": "c", "title": "AskUserQuestion", "_meta": meta,
            "rawInput": {"questions": [question]}}});
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn a_question_is_no_permission() {
        let option =
            |id: &str, name: &str, kind: &str| json!({"optionId": id, "name": name, "kind": kind});
        let cancel = option("cancel", "Cancel", "reject_once");
        let submit = option("proceed_once", "Submit", "allow_once");
        let qwen = json!({"qwenInteractionKind": "user_question"});
        let asked = read(&request(&json!([submit, cancel]), &qwen)).unwrap();
        assert_eq!(
            asked.question,
            AgentQuestion { options: vec!["red".into(), "blue".into()], is_open: true }
        );
        assert_eq!((asked.text.as_str(), asked.questions), ("Which color?", 1));

        let [red, blue] = ["red", "blue"].map(|name| option(name, name, "allow_once"));
        let asked = read(&request(&json!([red, blue, cancel]), &json!(null))).unwrap();
        assert!(!asked.question.is_open);
        assert_eq!(asked.answers[1], ("blue".to_owned(), "blue".to_owned()));

        let always = option("always", "Always", "allow_always");
        assert!(read(&request(&json!([submit, always, cancel]), &json!(null))).is_none());
    }

    #[test]
    fn several_questions_are_answered_in_a_line_each() {
        assert_eq!(answers("blue", 1), json!({"0": "blue"}));
        assert_eq!(answers("blue\nbig\nand round", 2), json!({"0": "blue", "1": "big\nand round"}));
    }
}
