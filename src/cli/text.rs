//! Text as people see it, harmless to a terminal. Pure.

use std::fmt::Write as _;

use crate::work::labels::steers;

/// The text with all characters escaped that could control a terminal or reorder text. Line breaks are
/// escaped too, so the result is one line; tabs stay.
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

/// JSON of the same value that can't control a terminal: these characters become `\u` escapes, which are
/// valid because valid JSON has the characters only in strings.
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

/// Text on one line; a line break becomes ` ⏎ `.
pub fn one_line(text: &str) -> String {
    text.replace('\n', " ⏎ ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    }
}
