//! Words of the commands that hints name, for a POSIX shell. Pure.

/// The word as a shell reads it: as it is, where it has nothing that a shell
/// looks at, else in single quotes.
pub fn quoted(word: &str) -> String {
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
    fn a_word_is_one_word_whatever_is_in_it() {
        assert_eq!(quoted("/src/app-1.0"), "/src/app-1.0");
        assert_eq!(quoted("my app; rm -r ~"), "'my app; rm -r ~'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
