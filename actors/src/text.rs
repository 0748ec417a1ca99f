//! Texts for output: shortened, as hexadecimal digits, or quoted for a shell. Pure.

use std::fmt::Write;

/// Most characters that are shown of a name of any length.
pub const NAME_SHOWN_MAX: usize = 100;

/// The beginning of a text, at most `most` characters; a text that was cut ends in `…`, which counts.
pub fn cut(mut text: String, most: usize) -> String {
    if text.char_indices().nth(most).is_some() {
        let kept = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(end, _)| end);
        text.truncate(kept);
        text.push('…');
    }
    text
}

/// The end of a text, at most `most` characters; a text that was cut begins with `…`, which counts.
pub fn cut_front(text: String, most: usize) -> String {
    if text.char_indices().nth_back(most).is_none() {
        return text;
    }
    let kept = most.checked_sub(2).and_then(|back| text.char_indices().nth_back(back));
    format!("…{}", kept.map_or("", |(start, _)| &text[start..]))
}

/// Bytes as hexadecimal digits, in small letters.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A word as a POSIX shell reads it as one: unchanged if it has only characters without a meaning for a
/// shell, else in single quotes.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | ':' | '+' | '@')
    };
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so_and_is_no_longer_than_it_may_be() {
        assert_eq!(cut("öäü".to_owned(), 3), "öäü");
        assert_eq!(cut("öäüß".to_owned(), 3), "öä…");
        assert_eq!(cut_front("öäü".to_owned(), 3), "öäü");
        assert_eq!(cut_front("öäüß".to_owned(), 3), "…üß");
    }

    #[test]
    fn a_word_is_one_word_whatever_is_in_it() {
        assert_eq!(shell_word("/src/app-1.0"), "/src/app-1.0");
        assert_eq!(shell_word("my app; rm -r ~"), "'my app; rm -r ~'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
