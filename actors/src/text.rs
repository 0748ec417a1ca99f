//! Shortening of texts. Pure.

use std::fmt::Write;

/// Most characters shown of a name that may be of any length.
pub const NAME_TOLD: usize = 100;

/// At most `most` characters; a cut text ends in `…`.
pub fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// At most `most` characters, the end of the text; a cut one begins with `…`.
pub fn cut_front(text: String, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text;
    }
    let kept = most.saturating_sub(1);
    std::iter::once('…').chain(text.chars().skip(count - kept)).collect()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
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
}
