//! The one inbox: what agents ask permission for and what workers ask, in one list with pages,
//! decided by one tool.

use serde_json::{Value, json};

use crate::conversations::{pending, with_agent};
use crate::harness::Provost;

/// Everything in the inbox, page by page.
fn pages(provost: &Provost, limit: u64, status: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut approvals, mut questions) = (Vec::new(), Vec::new());
    let mut asked = json!({"limit": limit, "status": status});
    loop {
        let page = provost.call("list_inbox", &asked);
        let listed = |name: &str| page[name].as_array().unwrap().clone();
        let (some, others) = (listed("approvals"), listed("questions"));
        assert!(some.len() + others.len() <= usize::try_from(limit).unwrap(), "{page}");
        assert!(some.is_empty() || questions.is_empty(), "approvals come first");
        approvals.extend(some);
        questions.extend(others);
        if page["has_more"] == false {
            assert!(page["next_cursor"].is_null());
            return (approvals, questions);
        }
        asked["cursor"] = page["next_cursor"].clone();
    }
}

#[test]
fn the_inbox_has_both_lists_and_answer_decides_in_both() {
    let provost = Provost::running();
    let board = provost.board();
    for title in ["one", "two", "three"] {
        provost.call("createTicket", &json!({"project_id": board.project_id, "title": title}));
    }
    for limit in [1, 2, 3, 20] {
        let (approvals, questions) = pages(&provost, limit, "open");
        let handles: Vec<&str> =
            questions.iter().map(|it| it["handle"].as_str().unwrap()).collect();
        assert_eq!((approvals.len(), handles), (0, vec!["TK-003", "TK-002", "TK-001"]), "{limit}");
    }

    let first = json!({"question_id": "TK-001", "answer": "seen", "request_id": "one"});
    let answered = provost.answer("answer", &first);
    assert_eq!(answered.value["handle"], "TK-001");
    let again = provost.answer("answer", &first);
    assert!(again.is_deduplicated);
    assert_eq!(again.text, answered.text);
    let other = json!({"question_id": "TK-002", "answer": "seen", "request_id": "one"});
    assert_eq!(provost.refusal("answer", &other)["code"], "idempotency_conflict");
    let refusal = provost.refusal("answer", &first_again(&first));
    assert!(refusal["hint"].as_str().unwrap().contains("list_inbox"), "{refusal}");

    let listed = provost.verb(["tools", "--json"]).json();
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"list_inbox") && names.contains(&"answer"));
    for former in ["list_approvals", "list_questions"] {
        let call = json!({"name": former, "arguments": {}});
        let gone = provost.connect().ask("tools/call", &call).to_string();
        assert!(gone.contains("list_inbox"), "{gone}");
    }
}

/// The same decision as a call of its own.
fn first_again(call: &Value) -> Value {
    let mut call = call.clone();
    call["request_id"] = json!("two");
    call
}

#[test]
fn a_permission_and_a_question_stand_in_one_list() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let board = provost.board();
    provost.call("createTicket", &json!({"project_id": board.project_id, "title": "look"}));
    let asking = board.start("agent", "ask make\nsay done");
    let asked = pending(&provost, &asking);
    for limit in [1, 2] {
        let (approvals, questions) = pages(&provost, limit, "open");
        assert_eq!((approvals, questions.len()), (vec![asked.clone()], 1), "{limit}");
    }
    let next = asking.status()["next_action"].clone();
    assert!(next.as_str().unwrap().contains("call list_inbox"), "{next}");
    let output = provost.verb(["inbox"]);
    assert!(output.stdout.contains("TK-001") && output.stdout.contains("approval"), "{output:?}");
    let of_attempt = provost.call("list_inbox", &json!({"attempt_id": asking.id}));
    assert_eq!((&of_attempt["approvals"][0], &of_attempt["questions"]), (&asked, &json!([])));
    let of_project = provost.call("list_inbox", &json!({"project_id": board.project_id}));
    assert_eq!(of_project["questions"][0]["handle"], "TK-001");
    assert_eq!(of_project["approvals"], json!([]));
    let both = json!({"attempt_id": asking.id, "project_id": board.project_id});
    assert_eq!(provost.refusal("list_inbox", &both)["code"], "invalid_argument");
    let bad = provost.refusal("list_inbox", &json!({"cursor": "nonsense"}));
    assert_eq!(bad["details"]["path"], "cursor");
    let id = &asked["approval_id"];
    let half = provost.refusal("answer", &json!({"approval_id": id, "answer": "yes"}));
    assert_eq!(half["code"], "invalid_argument", "{half}");
    let hint = "Call answer again with decision instead of answer.";
    assert_eq!(half["hint"], hint, "{half}");
    let other = json!({"question_id": "TK-001", "decision": "deny"});
    let other = provost.refusal("answer", &other);
    assert_eq!(other["hint"], "Call answer again with answer instead of decision.", "{other}");
    let approve = json!({"approval_id": id, "decision": "approve", "request_id": "yes"});
    let answered = provost.answer("answer", &approve);
    assert_eq!(
        (&answered.value["status"], &answered.value["attempt_id"]),
        (&json!("approved"), &json!(asking.id))
    );
    assert_eq!(provost.answer("answer", &approve).text, answered.text);
    let without_key = json!({"approval_id": id, "decision": "approve"});
    assert_eq!(provost.call("answer", &without_key), answered.value);
    assert_eq!(asking.settled()["final_message"], "done");
}
