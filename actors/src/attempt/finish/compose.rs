//! The messages of commits, given or made, and the texts of pull requests. Pure.

use crate::ids::AttemptId;
use crate::journal::Receipt;
use crate::text::cut;

/// How many lines of the agent's last message a commit message has, and how many characters of each.
const LINES: usize = 20;
const LINE_MAX: usize = 400;
/// How many characters its first line has.
const TITLE_MAX: usize = 120;

/// The message of a commit if the caller gives none: the task's title, the agent's last message, and the
/// trailers of [`signed`].
pub fn message(
    title: &str,
    last_words: Option<&str>,
    attempt: AttemptId,
    executor: &str,
) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts = vec![cut(title, TITLE_MAX)];
    let words = last_words.unwrap_or_default().trim();
    let words: Vec<String> =
        words.lines().take(LINES).map(|line| cut(line.trim_end().to_owned(), LINE_MAX)).collect();
    if !words.is_empty() {
        parts.push(words.join("\n").trim_end().to_owned());
    }
    signed(&parts.join("\n\n"), attempt, executor)
}

/// A message with trailers that name the attempt and its agent, if it lacks them. A NUL is removed: git gets
/// the message as an argument, which can't contain one.
pub fn signed(message: &str, attempt: AttemptId, executor: &str) -> String {
    let message = message.replace('\0', "");
    let message = message.trim_end();
    let trailers = [format!("Provost-Attempt: {attempt}"), format!("Agent: {executor}")];
    let lacks = |trailer: &String| !message.lines().any(|line| line == trailer);
    let trailers: Vec<String> = trailers.into_iter().filter(lacks).collect();
    let last = message.rsplit_once("\n\n").map(|(_, last)| last);
    let has_trailers = last.is_some_and(|last| last.lines().all(is_trailer));
    let gap = if has_trailers { "\n" } else { "\n\n" };
    format!("{message}{gap}{}", trailers.join("\n")).trim().to_owned()
}

/// `Key: value`, in the form of git-interpret-trailers(1).
fn is_trailer(line: &str) -> bool {
    let key = line.split_once(": ").map_or("", |(key, _)| key);
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// The title and the text of a pull request: the first line and the rest of the commit message, and what the
/// checks found.
pub fn proposal(message: &str, receipts: &[Receipt]) -> (String, String) {
    let (title, text) = message.split_once('\n').unwrap_or((message, ""));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
    if !receipts.is_empty() {
        let lines = receipts.iter().map(|receipt| format!("- the {receipt}"));
        parts.push(format!("Checks:\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    (title.trim().to_owned(), parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_title_last_words_and_trailers() {
        let id = AttemptId::new();
        let trailers = format!("Provost-Attempt: {id}\nAgent: fake");
        let made = message("Fix\nit", Some("Done.\n\nAll \0pass.\n"), id, "fake");
        assert_eq!(made, format!("Fix it\n\nDone.\n\nAll pass.\n\n{trailers}"));
        assert_eq!(message("Fix it", None, id, "fake"), format!("Fix it\n\n{trailers}"));
        assert_eq!(signed(&made, id, "fake"), made, "it has them");
        assert_eq!(signed("Mine\n", id, "fake"), format!("Mine\n\n{trailers}"));
        let reviewed = signed("Mine: it\n\nReviewed-by: Ann", id, "fake");
        assert_eq!(reviewed, format!("Mine: it\n\nReviewed-by: Ann\n{trailers}"));
        let (title, text) = proposal(&made, &[]);
        assert_eq!((title.as_str(), text), ("Fix it", format!("Done.\n\nAll pass.\n\n{trailers}")));
        let long = message("t", Some(&"line\n".repeat(100)), id, "fake");
        assert_eq!(long.lines().filter(|line| *line == "line").count(), LINES);
    }
}
