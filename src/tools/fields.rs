//! Translates an unknown field into the tool's own fields: by its spelling, by the name that other
//! systems have for the same thing, or by its value. Pure.

use heck::ToSnakeCase;
use provost_actors::nearest::slip;
use serde_json::{Map, Value, json};

use super::suggest::is_among;

/// A field that a tool does not have, with what is around it.
pub struct UnknownField<'a> {
    pub tool: &'a str,
    /// True if it is in an item of a list, such as `repos[0]`.
    pub is_nested: bool,
    pub name: &'a str,
    pub value: &'a Value,
    /// The other fields of the same object, with the repairs so far.
    pub beside: &'a Map<String, Value>,
    /// The fields that the object can have.
    pub known: &'a [&'a str],
    /// The fields of `known` that the call needs.
    pub needed: &'a [&'a str],
}

/// What an unknown field means.
#[derive(Debug, PartialEq)]
pub enum Sense {
    /// The same value belongs under this name, or under this path (`brief.context`) if it is a part of a
    /// field.
    Name(String),
    /// It means these fields with these values. The text is a note for the hint, or empty.
    Values(Vec<(String, Value)>, &'static str),
    /// It names a branch for the attempt's repositories, whose ids only the board knows.
    Branch,
    /// It names another kind of thing: the tool that shows it, and the field of that tool.
    Other(&'static str, &'static str),
    /// No field means it. The text says how Provost works instead.
    Nothing(&'static str),
}

/// Tools, a field, and words that callers use for that field; words are separated by blanks. A line
/// without tools is for all tools that have the field; `repos` means the items of that list.
type Synonyms = (&'static str, &'static str, &'static str);

const TASKS: &str = "create_task update_task";

/// Words that callers use for fields.
const NAMES: &[Synonyms] = &[
    ("repos", "target_branch", BRANCHES),
    ("repos", "repo_id", "id repository_id repo"),
    ("repos", "path", "repo_path git_repo_path dir directory folder root"),
    (TASKS, "brief.acceptanceCriteria", "acceptance_criteria acceptance criteria"),
    (TASKS, "brief.requirements", "requirements"),
    (TASKS, "brief.context", "context background"),
    (TASKS, "brief.estimatedHours", "estimated_hours estimate hours"),
    (TASKS, "brief.skillsRequired", "skills_required skills"),
    (TASKS, "brief.complexityLevel", "complexity_level complexity difficulty"),
    (TASKS, "brief.relatedTasks", "related_tasks related"),
    (TASKS, "brief.files.writeTo", "files paths"),
    (TASKS, "description", "prompt body details instructions text content message goal"),
    ("update_task list_tasks", "status", "state new_status column stage"),
    ("follow_up start_task_attempt", "prompt", "message text instructions input content"),
    ("follow_up start_task_attempt", "prompt", "body description"),
    ("follow_up", "action", "mode type kind command operation"),
    ("comment_on_changes", "action", "mode type kind command operation"),
    ("comment_on_changes", "text", "body comment message content note"),
    ("comment_on_changes", "path", FILES),
    ("comment_on_changes", "line", "start_line first_line line_number"),
    ("comment_on_changes", "last_line", "end_line"),
    ("answer", "decision", "action status verdict"),
    ("answer", "reason", "comment feedback note"),
    ("answer", "answer", "response text content message body reply"),
    ("tail_attempt_logs", "channel", "stream kind type mode format"),
    ("get_attempt_file", "path", FILES),
    ("get_attempt_patch", "paths", FILES),
    ("get_attempt_patch", "paths", "path files file_paths"),
    ("get_attempt_file", "start_line", "line line_number from_line line_start first_line"),
    ("get_attempt_file", "line_count", "limit count num_lines max_lines n"),
    ("wait_for_attempts", "until", "mode wait_for condition type wait_until"),
    ("wait_for_attempts", "after", "token cursor since"),
    ("wait_for_attempts", "attempt_ids", "attempt_id id workspace_id"),
    ("", "attempt_ids", "ids attempts workspace_ids"),
    ("start_task_attempt", "variant", "mode profile_variant executor_variant"),
    ("start_task_attempt", "executor", "agent profile coding_agent"),
    ("start_task_attempt", "executor", "executor_profile executor_profile_id"),
    ("create_project", "repos", "repositories repo repository repo_paths"),
    ("create_project", "repos", PATHS),
    ("start_task_attempt", "repos", "repositories repo_ids repo_id repo"),
    ("stop_attempt", "force", "hard kill force_kill immediate"),
    ("", "attempt_id", "workspace_id run_id task_attempt_id id"),
    ("", "approval_id", "approval id"),
    ("", "question_id", "question ticket_id ticket id"),
    ("", "task_id", "task handle task_handle id"),
    ("", "project_id", "project id"),
    ("", "description", "body details instructions text"),
    ("", "title", "name summary subject task_title"),
    ("", "name", "title project_name"),
    ("", "target_branch", BRANCHES),
    ("", "path", PATHS),
    ("", "limit", "count page_size max_results per_page size n lines max_lines num_lines"),
    ("", "limit", "max_entries max_items tail last"),
    ("", "cursor", "page_token next_cursor before"),
    ("", "after_entry_index", "after since offset from after_index"),
    ("", "updated_since", "since updated_after modified_since"),
    ("", "request_id", "idempotency_key client_request_id"),
    ("", "depends_on", "dependencies blocked_by parents requires"),
    ("", "priority", "prio urgency importance"),
];

/// A field `id` stands for the id that the call needs, if it needs one.
const ID: &str = "id";
const BRANCHES: &str = "branch base_branch target_branch default_branch default_target_branch base";
const FILES: &str = "file_path file filename file_name filepath";
const PATHS: &str = "path paths repo_path git_repo_path dir directory folder";

/// What callers try to say and no field means: tools, what is true instead, and the words.
const NOTHING: &[Synonyms] = &[
    (
        "create_task",
        "start_task_attempt sets an agent to work on the task",
        "executor agent variant auto_start start",
    ),
    ("create_task", "a new task is todo, and update_task sets another status", "status state"),
    (
        "start_task_attempt follow_up",
        "the executor's variant sets its model, and list_executors has the variants",
        "model",
    ),
    ("start_task_attempt", "update_task sets the task's title", "title name"),
    ("stop_attempt", "no reason is kept for a stop", "reason message"),
    (
        "stop_attempt",
        "stop_grace_ms in config.toml is the time from SIGINT to SIGKILL",
        "timeout timeout_ms timeout_seconds grace grace_ms",
    ),
    (
        "delete_task",
        "it deletes at once, except while an attempt of the task runs",
        "confirm force cascade yes",
    ),
    ("", "pages go by cursor, the next_cursor of the answer before", "page skip"),
    ("list_tasks", "status and updated_since narrow the list", "query search filter"),
    ("tail_attempt_logs", "wait_for_attempts waits for news", "follow watch wait"),
    (
        "create_project add_repo repos",
        "Provost clones nothing, path is a repository on this machine",
        "url remote clone_url git_url",
    ),
    ("", "ids are unique, and need no project beside them", "project_id project"),
];

/// Fields that name other things than the tool is about, and the tools that show those.
const OTHERS: &[(&str, &str)] =
    &[("task_id", "list_task_attempts"), ("attempt_id", "get_attempt_status")];

impl UnknownField<'_> {
    /// What the field means, if that is known. The order goes from certain to likely: the tool's own
    /// spelling, a converted value, a synonym, another tool's field, an explanation, a typing error.
    pub fn sense(&self) -> Option<Sense> {
        let name = self.name.to_snake_case();
        let spelled = self.known.iter().find(|known| known.to_snake_case() == name);
        if let Some(field) = spelled {
            return Some(Sense::Name((*field).to_owned()));
        }
        self.worked_out(&name)
            .or_else(|| self.synonym(&name))
            .or_else(|| self.other(&name))
            .or_else(|| {
                let mut lines = self.lines(NOTHING, &name);
                lines.next().map(|(_, instead, _)| Sense::Nothing(instead))
            })
            .or_else(|| {
                let names_a_thing = name == ID || name.ends_with("_id");
                let free = self.known.iter().copied().filter(|it| !self.beside.contains_key(*it));
                let meant = slip(self.name, free).filter(|_| !names_a_thing)?;
                Some(Sense::Name(meant.to_owned()))
            })
    }

    /// The lines of a table that are for this tool and have this word.
    fn lines<'l>(
        &'l self,
        lines: &'l [Synonyms],
        name: &'l str,
    ) -> impl Iterator<Item = &'l Synonyms> {
        let place = if self.is_nested { "repos" } else { self.tool };
        lines.iter().filter(move |(tools, _, words)| {
            let is_here = tools.is_empty() || is_among(tools, place);
            is_here && is_among(words, name)
        })
    }

