//! The name that a slightly wrong one probably means, for hints. Pure.

use heck::ToSnakeCase;

/// How alike two names must be (Jaro-Winkler, 0 to 1) for one to be taken for the other.
const ALIKE: f64 = 0.84;

/// The name most like the given one; `taskId` is like `task_id`. `None`: none is like it.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_snake_case();
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, &name.to_snake_case()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// The nearest name, if it differs by one letter only, or by two in a name of 8 letters or more. Stricter
/// than [`nearest`], for a guess at a field, or at a tool that changes something.
pub fn slip<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let short = given.to_snake_case();
    let most = (short.chars().count() / 4).clamp(1, 2);
    nearest(given, names).filter(|name| strsim::osa_distance(&short, &name.to_snake_case()) <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_and_typing_slips_find_the_name_that_was_meant() {
        let fields = ["task_id", "title", "depends_on", "request_id"];
        let near = |given| nearest(given, fields);
        assert_eq!(near("taskId"), Some("task_id"));
        assert_eq!(near("TaskID"), Some("task_id"));
        assert_eq!(near("dependsOn"), Some("depends_on"));
        assert_eq!(near("request-id"), Some("request_id"));
        assert_eq!(near("tilte"), Some("title"));
        assert_eq!(near("wombat"), None);
        assert_eq!(nearest("Claude-Code", ["claude-code", "codex"]), Some("claude-code"));
        assert_eq!(slip("tilte", fields), Some("title"));
        assert_eq!(slip("max_lines", ["max_bytes"]), None);
        assert_eq!(slip("start_attempt", ["stop_attempt"]), None);
    }
}
