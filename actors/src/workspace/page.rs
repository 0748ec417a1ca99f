//! Which piece of a file to return: bytes or lines, never a character cut in two, and never an empty
//! piece before the end. Pure.

/// The piece of a file that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// At most `max_bytes` from an offset on. A single longer character is returned all the same.
    Bytes { offset: u64, max_bytes: usize },
    /// `count` lines from line `start` on, counted from 1, as far as they fit into `max_bytes`.
    Lines { start: u64, count: u64, max_bytes: usize },
}

impl Range {
    /// The limit, for either kind.
    pub fn max_bytes(self) -> usize {
        match self {
            Self::Bytes { max_bytes, .. } | Self::Lines { max_bytes, .. } => max_bytes,
        }
    }
}

/// How much of a window is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// In bytes, from the window's beginning.
    pub len: usize,
    /// How many lines these are; a line that is cut counts, too.
    pub lines: u64,
    /// The first line alone was longer than the limit, so a part of it is returned.
    pub in_line: bool,
}

/// Bytes to read beyond the limit, so that the last character is complete: UTF-8 has 4 bytes at most.
pub const BEYOND: usize = 3;

/// How many bytes of a window to return. `window` may have [`BEYOND`] bytes more than the limit.
/// `is_end`: the file ends with the window.
pub fn bytes(window: &[u8], max_bytes: usize, is_end: bool) -> usize {
    if window.len() <= max_bytes && is_end {
        return window.len();
    }
    let most = max_bytes.min(window.len());
    let at = characters(window, most);
    if at > 0 {
        return at;
    }
    // Not even one character fits. It is returned all the same: an empty piece would mean the end.
    let end = (most..=window.len()).find(|end| std::str::from_utf8(&window[..*end]).is_ok());
    end.filter(|end| *end > 0).unwrap_or(most)
}

/// The last position up to `most` that cuts no character in two; `most` itself where the bytes are not
/// UTF-8.
fn characters(window: &[u8], most: usize) -> usize {
    match std::str::from_utf8(&window[..most]) {
        // `error_len` is `None`: the bytes end within what may be a character.
        Err(error) if error.error_len().is_none() => {
            let rest = &window[error.valid_up_to()..];
            let is_one =
                (1..=rest.len().min(4)).any(|len| std::str::from_utf8(&rest[..len]).is_ok());
            if is_one { error.valid_up_to() } else { most }
        }
        _ => most,
    }
}

/// Cuts whole lines from a window that begins at a line, or within a long one. A line that does not fit
/// is left for the next call, unless it is the first.
pub fn lines(window: &[u8], count: u64, max_bytes: usize, is_end: bool) -> Cut {
    let mut cut = Cut { len: 0, lines: 0, in_line: false };
    while cut.lines < count {
        let rest = &window[cut.len..];
        let end = match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if is_end && !rest.is_empty() => rest.len(),
            None => break,
        };
        if cut.len + end > max_bytes {
            break;
        }
        cut.len += end;
        cut.lines += 1;
    }
    if cut.lines == 0 && count > 0 && !window.is_empty() {
        return Cut { len: bytes(window, max_bytes, is_end), lines: 1, in_line: true };
    }
    cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_character_is_never_cut_and_never_held_back_for_ever() {
        let text = "aä€😀".as_bytes();
        let cut = |max| bytes(text, max, true);
        assert_eq!((1..=10).map(cut).collect::<Vec<_>>(), [1, 1, 3, 3, 3, 6, 6, 6, 6, 10]);
        assert_eq!(bytes("😀".as_bytes(), 1, true), 4);
        assert_eq!(bytes(b"\xff\xff\xff", 2, true), 2);
        assert_eq!(bytes(b"", 2, true), 0);
    }

    #[test]
    fn lines_are_whole_and_a_giant_one_is_begun() {
        let cut = |len, lines, in_line| Cut { len, lines, in_line };
        assert_eq!(lines(b"one\ntwo\nthree", 2, 100, true), cut(8, 2, false));
        assert_eq!(lines(b"one\ntwo\nthree", 9, 100, true), cut(13, 3, false));
        assert_eq!(lines(b"one\ntwo\nthree", 9, 9, true), cut(8, 2, false));
        assert_eq!(lines(b"one\ntwo\nthr", 9, 100, false), cut(8, 2, false));
        assert_eq!(lines(b"giant line", 9, 4, true), cut(4, 1, true));
        assert_eq!(lines(b"", 9, 4, true), cut(0, 0, false));
    }

    proptest! {
        #[test]
        fn pages_of_text_put_together_are_the_text(text in any::<String>(), max in 1..9usize) {
            let (all, mut at, mut read) = (text.as_bytes(), 0, String::new());
            while at < all.len() {
                let end = (at + max + BEYOND).min(all.len());
                let len = bytes(&all[at..end], max, end == all.len());
                prop_assert!(len > 0 && len <= max + BEYOND);
                read.push_str(std::str::from_utf8(&all[at..at + len]).unwrap());
                at += len;
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn pages_of_bytes_put_together_are_the_bytes(
            all in proptest::collection::vec(any::<u8>(), 0..60), max in 1..9usize,
        ) {
            let mut at = 0;
            while at < all.len() {
                let end = (at + max + BEYOND).min(all.len());
                let len = bytes(&all[at..end], max, end == all.len());
                prop_assert!(len > 0 && at + len <= all.len());
                at += len;
            }
        }

        #[test]
        fn a_cut_of_lines_ends_with_one(text in "[a\n]{0,40}", count in 1..9u64, max in 1..30usize) {
            let cut = lines(text.as_bytes(), count, max, true);
            prop_assert!(cut.lines <= count && cut.len <= max);
            prop_assert!(text.is_empty() || cut.len > 0);
            let is_whole = cut.len == text.len() || text[..cut.len].ends_with('\n');
            prop_assert!(cut.in_line || is_whole);
        }
    }
}
