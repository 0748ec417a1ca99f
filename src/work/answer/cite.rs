//! Citations of an executor that answers a question: it gets the best passages with their ids, and names the
//! one that answers. The daemon verifies the quoted words. Pure.

use std::fmt::Write as _;

use super::Hit;

/// How many passages an executor gets.
pub const GIVEN: usize = 20;

/// The least number of characters that a quote must have, unless it is the whole passage.
const QUOTE_MIN: usize = 8;

/// How the line begins by which an executor cites a passage.
const MARK: &str = "PASSAGE ";

/// The part of an executor's prompt with the passages, and with how to cite one; empty without passages.
pub fn prompt(passages: &[Hit]) -> String {
    let mut prompt = String::new();
    if passages.is_empty() {
        return prompt;
    }
    prompt.push_str("\n\nThese passages of the project's plan match the question best:\n");
    for hit in passages {
        let Hit { id, source, .. } = hit;
        let _ = write!(prompt, "\n[{id}] {source}, {}:\n{}\n", hit.place(), hit.passage().quote);
    }
    let _ = write!(
        prompt,
        "\nIf one of them answers the question, end your last message with a line\n\
         {MARK}<id>: <the words that answer, copied verbatim from that passage>\n\
         If none does, write no such line."
    );
    prompt
}

/// The prompt of an executor that answers a question. `context` is the asker's context as JSON; `passages` is
/// the text of [`prompt`].
pub fn consultation(question: &str, context: Option<&str>, passages: &str) -> String {
    let context = context.map(|json| format!("\n\nThe asker's context, as JSON:\n{json}"));
    format!(
        "Another agent works on this code and asks:\n\n{question}{}{passages}\n\nLook at the \
         code where that helps, and change nothing: this is a copy, and your changes are thrown \
         away. Your last message is the answer: short, with the files and lines that support it. \
         If you find no answer, say so.",
        context.unwrap_or_default()
    )
}

/// A passage that an executor cites, and the words that it quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    pub id: i64,
    pub words: String,
}

impl Citation {
    /// The citation in the last line of an executor's answer; `None`: there is none.
    pub fn of(answer: &str) -> Option<Self> {
        let line = answer.lines().rev().find(|line| !line.trim().is_empty())?;
        let (id, words) = line.trim().strip_prefix(MARK)?.split_once(':')?;
        let id = id.trim().trim_matches(['[', ']']).parse().ok()?;
        let words = words.trim().trim_matches(['"', '“', '”', '`']).trim();
        Some(Self { id, words: words.to_owned() })
    }

    /// Whether the words are in the passage verbatim, and in the passage's lines of the document. White space
    /// counts as one space.
    pub fn is_verbatim(&self, hit: &Hit, document: &str) -> bool {
        let passage = hit.passage();
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = passage.last_line.saturating_sub(passage.first_line) + 1;
        let lines = document.lines().skip(passage.first_line.saturating_sub(1)).take(count);
        let lines = one_line(&lines.collect::<Vec<_>>().join("\n"));
        let words = one_line(&self.words);
        let is_enough = words.chars().count() >= QUOTE_MIN || words == one_line(&passage.text);
        is_enough && lines.contains(&words) && one_line(&passage.quote).contains(&words)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::plan::{self, Format};
    use super::*;

    const TEXT: &str = "# Net\n\nClients speak a UDP\nprotocol. It is ours.\n";

    fn hit() -> Hit {
        let section = plan::sections(Format::Markdown, TEXT).unwrap().remove(0);
        Hit {
            id: 7,
            source: "a.md".to_owned(),
            version: "1".to_owned(),
            section: Arc::new(section),
            number: 0,
            score: 1.0,
        }
    }

    #[test]
    fn the_last_line_cites() {
        let cited = Citation::of("It is UDP.\n\nPASSAGE [7]: \"a UDP protocol\"\n\n").unwrap();
        assert_eq!(cited, Citation { id: 7, words: "a UDP protocol".to_owned() });
        for none in ["", "PASSAGE x: y", "PASSAGE 7: y\nBut I am not sure.", "PASSAGE 7"] {
            assert_eq!(Citation::of(none), None, "{none}");
        }
        assert!(prompt(&[hit()]).contains("[7] a.md, Net:\nClients speak a UDP\nprotocol."));
    }

    #[test]
    fn only_words_that_stand_in_these_lines_are_verbatim() {
        let is_verbatim = |words: &str, document: &str| {
            Citation { id: 7, words: words.to_owned() }.is_verbatim(&hit(), document)
        };
        assert!(is_verbatim("speak a UDP protocol", TEXT));
        for other in ["", "UDP", "speak a TCP protocol", "Speak a UDP protocol", "# Net Clients"] {
            assert!(!is_verbatim(other, TEXT), "{other}");
        }
        assert!(!is_verbatim("speak a UDP protocol", "# Net\n\nSomething else.\n"));
    }
}
