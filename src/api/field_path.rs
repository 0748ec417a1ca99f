//! How refusals name a field of a call, and which tool lists its values. Pure.

use provost_actors::text::cut;

/// A detail of a refusal: the field that names a branch for those repositories that the call does not name.
pub const BRANCH_FIELD: &str = "branch_field";

/// The tool that lists the values of a field; `None`: the field names nothing that a tool lists.
pub fn source(field: &str) -> Option<&'static str> {
    Some(match field {
        "project_id" => "list_projects",
        "repo_id" => "list_repos",
        "task_id" | "depends_on" => "list_tasks",
        "attempt_id" | "attempt_ids" => "list_task_attempts",
        "paths" => "get_attempt_changes",
        "session_id" => "get_attempt_status",
        "executor" => "list_executors",
        _ => return None,
    })
}

/// The field at the end of a path: `depends_on[1]` ends with `depends_on`.
pub fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path).split('[').next().unwrap_or(path)
}

/// The length to which a path is cut in refusals, in characters.
const PATH_SHOWN_MAX: usize = 200;

/// The path of a field below a JSON pointer: `/repos/0` and `path` give `repos[0].path`.
pub fn join(pointer: &str, field: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1).chain((!field.is_empty()).then_some(field)) {
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            path.extend(["[", step, "]"]);
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(step);
        }
    }
    // An unknown field of a caller may have a name of any length.
    cut(path, PATH_SHOWN_MAX)
}

/// The JSON pointer of a path: `/repos/0/path` for `repos[0].path`.
pub fn pointer_of(path: &str) -> String {
    format!("/{}", path.replace('[', "/").replace(']', "").replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_people_write_them() {
        assert_eq!(join("/repos/0", "path"), "repos[0].path");
        assert_eq!(join("", "limit"), "limit");
        assert_eq!(join("/attempt_ids/12", ""), "attempt_ids[12]");
        assert_eq!(pointer_of("repos[0].path"), "/repos/0/path");
    }
}