    /// The first field of the table that the tool has, that is not taken by another value, and that the
    /// word means.
    fn synonym(&self, name: &str) -> Option<Sense> {
        let field = self.lines(NAMES, name).map(|(_, field, _)| *field).find(|field| {
            let (first, rest) = field.split_once('.').unwrap_or((field, ""));
            let taken = self.beside.get(first);
            // A field that is given with another value already is not overwritten: the caller has to
            // decide.
            let is_free = match (taken, rest) {
                (None, _) => true,
                (Some(taken), "") => taken == self.value,
                (Some(taken), rest) => taken.is_object() && taken.get(rest).is_none(),
            };
            self.known.contains(&first) && is_free && (name != ID || self.needed.contains(&first))
        });
        Some(Sense::Name(field?.to_owned()))
    }

    fn other(&self, name: &str) -> Option<Sense> {
        let (field, tool) = OTHERS.iter().find(|(field, _)| *field == name)?;
        self.value.is_string().then_some(Sense::Other(tool, field))
    }

    /// Fields whose values are computed from this one, such as milliseconds from seconds.
    fn worked_out(&self, name: &str) -> Option<Sense> {
        let has = |field: &str| self.known.contains(&field);
        if has("timeout_ms") && self.tool != "stop_attempt" {
            let ms = millis(name, self.value)?;
            return Some(set("timeout_ms", ms, "timeout_ms takes milliseconds."));
        }
        match self.tool {
            "get_attempt_file" => self.lines_of_a_file(name),
            "answer" if name == ID => {
                let of = if self.beside.contains_key("decision") { "approval" } else { "question" };
                Some(Sense::Name(format!("{of}_id")))
            }
            "answer" => decision(name, self.value),
            "stop_attempt" if matches!(name, "signal" | "sig") => signal(self.value),
            "start_task_attempt" | "create_project" if !self.is_nested => {
                if !is_among(BRANCHES, name) {
                    return None;
                }
                match self.beside.get("repos").and_then(Value::as_array).map(Vec::as_slice) {
                    Some([Value::Object(only)]) if !only.contains_key("target_branch") => {
                        Some(set("repos[0].target_branch", self.value.clone(), ""))
                    }
                    _ if self.tool == "start_task_attempt" => Some(Sense::Branch),
                    _ => Some(Sense::Nothing("each of repos has a target_branch of its own")),
                }
            }
            _ => None,
        }
    }

