//! What an agent has begun in the background and not seen the end of. The protocol has no word for it:
//! it is known from the words of the tools that begin it, and from the agents' own notices. Pure.

use std::collections::BTreeMap;

use crate::executors::prelude::*;

/// How a tool's result begins that tells of work that goes on, another part of it, and what stands
/// before the id of that work.
const BEGUN: [(&str, &str, &str); 3] = [
    // Qwen Code 0.24: a command, a subagent.
    ("Background shell started.", "status file: ", "id: "),
    ("Background agent launched successfully.", "in the background", "task_id: "),
    // Kimi Code 2.1: either, and a command that it has moved there after a minute.
    ("task_id: ", "automatic_notification: true", "task_id: "),
];
/// What a result says of work that has ended.
const ENDED: [&str; 5] = ["completed", "failed", "killed", "cancelled", "stopped"];

/// Descriptions, by the agent's ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Background(BTreeMap<String, String>);

impl Background {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorted by id.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.values()
    }

    /// Reads the result of a tool call.
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
            // Of one that the agent has asked about.
            None if line("status: ").is_some_and(|status| ENDED.contains(&status.trim())) => {
                id("task_id: ").map(|ended| self.0.remove(ended));
            }
            None => {}
        }
    }

    /// Reads the notice that Qwen Code puts beside a message. `true`: it is one.
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
