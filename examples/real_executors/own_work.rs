//! The checks of what agents do of their own accord: work that outlives their answer, and questions to
//! their user.

use model_server::scenario::{RUNS, WENT_ON};
use serde_json::{Value, json};

use crate::checks::Trial;
use crate::{GLANCE, Result};

impl Trial<'_> {
    /// A command and a subagent that outlive the answer are waited for, and the agent goes on.
    pub async fn background(&mut self) -> Result<String> {
        let mut notes = Vec::new();
        for what in ["background", "subagent"] {
            let attempt = self.begin(&format!("Wait for it. [[{what}:25]]")).await?;
            let status = self.completed(&attempt).await?;
            match status["final_message"].as_str().unwrap_or_default() {
                said if said.ends_with(WENT_ON) => {}
                said if said.starts_with("No tool") => notes.push(format!("offers no {what}")),
                // It waits before it answers.
                RUNS => notes.push(format!("no {what} outlives its answer")),
                said => return Err(format!("{what}: it said: {said}").into()),
            }
        }
        Ok(notes.join(", "))
    }

    /// A question gets the answer that is given, and no other.
    pub async fn question(&mut self) -> Result<String> {
        let attempt = self.begin("Ask me. [[question]]").await?;
        let asked = loop {
            let status = json!({"attempt_id": attempt});
            let status = self.client.call("get_attempt_status", status).await?;
            if status["phase"] == "settled" {
                let said = status["final_message"].as_str().unwrap_or_default();
                let offers_none = said.starts_with("No tool");
                return if offers_none {
                    Ok("offers no question".to_owned())
                } else {
                    Err(format!("it asked nothing and said: {said}").into())
                };
            }
            let inbox = json!({"attempt_id": attempt});
            let mut inbox = self.client.call("list_inbox", inbox).await?;
            if let Value::Array(mut asked) = inbox["approvals"].take()
                && let Some(first) = asked.pop()
            {
                break first;
            }
            tokio::time::sleep(GLANCE).await;
        };
        let options = &asked["question"]["options"];
        if !options.as_array().is_some_and(|options| options.contains(&json!("blue"))) {
            return Err(format!("its question has the options {options}").into());
        }
        let answer = json!({"approval_id": asked["approval_id"], "answer": "blue"});
        self.client.call("answer", answer).await?;
        let status = self.completed(&attempt).await?;
        let said = status["final_message"].as_str().unwrap_or_default();
        if said.contains("blue") && !said.contains("red") {
            return Ok(String::new());
        }
        Err(format!("it said: {said}").into())
    }
}
