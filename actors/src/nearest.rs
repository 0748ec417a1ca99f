//! The name that a slightly wrong one means. Pure.

use heck::ToSnakeCase;

/// How alike two names must be for one to be taken for the other (Jaro-Winkler).
const ALIKE: f64 = 0.84;

/// The name most like the one given; `taskId` is like `task_id`.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_snake_case();
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&given, &name.to_snake_case()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// The nearest name, if it is only a letter or two away.
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
