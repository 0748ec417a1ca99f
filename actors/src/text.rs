//! Texts for output: shortened, as hexadecimal digits, or quoted for a shell; what does not show. Pure.

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

/// Whether a character does not show, or changes how other text shows: control characters other than tabs
/// and line breaks, separators of lines, and the `Default_Ignorable_Code_Point`s of Unicode without the
/// variation selectors of emoji. With them, code can look like other code ("Trojan Source", CVE-2021-42574).
pub fn is_unseen(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_without_a_glyph_is_unseen_and_text_in_any_script_is_not() {
        let unseen = "\r\u{1b}\u{7f}\u{9b}\u{ad}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{202e}\u{2028}\
                      \u{2060}\u{2061}\u{2064}\u{2066}\u{3164}\u{feff}\u{e0061}\u{e0100}";
        assert!(unseen.chars().all(is_unseen));
        assert!(!"\t\n aä→ж你か한🙂❤\u{fe0f}e\u{301}\u{a0}".contains(is_unseen));
    }

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