    /// `1-10`, `[1, 10]` or a last line, where the tool takes a number of lines.
    fn lines_of_a_file(&self, name: &str) -> Option<Sense> {
        let is_range = matches!(name, "lines" | "line_range" | "range" | "view_range");
        let (first, last) = match name {
            _ if is_range => range(self.value)?,
            "end_line" | "line_end" | "last_line" | "to_line" => {
                let first = ["start_line", "startLine", "line_start", "from_line"];
                let first = first.iter().find_map(|name| self.beside.get(*name)?.as_u64());
                (first, self.value.as_u64()?)
            }
            _ => return None,
        };
        let end = last.checked_add(1)?;
        let count = end.checked_sub(first.unwrap_or(1)).filter(|count| *count > 0)?;
        let mut values = vec![("line_count".to_owned(), json!(count))];
        if is_range {
            values.extend(first.map(|first| ("start_line".to_owned(), json!(first))));
        }
        Some(Sense::Values(values, "line_count = end_line - start_line + 1."))
    }
}

fn set(field: &str, value: impl Into<Value>, note: &'static str) -> Sense {
    Sense::Values(vec![(field.to_owned(), value.into())], note)
}

/// Milliseconds from a time in another unit. A bare `timeout` of at most 600 counts as seconds: that few
/// milliseconds would make no sense.
fn millis(name: &str, value: &Value) -> Option<u64> {
    let (number, unit) = match value {
        Value::String(text) => {
            let text = text.trim();
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            (text[..end].parse().ok()?, text[end..].trim())
        }
        value => (value.as_f64()?, ""),
    };
    #[expect(clippy::match_same_arms, reason = "the first arm that fits counts")]
    let factor = match (unit, name) {
        ("ms", _) => 1.0,
        ("s" | "sec" | "seconds", _) => 1000.0,
        ("m" | "min" | "minutes", _) => 60_000.0,
        ("", "timeout" | "wait" | "max_wait" | "wait_time") if number > 600.0 => 1.0,
        (
            "",
            "timeout" | "timeout_s" | "timeout_sec" | "timeout_secs" | "timeout_seconds"
            | "seconds" | "wait" | "max_wait" | "wait_time" | "wait_seconds" | "max_wait_seconds",
        ) => 1000.0,
        ("", "timeout_min" | "timeout_minutes" | "minutes") => 60_000.0,
        ("", "timeout_millis" | "timeout_milliseconds" | "wait_ms" | "max_wait_ms") => 1.0,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    #[expect(clippy::cast_sign_loss, reason = "it is positive")]
    Some(number * factor).filter(|ms| *ms >= 1.0).map(|ms| ms as u64)
}

/// First and last line of a range. A single number is a number of lines.
fn range(value: &Value) -> Option<(Option<u64>, u64)> {
    match value {
        Value::Number(count) => Some((None, count.as_u64()?)),
        Value::Array(ends) => match ends.as_slice() {
            [first, last] => Some((Some(first.as_u64()?), last.as_u64()?)),
            _ => None,
        },
        Value::String(text) => {
            let mut ends = text.split(['-', ':', ',']).map(|end| end.trim().parse().ok());
            match (ends.next()?, ends.next(), ends.next()) {
                (Some(first), Some(Some(last)), None) => Some((Some(first), last)),
                (Some(count), None, None) => Some((None, count)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The decision that a field such as `approved: true` or `reject: true` means.
fn decision(name: &str, value: &Value) -> Option<Sense> {
    let said = match value {
        Value::Bool(said) => *said,
        Value::String(text) => matches!(text.to_ascii_lowercase().as_str(), "true" | "yes"),
        _ => return None,
    };
    let approves = match name {
        "approved" | "approve" | "allow" | "allowed" | "accept" | "accepted" => said,
        "denied" | "deny" | "reject" | "rejected" => !said,
        _ => return None,
    };
    Some(set("decision", if approves { "approve" } else { "deny" }, ""))
}

/// The value of `force` that a named signal means.
fn signal(value: &Value) -> Option<Sense> {
    let name = match value {
        Value::String(text) => text.trim().to_ascii_uppercase(),
        value => value.to_string(),
    };
    let force = match name.strip_prefix("SIG").unwrap_or(&name) {
        "KILL" | "9" => true,
        "TERM" | "15" | "INT" | "2" => false,
        _ => return None,
    };
    Some(set("force", force, "Without force a stop interrupts, then terminates, then kills."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sense(tool: &str, name: &str, value: &Value, known: &[&str]) -> Option<Sense> {
        let beside = Map::new();
        let unknown = UnknownField {
            tool,
            is_nested: false,
            name,
            value,
            beside: &beside,
            known,
            needed: known,
        };
        unknown.sense()
    }

    fn is_name(tool: &str, name: &str, known: &[&str], field: &str) {
        assert_eq!(sense(tool, name, &json!("x"), known), Some(Sense::Name(field.to_owned())));
    }

    #[test]
    fn words_of_other_systems_find_the_field_that_says_the_same() {
        is_name("get_attempt_file", "filePath", &["attempt_id", "path"], "path");
        is_name("tail_attempt_logs", "max_lines", &["limit", "max_bytes"], "limit");
        is_name("create_task", "prompt", &["title", "description"], "description");
        is_name("create_task", "acceptance_criteria", &["brief"], "brief.acceptanceCriteria");
        is_name("answer", "id", &["question_id"], "question_id");
        is_name("get_task", "taskId", &["task_id"], "task_id");
        let project = sense("list_inbox", "id", &json!("Q-001"), &[]);
        assert_eq!(project, None);
    }

    #[test]
    fn values_are_worked_out_where_a_name_is_not_enough() {
        let ms = |name: &str, value: Value| match sense("w", name, &value, &["timeout_ms"]) {
            Some(Sense::Values(values, _)) => values[0].1.as_u64(),
            _ => None,
        };
        assert_eq!(ms("timeout", json!(30)), Some(30_000));
        assert_eq!(ms("timeout", json!(30_000)), Some(30_000));
        assert_eq!(ms("timeout", json!("45s")), Some(45_000));
        assert_eq!(ms("timeout_seconds", json!(0.5)), Some(500));
        assert_eq!(ms("timeout", json!("soon")), None);
        assert_eq!(range(&json!("3-10")), Some((Some(3), 10)));
        assert_eq!(range(&json!([3, 10])), Some((Some(3), 10)));
        assert_eq!(range(&json!(7)), Some((None, 7)));
        assert_eq!(sense("get_attempt_file", "lines", &json!(u64::MAX), &["line_count"]), None);
        let kill = sense("stop_attempt", "signal", &json!("SIGKILL"), &["force"]);
        assert!(matches!(kill, Some(Sense::Values(values, _)) if values[0].1 == true));
        for (name, value, decision) in [
            ("approved", json!(true), "approve"),
            ("allow", json!("yes"), "approve"),
            ("reject", json!(true), "deny"),
            ("approved", json!(false), "deny"),
        ] {
            let said = sense("answer", name, &value, &["decision"]);
            assert!(matches!(said, Some(Sense::Values(values, _)) if values[0].1 == decision));
        }
        let branch = sense("start_task_attempt", "base_branch", &json!("main"), &["repos"]);
        assert_eq!(branch, Some(Sense::Branch));
    }

    #[test]
    fn an_id_is_never_taken_for_one_of_another_kind() {
        let looked = sense("stop_attempt", "task_id", &json!("x"), &["attempt_id"]);
        assert_eq!(looked, Some(Sense::Other("list_task_attempts", "task_id")));
        assert_eq!(sense("stop_attempt", "repo_id", &json!("x"), &["attempt_id"]), None);
    }
}
