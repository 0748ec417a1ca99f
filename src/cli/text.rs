//! Text as people see it: made harmless to a terminal, shortened, spelled out. Pure.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// One line without control characters and those that reorder text: they are escaped.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\t' && steers(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// JSON of the same value that can't steer a terminal. Such characters occur in strings only.
pub fn harmless_json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && steers(c) {
            // Writing to a string can't fail; all of them fit into 16 bits.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Control characters, and the bidirectional controls: marks, overrides and isolates (Unicode
/// Standard Annex 9).
fn steers(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders
}

/// The first line of a text, cut to a number of characters.
pub fn headline(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// Text on one line, with its line breaks visible.
pub fn one_line(text: &str) -> String {
    text.replace('\n', " ⏎ ")
}

/// The word that stands for a value in the daemon's answers: `in_review`.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_headline_is_the_first_line_and_no_longer_than_asked() {
        assert_eq!(headline("  fix it \n\nmore", 80), "fix it");
        assert_eq!(headline("abcdef", 6), "abcdef");
        assert_eq!(headline("abcdefg", 6), "abcde…");
        assert_eq!(headline("", 6), "");
    }

    proptest! {
        #[test]
        fn nothing_harmless_can_steer_a_terminal(text in any::<String>()) {
            let safe = harmless(&text);
            prop_assert!(safe.chars().all(|c| c == '\t' || !steers(c)));
        }

        #[test]
        fn harmless_json_is_the_same_value_and_can_not_steer_a_terminal(text in any::<String>()) {
            let text = format!("{text}\u{9b}31m\u{202e}\u{7f}");
            let safe = harmless_json(&serde_json::to_string_pretty(&[&text]).unwrap());
            prop_assert!(safe.chars().all(|c| c == '\n' || !steers(c)));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), vec![text]);
        }

        #[test]
        fn headlines_fit(text in any::<String>(), most in 1..100usize) {
            prop_assert!(headline(&text, most).chars().count() <= most);
        }
    }
}
