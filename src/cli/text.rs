//! Text as people see it, harmless to a terminal. Pure.

use std::fmt::Write as _;

use provost_actors::text::is_unseen;

/// The text with all characters escaped that could control a terminal, reorder text, or do not show. Line
/// breaks are escaped too, so the result is one line; tabs stay.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_unseen(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// JSON of the same value that can't control a terminal: these characters become `\u` escapes of UTF-16,
/// which are valid because valid JSON has the characters only in strings.
pub fn harmless_json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string can't fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
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
            prop_assert!(!safe.contains(|c: char| c == '\n' || is_unseen(c)));
        }

        #[test]
        fn harmless_json_is_the_same_value_and_can_not_steer_a_terminal(text in any::<String>()) {
            let text = format!("{text}\u{9b}31m\u{202e}\u{7f}\u{e0061}");
            let safe = harmless_json(&serde_json::to_string_pretty(&[&text]).unwrap());
            prop_assert!(!safe.contains(is_unseen));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), vec![text]);
        }
    }
}
