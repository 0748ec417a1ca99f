//! Texts that the command line and the page write in the same way. Pure.

use serde::Serialize;
use serde_json::Value;

/// The word for a value in the daemon's answers, such as `inreview`. Empty for null.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

/// The first line of a text, cut to `most` characters with `…` at the end.
pub fn headline(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
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
        fn headlines_fit(text in any::<String>(), most in 1..100usize) {
            prop_assert!(headline(&text, most).chars().count() <= most);
        }
    }
}
