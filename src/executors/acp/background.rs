//! What an agent has begun in the background and what has not ended yet. The protocol has no message for
//! it: the words of the tools that begin such work, and the agents' own notices, tell. Pure.

use std::collections::BTreeMap;

use crate::executors::prelude::*;

/// Results of tools that begin work in the background: how the result begins, another part of it, and the
/// text before the work's id.
const BEGUN: [(&str, &str, &str); 3] = [
    // Qwen Code 0.24: a command, and a subagent.
    ("Background shell started.", "status file: ", "id: "),
    ("Background agent launched successfully.", "in the background", "task_id: "),
    // Kimi Code 2.1: either of them, and a command that it moves to the background after a minute.
    ("task_id: ", "automatic_notification: true", "task_id: "),
];
/// The status of ended work in a result.
const ENDED: [&str; 5] = ["completed", "failed", "killed", "cancelled", "stopped"];

/// The descriptions of work that runs, by the agent's ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Background(BTreeMap<String, String>);

impl Background {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The descriptions, in the order of the ids.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.values()
    }

    /// Reads the result of a tool call: it may say that work has begun, or that work which the agent asked
    /// about has ended.
    pub fn see_result(&mut self, text: &str) {
        let line = |before: &str| text.lines().find_map(|line| line.trim().strip_prefix(before));
        let is_begun =
            |(first, more, _): &(&str, &str, &str)| text.starts_with(first) && text.contains(more);
        let begun = BEGUN.into_iter().find(is_begun);
        let id = |before| line(before)?.split_whitespace().next();
        match begun.and_then(|(.., before)| id(before)) {
            Some(begun) => {
                let name = line("description: ").unwrap_or(begun);
                self.0.insert(begun.to_owned(), name.to_owned());
            }
            // The agent asked about the work with a tool, and the answer says that it has ended.
            None if line("status: ").is_some_and(|status| ENDED.contains(&status.trim())) => {
                id("task_id: ").map(|ended| self.0.remove(ended));
            }
            None => {}
        }
    }

    /// Reads a message's metadata, in which Qwen Code announces the end of work. `true`: it is such a notice,
    /// and no message of the model.
    pub fn see_notice(&mut self, meta: Option<&Map<String, Value>>) -> bool {
        let Some(task) = meta.and_then(|meta| meta.get("backgroundTask")) else { return false };
        if text(task, "status") != "running" {
            self.0.remove(text(task, "taskId"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_say_what_they_begin_and_agents_what_has_ended() {
        let mut background = Background::default();
        background.see_result("Background shell started.\nid: bg_05196b1c\nstatus file: /x\n");
        background.see_result(
            "task_id: bash-xl1t0afy\npid: 3684\ndescription: Waits\nstatus: running\n\
             automatic_notification: true\nnext_step: The completion arrives automatically",
        );
        background.see_result(
            "Background agent launched successfully.\ntask_id: general-purpose-call_15 (internal ID)\n\
             The agent is working in the background.",
        );
        background.see_result("a file with the words task_id: x and status: completed");
        let names: Vec<_> = background.names().cloned().collect();
        assert_eq!(names, ["Waits", "bg_05196b1c", "general-purpose-call_15"]);
        background.see_result("task_id: bash-xl1t0afy\nstatus: completed\noutput: …");
        let notice = json!({"backgroundTask": {"taskId": "bg_05196b1c", "status": "completed"}});
        assert!(background.see_notice(notice.as_object()));
        assert!(!background.see_notice(json!({"usage": {}}).as_object()));
        let names: Vec<_> = background.names().cloned().collect();
        assert_eq!(names, ["general-purpose-call_15"]);
    }
}
