//! How a field of a call is named in refusals, and which tool lists its values. Pure.

use provost_actors::text::cut;

/// In a refusal's details: the field that names a branch for repositories that the call
/// does not name.
pub const BRANCH_FIELD: &str = "branch_field";

/// The tool that returns the values of a field, for the fields that name things.
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

/// The field that a path ends with: `depends_on[1]` ends with `depends_on`.
pub fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path).split('[').next().unwrap_or(path)
}

/// How much of a path is shown, in characters.
const PATH_TOLD: usize = 200;

/// `/repos/0` and `path` make `repos[0].path`.
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
    // A name that is no field's may be of any length.
    cut(path, PATH_TOLD)
}

/// `repos[0].path` becomes `/repos/0/path`.
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
